"""The processes of one program, from TF_CONFIG or from the variables of Slurm. Pure Python."""

import json
import os
import subprocess
import sys

import pytest

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import Processes, find_processes, format_tf_config
from mtf_imaging.engine.processes.slurm import expand_counts, expand_nodes
from mtf_imaging.errors import ConfigError

A, B, C = Address("a", 1), Address("a", 2), Address("b", 1)


def tf_config(cluster, kind="worker", index=0, **variables):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}), **variables}


def slurm(**variables):
    """Returns the variables of task 3 of 5, on two nodes."""
    step = {
        "SLURM_JOB_ID": "0",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": "99",
        "SLURM_STEP_NUM_TASKS": "5",
        "SLURM_STEP_NODELIST": "gpu[08-09]",
        "SLURM_STEP_TASKS_PER_NODE": "3,2",
        "SLURM_PROCID": "3",
        "SLURM_NODEID": "1",
        "SLURM_LOCALID": "0",
    }
    step |= variables
    return {name: value for name, value in step.items() if value is not None}


def message(environ):
    with pytest.raises(ConfigError) as error:
        find_processes(environ)
    return str(error.value)


def test_properties_of_processes():
    processes = Processes((A, B, C), 1)
    assert (processes.num, processes.num_hosts, processes.own, processes.timeout) == (3, 2, B, 60.0)
    assert not processes.is_first
    assert Processes((A, B, C), 0).is_first
    assert processes.name(2) == "process 2 (b:1)"
    assert Processes((Address("fe80::1", 4),), 0).name(0) == "process 0 ([fe80::1]:4)"


@pytest.mark.parametrize(
    ("addresses", "index", "timeout", "text"),
    [
        ((), 0, 60.0, "needs at least one process, but there are 0 addresses."),
        ((A, B, A), 0, 60.0, "processes 0 and 2 have the same address, a:1. Fix: "),
        ((A, B), 2, 60.0, "has the number 2, but the 2 processes have the numbers 0 to 1."),
        ((A, B), -1, 60.0, "has the number -1, but"),
        ((A, B), True, 60.0, "has the number True, but"),
        ((A, B), 0, 0.0, "timeout must be a positive number of seconds such as 60, not 0.0."),
        ((A, B), 0, float("nan"), "not nan."),
        ((A, B), 0, float("inf"), "not inf."),
        ((A, B), 0, "5", "not '5'."),
    ],
)
def test_invalid_processes_are_refused(addresses, index, timeout, text):
    with pytest.raises(ConfigError) as error:
        Processes(addresses, index, timeout)
    assert text in str(error.value)


@pytest.mark.parametrize("environ", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": " {} "}, tf_config({"worker": ["a:1"]})])
def test_one_process_runs_alone(environ):
    assert find_processes(environ) is None


def test_workers_of_tf_config():
    environ = tf_config({"worker": ["a:1", "a:2", "b:1"]}, index=2)
    assert find_processes(environ) == Processes((A, B, C), 2)


def test_the_environment_of_this_process_is_the_default(monkeypatch):
    monkeypatch.setitem(os.environ, "TF_CONFIG", format_tf_config((A, C), 1))
    assert find_processes() == Processes((A, C), 1)


def test_the_chief_is_process_0():
    cluster = {"worker": ["a:2", "b:1"], "chief": ["a:1"]}
    assert find_processes(tf_config(cluster, "chief")) == Processes((A, B, C), 0)
    assert find_processes(tf_config(cluster, "worker", 0)) == Processes((A, B, C), 1)
    assert find_processes(tf_config(cluster, "worker", "1")) == Processes((A, B, C), 2)
    assert find_processes(tf_config({"chief": ["a:1"]}, "chief")) is None


def test_other_parts_of_tf_config_are_ignored():
    config = json.loads(tf_config({"worker": ["a:1", "b:1"]})["TF_CONFIG"]) | {"environment": "cloud", "job": {}}
    assert find_processes({"TF_CONFIG": json.dumps(config)}) == Processes((A, C), 0)


TWO = {"worker": ["a:1", "b:1"]}


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"TF_CONFIG": "{'cluster'"}, "TF_CONFIG={'cluster': it is not valid JSON: Expecting property name"),
        ({"TF_CONFIG": "[]"}, "it has no object 'cluster'"),
        ({"TF_CONFIG": '{"cluster": {}}'}, "it has no object 'task'"),
        ({"TF_CONFIG": '{"cluster": [], "task": {}}'}, "it has no object 'cluster'"),
        (tf_config(TWO | {"ps": ["c:1"]}), "'cluster' has 'ps', but all processes run the same program, as workers."),
        (tf_config(TWO | {"evaluator": ["c:1"]}), "'cluster' has 'evaluator', but"),
        (tf_config(TWO | {"chief": ["c:1", "d:1"]}), "'chief' has 2 addresses, but there can be only one chief."),
        (tf_config(TWO, "ps"), """the type of the task is "ps", but must be 'worker' or 'chief'."""),
        (tf_config(TWO, "evaluator"), 'the type of the task is "evaluator", but'),
        (tf_config(TWO, None), "the type of the task is null, but"),
        (tf_config(TWO, "chief"), "the index of the task is 0, but 'chief' has 0 addresses."),
        (tf_config(TWO, "worker", 2), "the index of the task is 2, but 'worker' has 2 addresses."),
        (tf_config(TWO, "worker", -1), "the index of the task is -1, but 'worker' has 2 addresses."),
        (tf_config(TWO, "worker", "x"), 'the index of the task is "x", but must be an integer.'),
        (tf_config(TWO, "worker", True), "the index of the task is true, but must be an integer."),
        (tf_config(TWO, "worker", None), "the index of the task is null, but must be an integer."),
        (tf_config({"worker": []}), "'worker' has 0 addresses."),
        (tf_config({"worker": "a:1"}), """'worker' is "a:1", but must be a list of addresses."""),
        (tf_config({"worker": [1, 2]}), "'worker' is [1, 2], but must be a list of addresses."),
        (tf_config({"worker": ["a:1,b:1"]}), "'a:1,b:1' is not host:port."),
        (tf_config({"worker": ["a:1", "b"]}), "'b' is not host:port. Fix: write 'b:2222'."),
        (tf_config({"worker": ["a:1", "a:1"]}), "'a:1' appears more than once."),
        (tf_config({"worker": ["a:1", "localhost:1"]}), "'localhost' is a different host on each host."),
    ],
)
def test_errors_in_tf_config_show_the_value_and_an_example(environ, text):
    error = message(environ)
    assert text in error
    assert error.startswith(f"TF_CONFIG={environ['TF_CONFIG']}: ")
    _, example = error.split("Example: TF_CONFIG=")
    assert find_processes({"TF_CONFIG": example.strip("'")}).num == 2


def test_the_tasks_of_a_step_in_blocks():
    processes = find_processes(slurm())
    assert processes.index == 3
    assert [str(address) for address in processes.addresses] == [
        "gpu08:10000",
        "gpu08:10001",
        "gpu08:10002",
        "gpu09:10000",
        "gpu09:10001",
    ]
    assert processes.num_hosts == 2


def test_all_tasks_of_a_step_have_the_same_addresses():
    positions = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    steps = [
        find_processes(slurm(SLURM_PROCID=str(task), SLURM_NODEID=str(node), SLURM_LOCALID=str(local)))
        for task, (node, local) in enumerate(positions)
    ]
    assert [step.index for step in steps] == [0, 1, 2, 3, 4]
    assert len({step.addresses for step in steps}) == 1


def test_tf_config_takes_precedence_over_slurm():
    assert find_processes(slurm(**tf_config(TWO, index=1))) == Processes((A, C), 1)
    assert find_processes(slurm(**tf_config({"worker": ["a:1"]}))) is None
    assert find_processes(slurm(TF_CONFIG="")).num == 5


def test_ports_differ_between_jobs_and_between_steps():
    def port(job, step):
        return find_processes(slurm(SLURM_JOB_ID=str(job), SLURM_STEP_ID=str(step))).addresses[0].port

    ports = [port(job, step) for job in range(5000, 5010) for step in range(3)]
    assert len({*ports}) == 30
    assert 10000 <= min(ports) < max(ports) < 32768 - 64
    assert port(2**31, 4294967290) < 32768


def test_the_number_of_tasks_of_the_job_counts_if_a_step_has_none():
    assert find_processes(slurm(SLURM_STEP_NUM_TASKS=None, SLURM_NTASKS="5")).num == 5


@pytest.mark.parametrize(
    "environ",
    [
        # The shell of a batch script.
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"},
        {"SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"},  # the shell of salloc
        slurm(SLURM_PROCID=None),
        slurm(SLURM_STEP_NUM_TASKS="1", SLURM_PROCID="0"),  # one process of a job with more tasks
    ],
)
def test_a_process_outside_a_step_of_several_tasks_runs_alone(environ):
    assert find_processes(environ) is None


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {"SLURM_NODEID": "0", "SLURM_LOCALID": "1"},
            "task 3 (SLURM_PROCID) is number 1 on node 0 (SLURM_LOCALID, SLURM_NODEID), but with "
            "SLURM_STEP_TASKS_PER_NODE=3,2 it should be number 0 on node 1. Tasks must be placed in blocks. Fix: start "
            "them with `srun --distribution=block`.",
        ),
        ({"SLURM_LOCALID": "1"}, "is number 1 on node 1"),
        (
            {"SLURMD_NODENAME": "gpu08"},  # a heterogeneous job whose first component runs on the second node
            "task 3 (SLURM_PROCID) runs on node gpu08 (SLURMD_NODENAME), but with SLURM_STEP_NODELIST=gpu[08-09] and "
            "SLURM_STEP_TASKS_PER_NODE=3,2 it should run on node gpu09. Fix: start all tasks with `srun "
            "--distribution=block`, as one component of the job.",
        ),
        ({"SLURM_STEP_NODELIST": None}, "SLURM_STEP_NODELIST is not set, but SLURM_PROCID is. Fix: "),
        ({"SLURM_STEP_TASKS_PER_NODE": " "}, "SLURM_STEP_TASKS_PER_NODE is not set, but SLURM_PROCID is."),
        ({"SLURM_JOB_ID": None}, "SLURM_JOB_ID is not set"),
        ({"SLURM_STEP_NODELIST": "gpu[08-"}, "SLURM_STEP_NODELIST=gpu[08-: is not a list of nodes such as"),
        ({"SLURM_STEP_TASKS_PER_NODE": "3x2"}, "SLURM_STEP_TASKS_PER_NODE=3x2: is not a list of task counts such as"),
        ({"SLURM_PROCID": "-1"}, "SLURM_PROCID=-1: is not a non-negative integer such as 4."),
        ({"SLURM_STEP_NUM_TASKS": "many"}, "SLURM_STEP_NUM_TASKS=many: is not"),
        (
            {"SLURM_STEP_NUM_TASKS": "6"},
            "reports 6 tasks (SLURM_STEP_NUM_TASKS) and task 3 (SLURM_PROCID), but 5 tasks",
        ),
        (
            {"SLURM_STEP_TASKS_PER_NODE": "5"},
            "5 tasks on 1 nodes (SLURM_STEP_TASKS_PER_NODE=5) and 2 nodes (SLURM_STEP",
        ),
        ({"SLURM_PROCID": "5"}, "and task 5 (SLURM_PROCID)"),
    ],
)
def test_errors_in_the_variables_of_slurm(variables, text):
    assert text in message(slurm(**variables))


def test_the_node_name_of_a_task():
    assert find_processes(slurm(SLURMD_NODENAME="gpu09")).index == 3


def test_a_step_without_node_numbers_is_placed_in_blocks():
    assert find_processes(slurm(SLURM_NODEID=None, SLURM_LOCALID=None)).index == 3


@pytest.mark.parametrize(
    ("string", "names"),
    [
        ("gpu1", "gpu1"),
        ("gpu[01-03,7],login1", "gpu01 gpu02 gpu03 gpu7 login1"),
        ("gpu[8-11]", "gpu8 gpu9 gpu10 gpu11"),
        ("gpu[098-101]", "gpu098 gpu099 gpu100 gpu101"),
        ("rack[1-2]n[08,10]-ib", "rack1n08-ib rack1n10-ib rack2n08-ib rack2n10-ib"),
        ("a-1.example,b[2]", "a-1.example b2"),
    ],
)
def test_hostlists_of_slurm(string, names):
    assert expand_nodes(string) == names.split()


@pytest.mark.parametrize("string", ["", "a,", ",a", "a[1", "a]1", "a[]", "a[1-]", "a[1,]", "a[x]", "a b", "a[[1]]"])
def test_malformed_hostlists_are_refused(string):
    with pytest.raises(ConfigError, match=r"is not a list of nodes such as gpu\[01-03,7\],login1"):
        expand_nodes(string)


def test_task_counts_of_slurm():
    assert expand_counts("2(x3),1") == [2, 2, 2, 1]
    assert expand_counts("4") == [4]
    assert expand_counts("1,2(x1)") == [1, 2]
    for string in ("", "2(3)", "2x3", "2,,1", "2(x3"):
        with pytest.raises(ConfigError, match="is not a list of task counts"):
            expand_counts(string)


@pytest.mark.parametrize(("text", "timeout"), [("5", 5.0), (" 0.5 ", 0.5), ("1e3", 1000.0), ("", 60.0)])
def test_the_timeout_of_the_environment(text, timeout):
    assert find_processes(tf_config(TWO, MTF_IMAGING_TIMEOUT=text)).timeout == timeout
    assert find_processes(slurm(MTF_IMAGING_TIMEOUT=text)).timeout == timeout


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1 min", "60s"])
def test_invalid_timeouts_are_refused(text):
    assert message(tf_config(TWO, MTF_IMAGING_TIMEOUT=text)) == (
        f"MTF_IMAGING_TIMEOUT={text}: is not a positive number of seconds. Fix: for instance MTF_IMAGING_TIMEOUT=60."
    )


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_formatted_tf_config_is_parsed(index):
    addresses = (A, C, Address("fe80::1", 3))
    assert find_processes({"TF_CONFIG": format_tf_config(addresses, index)}) == Processes(addresses, index)


def test_tensorflow_is_not_imported():
    check = "import sys, mtf_imaging.engine.processes.processes; assert not {'tensorflow', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
