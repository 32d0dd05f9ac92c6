"""The pods of an indexed Kubernetes Job, from the variables of its manifest. Pure Python."""

import pytest

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import Processes, find_processes, format_tf_config
from mtf_imaging.errors import ConfigError


def pod(**variables):
    """Returns the variables of pod 2 of 3; None removes a variable."""
    own = {
        "MTF_IMAGING_PROCESSES": "3",
        "MTF_IMAGING_SERVICE": "unet",
        "JOB_COMPLETION_INDEX": "2",
        "HOSTNAME": "my-unet-2",
    }
    return {name: value for name, value in (own | variables).items() if value is not None}


def addresses(service="unet"):
    return tuple(Address(f"my-unet-{index}.{service}", 2222) for index in range(3))


def test_the_pods_of_a_job():
    assert find_processes(pod()) == Processes(addresses(), 2)
    assert find_processes(pod(JOB_COMPLETION_INDEX="0", HOSTNAME="my-unet-0")) == Processes(addresses(), 0)
    assert find_processes(pod(MTF_IMAGING_SERVICE="unet.research")) == Processes(addresses("unet.research"), 2)
    assert find_processes(pod(MTF_IMAGING_TIMEOUT="600")).timeout == 600.0


@pytest.mark.parametrize(
    "environ",
    [
        {"JOB_COMPLETION_INDEX": "2", "HOSTNAME": "my-unet-2"},  # the pods of the Job are independent
        pod(MTF_IMAGING_PROCESSES=" "),
        {"MTF_IMAGING_PROCESSES": "1"},
    ],
)
def test_other_processes_run_alone(environ):
    assert find_processes(environ) is None


def test_tf_config_takes_precedence_over_kubernetes_and_kubernetes_over_slurm():
    others = (Address("a", 1), Address("b", 1))
    assert find_processes(pod(TF_CONFIG=format_tf_config(others, 1))) == Processes(others, 1)
    step = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    assert find_processes(pod(**step)) == Processes(addresses(), 2)
    with pytest.raises(ConfigError, match="SLURM_STEP_NODELIST is not set"):
        find_processes(step)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {"MTF_IMAGING_PROCESSES": "two"},
            "MTF_IMAGING_PROCESSES=two: is not a non-negative integer such as 4. Fix: set it to the number of pods, "
            "the `completions` of the Job.",
        ),
        ({"MTF_IMAGING_PROCESSES": "0"}, "MTF_IMAGING_PROCESSES=0: a Job has at least one pod. Fix: "),
        ({"MTF_IMAGING_PROCESSES": "-3"}, "MTF_IMAGING_PROCESSES=-3: is not"),
        (
            {"MTF_IMAGING_PROCESSES": "2"},
            "this pod has the number 2 (JOB_COMPLETION_INDEX), but the 2 pods (MTF_IMAGING_PROCESSES) have the numbers "
            "0 to 1. Fix: set MTF_IMAGING_PROCESSES, `completions` and `parallelism` to the same number.",
        ),
        (
            {"JOB_COMPLETION_INDEX": None},
            "JOB_COMPLETION_INDEX is not set, but MTF_IMAGING_PROCESSES is. Fix: give the Job `completionMode: ",
        ),
        ({"JOB_COMPLETION_INDEX": "x"}, "JOB_COMPLETION_INDEX=x: is not a non-negative integer"),
        (
            {"MTF_IMAGING_SERVICE": None},
            "MTF_IMAGING_SERVICE is not set, but MTF_IMAGING_PROCESSES is. Fix: set it to the `subdomain` of the ",
        ),
        ({"MTF_IMAGING_SERVICE": "unet:2222"}, "MTF_IMAGING_SERVICE=unet:2222: is not the name of a service such as"),
        ({"MTF_IMAGING_SERVICE": "Unet"}, "MTF_IMAGING_SERVICE=Unet: is not"),
        ({"MTF_IMAGING_SERVICE": ".unet"}, "MTF_IMAGING_SERVICE=.unet: is not"),
        ({"HOSTNAME": None}, "HOSTNAME is not set, but MTF_IMAGING_PROCESSES is. Fix: set it to the host name"),
        (
            {"HOSTNAME": "node7"},
            "HOSTNAME=node7: does not end with -2, the number of this pod (JOB_COMPLETION_INDEX). Fix: remove ",
        ),
        ({"HOSTNAME": "my-unet-12"}, "HOSTNAME=my-unet-12: does not end with -2,"),
        ({"HOSTNAME": "-2"}, "HOSTNAME=-2: does not end with"),
    ],
)
def test_errors_in_the_variables_of_a_job(variables, text):
    with pytest.raises(ConfigError) as error:
        find_processes(pod(**variables))
    assert text in str(error.value)
