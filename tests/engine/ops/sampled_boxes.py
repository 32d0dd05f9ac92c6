"""Cases of RoIAlign, with a reference that multiplies whole maps by dense matrices of weights."""

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

import mtf_imaging as mi
from tests.engine.harness import Case

mtf = mi.mtf
NAMES = ("height", "width")
STRIDES = (4, 8, 16)


def weights(low, high, stride, pixels, bins, center):
    """Returns the weights of the pixels of one dimension, float64 [..., bins, pixels]; the first one is at `center`."""
    low, high = np.asarray(low, np.float64)[..., np.newaxis], np.asarray(high, np.float64)[..., np.newaxis]
    centers = low + (np.arange(bins) + 0.5) / bins * (high - low)
    positions = np.clip(centers / stride - center, 0, pixels - 1)
    return np.maximum(1 - np.abs(positions[..., np.newaxis] - np.arange(pixels)), 0)


def reference(maps, boxes, levels, strides, size, aligned=True):
    """Returns RoIAlign of TensorFlow tensors `[batch, height, width, channels]`; boxes and levels are arrays."""
    rows, columns = (size, size) if isinstance(size, int) else size
    result, center = 0, 0.5 if aligned else 0.0
    for level, (x, stride) in enumerate(zip(maps, strides, strict=True)):
        along_y = weights(boxes[..., 0], boxes[..., 2], stride, x.shape[1], rows, center)
        along_x = weights(boxes[..., 1], boxes[..., 3], stride, x.shape[2], columns, center)
        along_y = along_y * (np.asarray(levels) == level)[..., np.newaxis, np.newaxis]
        matrices = (tf.constant(matrix, x.dtype) for matrix in (along_y, along_x))
        result += tf.einsum("bryh,brxw,bhwc->bryxc", *matrices, x)
    return result


def _coordinates(integers):
    """Returns coordinates of integers below 500. Some boxes are inverted, or reach beyond an image of 48 pixels."""
    return integers / 8 - 8


def case(name, size, sizes, gathered=0, batch=2, rois=7, channels=3, dtype="float64", aligned=True):
    """Returns a case whose boxes are random.

    Args:
      name: name of the case, without the operation.
      size: the bins.
      sizes: (height, width) of each level.
      gathered: the number of levels, from the last, whose dimensions have the names of gathered dimensions.
      batch, rois, channels: the sizes of these dimensions.
      dtype: dtype of the boxes.
      aligned: the option of the operation.
    """
    maps = {}
    for level, both in enumerate(sizes):
        names = [f"{key}_whole" if level >= len(sizes) - gathered else key for key in NAMES]
        spatial = ",".join(f"{key}:{n}" for key, n in zip(names, both, strict=True))
        maps[f"level{level}"] = f"batch:{batch},{spatial},channels:{channels}"
    strides = STRIDES[: len(sizes)]

    def fn(boxes, levels, **features):
        boxes = _coordinates(mtf.cast(boxes, tf.as_dtype(dtype)))
        return mi.ops.roi_align(list(features.values()), boxes, levels, strides, size, aligned=aligned)

    def expected(*tensors):
        *features, boxes, levels = tensors
        boxes, levels = (tf.get_static_value(x) for x in (boxes, levels))
        return reference(features, _coordinates(boxes), levels, strides, size, aligned)

    return Case(
        f"roi_align {name}",
        fn,
        expected,
        {**maps, "boxes": f"batch:{batch},rois_whole:{rois},coords:4", "levels": f"batch:{batch},rois_whole:{rois}"},
        integers={"boxes": 500, "levels": len(sizes)},
        labels=("boxes", "levels"),
    )


CASES = [
    case("of three levels", (2, 3), [(12, 9), (6, 5), (3, 3)], gathered=1),
    case("of one level", 3, [(12, 9)], aligned=False),
    # Every weight is exact in float32 and bfloat16.
    case("in float32", (4, 2), [(12, 9), (6, 5)], dtype="float32"),
]


@st.composite
def any_case(draw):
    """Draws a case and a layout (mesh shape, rules) for it."""
    few, many = st.integers(1, 3), st.integers(1, 9)
    sizes = draw(st.lists(st.tuples(many, many), min_size=1, max_size=3))
    dims = {
        "size": draw(st.tuples(few, few)),
        "sizes": sizes,
        "gathered": draw(st.integers(0, len(sizes) - 1)),
        "batch": draw(few),
        "rois": draw(st.integers(1, 5)),
        "channels": draw(few),
        "aligned": draw(st.booleans()),
    }
    meshes = {"a": draw(st.integers(1, 4)), "b": draw(st.integers(1, 4)), "c": draw(few)}
    third = draw(
        st.sampled_from(["batch:c", "channels:c", "rois_whole:c", "rois_whole:a", "crop_width:b", "crop_height:c"])
    )
    rules = ["height:a", "width:b", third]
    return case(repr(dims), **dims), ",".join(f"{k}:{n}" for k, n in meshes.items()), ",".join(rules)
