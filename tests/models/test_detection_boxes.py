"""Anchors, boxes and the assignment of objects equal references in NumPy, under every layout."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.detection import Anchors
from mtf_imaging.models.detection.boxes import clip_to_image, decode, encode, intersection_over_union
from mtf_imaging.models.detection.losses import focal_loss, huber_loss
from mtf_imaging.models.detection.matching import match, select
from tests.models import reference_detection
from tests.models.programs import random_boxes

# Anchors of two levels. Their numbers are exact, so that equal overlaps are equal.
SHAPES = Anchors(scales=(1.0, 2.0), ratios=(1.0, 4.0), size=2.0)
LEVELS = {4: (7, 5), 8: (4, 3)}
BOXES, HIGH, LOW = 6, 0.5, 0.25
LAYOUTS = {
    "whole": ("", "", "stacked"),
    "2x2": ("rows:2,cols:2", "height:rows,width:cols", "placement"),
    "4x2": ("rows:4,cols:2", "height:rows,width:cols", "stacked"),
    "8x1": ("rows:8", "height:rows", "stacked"),
    "batch": ("rows:3,cores:2", "width:rows,batch:cores", "stacked"),
}


def level_anchors(shapes, x, sizes, dtype=tf.float64):
    """Returns the anchors of feature maps, {stride: `LevelAnchors`}, of images of whole strides."""
    batch = x.shape.dims[0]
    dims = {s: [mi.mtf.Dimension(name, n) for name, n in zip(("height", "width"), size)] for s, size in sizes.items()}
    maps = {s: mi.mtf.zeros(x.mesh, mi.mtf.Shape([batch, *d]), dtype) for s, d in dims.items()}
    return {s: shapes.boxes(x, s, [s * n for n in sizes[s]]) for s, x in maps.items()}


@functools.cache
def program(layout):
    """Returns a program that matches objects with all anchors, with and without forced anchors."""

    def fn(boxes, classes):
        anchors = list(level_anchors(SHAPES, boxes, LEVELS).values())
        overlaps = [intersection_over_union(level, boxes) for level in anchors]
        result = {}
        for key, options in {"forced": {}, "free": {"force": False}}.items():
            for i, matched in enumerate(match(overlaps, classes, HIGH, LOW, **options)):
                result[f"{key}/index{i}"] = matched.index
                result[f"{key}/positive{i}"], result[f"{key}/negative{i}"] = matched.positive, matched.negative
                result[f"{key}/classes{i}"] = select(classes, matched.index)
                deltas = encode(anchors[i], select(boxes, matched.index), (10.0, 10.0, 5.0, 5.0))
                result[f"{key}/deltas{i}"] = deltas
                result[f"{key}/boxes{i}"] = decode(deltas, anchors[i], (10.0, 10.0, 5.0, 5.0), clip=10.0)
        return {**result, **{f"overlaps{i}": x for i, x in enumerate(overlaps)}}

    mesh_shape, rules, mesh_impl = LAYOUTS[layout]
    inputs = {"boxes": (f"batch:2,boxes:{BOXES},coords:4", "float64"), "classes": (f"batch:2,boxes:{BOXES}", "int32")}
    return mi.Program(fn, inputs, mesh_shape, rules, mesh_impl)


def objects(kind):
    """Returns boxes and classes of two images; the last box is padding that equals an anchor."""
    rng = np.random.default_rng(3)
    boxes = np.stack([random_boxes(rng, BOXES, 28, 20) for _ in range(2)]).astype(np.float64)
    classes = rng.integers(0, 9, (2, BOXES)).astype(np.int32)
    if kind == "ties":
        # Equal boxes, a box with the same overlap with many anchors, an empty box, and one without any overlap.
        boxes[0, 1] = boxes[0, 0]
        boxes[0, 2] = [0, 0, 28, 20]
        boxes[0, 3] = [8, 8, 8, 14]
        boxes[0, 4] = [90, 90, 99, 99]
        boxes[1, 1] = [2, 2, 14, 14]  # between the pixels
        boxes[1, 2] = [6, 6, 14, 14]  # an anchor
        boxes[1, 3] = [6, 6, 14, 14]
    boxes[:, -1] = [2, 2, 10, 10]
    classes[:, -1] = -1
    if kind == "empty":
        classes[0] = -1
    return boxes, classes


@functools.cache
def reference(kind):
    boxes, classes = objects(kind)
    sizes = [(h, w, stride, SHAPES.scales, SHAPES.ratios, SHAPES.size) for stride, (h, w) in LEVELS.items()]
    anchors = [reference_detection.anchors(*size) for size in sizes]
    flat = np.concatenate([level.reshape(-1, 4) for level in anchors])
    present = [{k: boxes[i, k] for k in range(BOXES) if classes[i, k] >= 0} for i in range(2)]
    return anchors, flat, [reference_detection.match(flat, each, HIGH, LOW) for each in present]


_SLOW = ("2x2", "8x1", "batch")


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize("kind", ["random", "ties", "empty"])
@pytest.mark.parametrize("layout", [pytest.param(k, marks=[pytest.mark.slow] * (k in _SLOW)) for k in LAYOUTS])
def test_objects_are_assigned_as_in_the_reference(layout, kind):
    boxes, classes = objects(kind)
    got = {name: value.numpy() for name, value in program(layout)(boxes=boxes, classes=classes).items()}
    anchors, flat, want = reference(kind)

    def joined(name):
        return np.concatenate(
            [got[f"{name}{i}"].reshape(2, len(a.reshape(-1, 4)), -1) for i, a in enumerate(anchors)], 1
        )

    overlaps = [[[reference_detection.intersection_over_union(a, b) for b in each] for a in flat] for each in boxes]
    np.testing.assert_allclose(joined("overlaps"), overlaps, rtol=1e-12)
    for image, (index, positive, negative) in enumerate(want):
        np.testing.assert_array_equal(joined("forced/positive")[image, :, 0], positive)
        np.testing.assert_array_equal(joined("forced/negative")[image, :, 0], negative)
        np.testing.assert_array_equal(joined("forced/index")[image, positive, 0], index[positive])
        np.testing.assert_array_equal(joined("forced/classes")[image, positive, 0], classes[image, index[positive]])
        for number in np.flatnonzero(positive):
            box = boxes[image, index[number]]
            deltas = reference_detection.encode(flat[number], box) * [10, 10, 5, 5]
            np.testing.assert_allclose(joined("forced/deltas")[image, number], deltas, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(joined("forced/boxes")[image, number], box, rtol=1e-10, atol=1e-10)
        best = np.max(np.where(classes[image] >= 0, overlaps[image], 0), -1)
        np.testing.assert_array_equal(joined("free/positive")[image, :, 0], best >= HIGH)
        np.testing.assert_array_equal(joined("free/negative")[image, :, 0], best < LOW)
    assert np.isfinite(joined("forced/deltas")).all()


def test_the_ties_force_anchors():
    """The cases above contain forced anchors with a small overlap, and an anchor that several boxes would force."""
    _, _, ((_, first, _), (index, second, _)) = reference("ties")
    free = program("whole")(**dict(zip(("boxes", "classes"), objects("ties"))))
    positive = np.concatenate([free[f"free/positive{i}"].numpy().reshape(2, -1) for i in range(2)], 1)
    assert first.sum() > positive[0].sum()
    assert 2 in index[second]
    assert 3 not in index[second]


@pytest.mark.parametrize("layout", ["whole", "4x2", "batch"])
def test_anchors_equal_the_reference(layout):
    def fn(x):
        return {str(s): level.to_boxes() for s, level in level_anchors(Anchors(), x, LEVELS).items()}

    mesh_shape, rules, mesh_impl = LAYOUTS[layout]
    got = mi.Program(fn, {"x": "batch:2"}, mesh_shape, rules, mesh_impl)(x=np.zeros(2, np.float32))
    for stride, (height, width) in LEVELS.items():
        scales = [1, 2 ** (1 / 3), 2 ** (2 / 3)]
        want = reference_detection.anchors(height, width, stride, scales, [0.5, 1, 2], 4)
        np.testing.assert_allclose(got[str(stride)], want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", ["whole", "4x2"])
def test_anchors_divide_an_image_evenly(layout):
    """Two pixels of level 7 cover 192 pixels, so their centers are 96 pixels apart; the sizes follow the stride."""

    def fn(feature):
        return Anchors(scales=(1.0,), ratios=(1.0, 4.0)).boxes(feature, 128, (128, 192)).to_boxes()

    program = mi.Program(fn, {"feature": "batch:1,height:1,width:2"}, *LAYOUTS[layout])
    want = [[[y - h, x - w, y + h, x + w] for h, w in ((256, 256), (128, 512))] for y, x in ((64, 48), (64, 144))]
    np.testing.assert_array_equal(program(feature=np.zeros((1, 1, 2), np.float32)), [want])


@pytest.mark.parametrize(
    ("size", "total"),
    [(640, 76_725), (896, 150_381), (1024, 196_416), (1280, 306_900), (1536, 441_936), (2560, 1_227_600)],
)
def test_number_of_anchors(size, total):
    sizes = {2**level: (math.ceil(size / 2**level),) * 2 for level in range(3, 8)}

    def fn(x):
        levels = level_anchors(Anchors(), x, sizes).values()
        return [mi.mtf.reduce_sum(level.to_boxes()) for level in levels]

    graph = trace_only(fn, {"x": "batch:1"}).graph
    stacks = [op.outputs[0].shape.size for op in graph.operations if type(op) is mi.mtf.StackOperation]
    assert sum(stacks) == 4 * total


def test_boxes_of_rois():
    """Overlaps, deltas and clipping of boxes that are not anchors."""
    rng = np.random.default_rng(0)
    rois, boxes = random_boxes(rng, 5, 20, 30), random_boxes(rng, 3, 20, 30)

    def fn(rois, boxes, targets):
        deltas = encode(rois, targets)
        large = decode(deltas * 0 + 9, rois)
        result = {"overlaps": intersection_over_union(rois, boxes), "boxes": decode(deltas, rois)}
        return {**result, "clipped": clip_to_image(large, 20, 30), "large": large}

    shapes = {name: f"batch:1,{name}:{n},coords:4" for name, n in (("rois", 5), ("boxes", 3))}
    inputs = {**shapes, "targets": shapes["rois"]}
    targets = random_boxes(rng, 5, 20, 30)
    got = mi.Program(fn, inputs)(rois=rois[None], boxes=boxes[None], targets=targets[None])
    overlaps = [[reference_detection.intersection_over_union(roi, box) for box in boxes] for roi in rois]
    np.testing.assert_allclose(got["overlaps"][0], overlaps, rtol=1e-5)
    np.testing.assert_allclose(got["boxes"][0], targets, atol=1e-4)
    large = np.array([reference_detection.decode([9, 9, 9, 9], roi) for roi in rois.astype(np.float64)])
    np.testing.assert_allclose(got["large"][0], large, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(got["clipped"][0], np.clip(large, 0, [20, 30, 20, 30]), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("layout", ["whole", "4x2"])
def test_losses_equal_the_reference(layout):
    """The loss of extreme logits is finite, and so are its first and second derivatives."""
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((2, 5, 3, 4)) * 5
    classes = rng.integers(-1, 4, (2, 5, 3)).astype(np.int32)
    targets = rng.standard_normal(logits.shape)

    def fn(logits, classes, targets):
        focal, huber = focal_loss(logits, classes, 0.25, 1.5), huber_loss(logits, targets, 0.7)
        total = mi.mtf.reduce_sum(mi.mtf.square(focal)) + mi.mtf.reduce_sum(mi.mtf.square(huber))
        (gradient,) = mi.mtf.gradients([total], [logits])
        (second,) = mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(gradient))], [logits])
        return {"focal": focal, "huber": huber, "gradient": gradient, "second": second}

    shape = "batch:2,height:5,width:3"
    inputs = {"logits": (f"{shape},classes:4", "float64"), "classes": (shape, "int32")}
    program = mi.Program(fn, {**inputs, "targets": (f"{shape},classes:4", "float64")}, *LAYOUTS[layout])
    got = program(logits=logits, classes=classes, targets=targets)
    x = tf.constant(logits)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            present = classes[..., None] == np.arange(4)
            focal = tf.reduce_sum(reference_detection.focal(x, present.astype(float), 0.25, 1.5), -1)
            huber = reference_detection.huber(x - targets, 0.7)
            total = tf.reduce_sum(focal**2) + tf.reduce_sum(huber**2)
        gradient = inner.gradient(total, x)
        square = tf.reduce_sum(gradient**2)
    want = {"focal": focal, "huber": huber, "gradient": gradient, "second": outer.gradient(square, x)}
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_the_focal_loss_of_extreme_logits_is_finite():
    def fn(logits, classes):
        loss = focal_loss(logits, classes)
        return loss, mi.mtf.gradients([mi.mtf.reduce_sum(loss)], [logits])[0]

    inputs = {"logits": "batch:4,classes:2", "classes": ("batch:4", "int32")}
    logits = np.array([[-1e4, 1e4], [1e4, -1e4], [-60, 60], [0, 0]], np.float32)
    loss, gradient = mi.Program(fn, inputs)(logits=logits, classes=np.array([0, 0, -1, -1], np.int32))
    # Wrong answers with a large logit x have the loss weight * x; right ones have no loss.
    weights = [(0.25 + 0.75) * 1e4, 0, 0.75 * 60, 2 * 0.75 * 0.5**1.5 * np.log(2)]
    np.testing.assert_allclose(loss, weights, rtol=1e-5)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient[0], [-0.25, 0.75], rtol=1e-5)
