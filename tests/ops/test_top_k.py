"""The highest scores under all layouts equal those of `tf.math.top_k` on the flattened tensor, and so do their rows."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.exchanges import check_exchanges

mtf = mi.mtf
SCORES, BOXES = "batch:3,x:7,y:5,anchors:2", "batch:3,x:7,y:5,anchors:2,coords:4"
INPUTS = {"scores": SCORES, "boxes": BOXES, "along": "y:5,anchors:2", "number": "x:7"}
DTYPES = {"scores": "float64", "boxes": "float32", "along": "float64", "number": "int32"}
LAYOUTS = [
    ("", ""),
    ("rows:2", "x:rows"),
    ("rows:2,cols:2", "x:rows,y:cols"),
    ("rows:5,cols:4", "x:rows,y:cols"),
    ("cores:2,cols:3", "batch:cores,y:cols"),
    ("rows:4,model:3", "y:rows,anchors:model"),
    ("rows:3,cols:2", "x:rows,top:cols"),
    ("spare:2,rows:3", "x:rows,top:rows"),
]


def values(kind):
    """Returns inputs whose scores are distinct, equal to others, or often minus infinity."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal([3, 7, 5, 2])
    if kind == "ties":
        scores = rng.integers(-1, 2, scores.shape) * rng.choice([-1.0, 1.0], scores.shape)  # with -0 and 0
    elif kind == "infinite":
        scores = rng.choice([np.inf, -np.inf, -np.inf, -np.inf, -np.finfo(np.float32).max], scores.shape)
    return {
        "scores": scores,
        "boxes": rng.standard_normal([3, 7, 5, 2, 4]).astype(np.float32),
        "along": rng.standard_normal([5, 2]),
        "number": np.arange(7, dtype=np.int32),
    }


def reference(scores, boxes, along, number, k):
    flat = scores.reshape(3, -1)
    best, index = (x.numpy() for x in tf.math.top_k(flat, min(k, 70)))
    boxes = np.take_along_axis(boxes.reshape(3, -1, 4), index[..., np.newaxis], 1)
    along = np.broadcast_to(along, [7, 5, 2]).reshape(-1)[index]
    return best, boxes, along, np.broadcast_to(number[:, np.newaxis], [7, 10]).reshape(-1)[index]


def chosen(scores, boxes, along, number, k):
    best, rows = mi.ops.top_k(scores, [boxes, along, number], k)
    return best, *rows


@pytest.mark.parametrize("impl", ["stacked", "placement"])
@pytest.mark.parametrize("k", [1, 9, 100])
@pytest.mark.parametrize(("mesh", "layout"), LAYOUTS)
def test_equals_the_whole(mesh, layout, k, impl):
    def fn(**inputs):
        return chosen(**inputs, k=k)

    specs = {name: (shape, DTYPES[name]) for name, shape in INPUTS.items()}
    program = mi.Program(fn, specs, mesh, layout, impl)
    check_exchanges(program, fn, specs)
    for kind in ("distinct", "ties", "infinite"):
        inputs = values(kind)
        for value, wanted in zip(program(**inputs), reference(**inputs, k=k), strict=True):
            np.testing.assert_array_equal(value, wanted)
