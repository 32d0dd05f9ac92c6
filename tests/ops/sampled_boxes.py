"""Cases of RoIAlign, with a reference that multiplies whole maps by dense matrices of weights."""

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from tests.harness import Case

mtf = mi.mtf
MAPS = {
    "fine": "batch:2,height:12,width:9,channels:3",
    "medium": "batch:2,height:6,width:5,channels:3",
    "coarse": "batch:2,height_whole:3,width_whole:3,channels:3",
}
STRIDES = (4, 8, 16)
BOXES = {"boxes": "batch:2,rois_whole:7,coords:4", "levels": "batch:2,rois_whole:7"}


def weights(low, high, stride, pixels, bins):
    """Returns the weights of the pixels of one dimension: float64 [..., bins, pixels]."""
    low, high = np.asarray(low, np.float64)[..., np.newaxis], np.asarray(high, np.float64)[..., np.newaxis]
    centers = low + (np.arange(bins) + 0.5) / bins * (high - low)
    positions = np.clip(centers / stride - 0.5, 0, pixels - 1)
    return np.maximum(1 - np.abs(positions[..., np.newaxis] - np.arange(pixels)), 0)


def reference(maps, boxes, levels, strides, size):
    """Returns RoIAlign of TensorFlow tensors `[batch, height, width, channels]`; boxes and levels are arrays."""
    rows, columns = (size, size) if isinstance(size, int) else size
    result = 0
    for level, (x, stride) in enumerate(zip(maps, strides, strict=True)):
        along_y = weights(boxes[..., 0], boxes[..., 2], stride, x.shape[1], rows)
        along_x = weights(boxes[..., 1], boxes[..., 3], stride, x.shape[2], columns)
        along_y = along_y * (np.asarray(levels) == level)[..., np.newaxis, np.newaxis]
        matrices = (tf.constant(matrix, x.dtype) for matrix in (along_y, along_x))
        result += tf.einsum("bryh,brxw,bhwc->bryxc", *matrices, x)
    return result


def boxes_from_integers(x):
    """Returns boxes of the integers 0..399 in eighths of pixels; some are empty, inverted or outside of the image."""
    return x / 6 - 9


def case(name="", size=(2, 3), maps=("fine", "medium", "coarse")):
    strides = STRIDES[: len(maps)]

    def fn(boxes, levels, **features):
        boxes = boxes_from_integers(mtf.cast(boxes, tf.float64))
        return mi.ops.roi_align(list(features.values()), boxes, levels, strides, size)

    def expected(*tensors):
        *features, boxes, levels = tensors
        boxes, levels = (tf.get_static_value(x) for x in (boxes, levels))
        return reference(features, boxes_from_integers(boxes), levels, strides, size)

    return Case(
        f"roi_align {name}".strip(),
        fn,
        expected,
        {**{key: MAPS[key] for key in maps}, **BOXES},
        integers={"boxes": 400, "levels": len(maps)},
        labels=("boxes", "levels"),
    )


CASES = [case(), case("of one level", 2, ("fine",)), case("of two levels", (1, 4), ("fine", "medium"))]
