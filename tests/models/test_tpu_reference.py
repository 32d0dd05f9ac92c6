"""`gin/unet3d_tpu_256.gin` has the network, layout and loss of the 3D U-Net of Google's Cloud TPU reference models."""

import math

import pytest

from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.cli.config.training_settings import Job, Training
from mtf_imaging.engine.program.tracing import trace_only
from tests.commands import bound


@pytest.fixture(scope="module")
def configured():
    with bound("unet3d_tpu_256"):
        return Job(), JobSetup(), Training()


def test_its_weights_equal_those_of_the_reference(configured):
    task = configured[0].task
    graph = trace_only(task.predict, task.inputs(1, (8, 8, 8), labels=False)).graph
    weights = {v.name: v.shape.to_integer_list for v in graph.trainable_variables}
    filters = {name.split("/", 1)[1]: shape for name, shape in weights.items() if name.endswith("/filter")}
    # The reference doubles the filters before each pool, and its transposed convolutions keep the number of filters.
    expected = {
        **{"down0/conv0": (1, 32), "down0/conv1": (32, 64), "down1/conv0": (64, 64), "down1/conv1": (64, 128)},
        **{"down2/conv0": (128, 128), "down2/conv1": (128, 256), "down3/conv0": (256, 256), "down3/conv1": (256, 512)},
        **{"up2/conv0": (512 + 256, 256), "up2/conv1": (256, 256), "up1/conv0": (256 + 128, 128)},
        **{"up1/conv1": (128, 128), "up0/conv0": (128 + 64, 64), "up0/conv1": (64, 64)},
    }
    shapes = {f"{name}/filter": [3, 3, 3, *channels] for name, channels in expected.items()}
    shapes |= {f"grow{level}/filter": [2, 2, 2, n, n] for level, n in ((2, 512), (1, 256), (0, 128))}
    assert filters == shapes | {"classes/filter": [1, 1, 1, 64, 3]}
    assert sum(map(math.prod, filters.values())) == 19_065_888
    # The reference has 19,073,795 weights, because its convolutions also have a bias, which the following norm cancels.
    biases = sum(shape[0] for name, shape in weights.items() if name.endswith(("/norm0/offset", "/norm1/offset")))
    assert sum(map(math.prod, weights.values())) + biases == 19_073_795


def test_its_job(configured):
    job, setup, training = configured
    assert (job.task.dice, job.task.dice_weight, job.dtype) == ("adaptive", 1.0, "bfloat16")
    assert (setup.mesh_shape, setup.layout, setup.batch_size) == ("rows:16,cores:2", "x:rows,batch:cores", 8)
    assert training.optimizer.learning_rate(0) == 5e-5
    assert training.optimizer.learning_rate(100_000) == pytest.approx(2.5e-5)
