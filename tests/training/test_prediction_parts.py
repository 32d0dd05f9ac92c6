"""Predictions in turns are passed on row by row, without the whole prediction in memory."""

import numpy as np
import pytest

from mtf_imaging.engine.layout import Layout
from mtf_imaging.files import blocks
from mtf_imaging.training.prediction import NetworkBuilder
from tests.training.test_sliding_network import Convolution

SIZES = (10, 6, 4)
IMAGE = np.random.default_rng(0).random((*SIZES, 1)).astype(np.float32)


def network(mesh_shape="", layout="", sequential=""):
    builder = NetworkBuilder(task=Convolution(3), layout=Layout.of(layout, mesh_shape, sequential))
    return builder.as_network(builder.program(SIZES)).slices(SIZES)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(blocks, "IN_MEMORY", 0)
    monkeypatch.setattr(blocks, "_SIDE", 3)


@pytest.mark.parametrize("turns", [2, 4, 5])
def test_rows_of_turns_are_those_of_the_whole_prediction(small, turns):
    """10 rows in 4 turns: the last turn has a single row. The second call finds nothing of the first."""
    slices = network(f"slabs:{turns}", "x:slabs", "slabs")
    assert slices.parts is not None
    image = blocks.working_array(IMAGE.shape, IMAGE.dtype)
    image[slice(0, 10),] = IMAGE
    for _ in range(2):
        parts = []
        slices.predict_parts(image, lambda at, values, parts=parts: parts.append((at, np.array(values))))
        assert [(at.start, at.stop) for at, _ in parts] == [
            (first, min(first + -(-10 // turns), 10)) for first in range(0, 10, -(-10 // turns))
        ]
        np.testing.assert_array_equal(np.concatenate([values for _, values in parts]), slices.predict_image(IMAGE))
    np.testing.assert_allclose(
        np.concatenate([values for _, values in parts]), network().predict_image(IMAGE), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("mesh_shape", "layout", "sequential"),
    [("slabs:2,cols:2", "x:slabs,y:cols", "slabs,cols"), ("slabs:2", "y:slabs", "slabs"), ("slabs:2", "x:slabs", "")],
)
def test_other_predictions_are_passed_on_as_a_whole(mesh_shape, layout, sequential):
    slices, calls = network(mesh_shape, layout, sequential), []
    slices.predict_parts(IMAGE, lambda at, values: calls.append((at, values)))
    assert slices.parts is None
    assert [at for at, _ in calls] == [slice(0, 10)]
    np.testing.assert_allclose(calls[0][1], network().predict_image(IMAGE), rtol=1e-5)
