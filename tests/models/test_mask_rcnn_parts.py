"""The parts of Mask R-CNN equal computations in NumPy, also under layouts that split them unevenly."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection import rpn
from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.mask_targets import mask_targets
from mtf_imaging.models.detection.proposals import propose
from mtf_imaging.models.detection.roi_heads import roi_levels
from mtf_imaging.models.detection.sampling import RoIs, anchor_priorities, sample_anchors, sample_rois
from tests.models import reference_mask_rcnn as reference

ANCHORS = Anchors(scales=(1.0,), ratios=(0.5, 1.0, 2.0), size=2.0)
LEVELS = {4: (5, 7), 8: (3, 4)}  # {stride: sizes of the map}, for an image of 20 x 28 pixels
IMAGE = (20, 28)
WHOLE = "", ""
SPLIT = "rows:2,cols:3", "height:rows,width:cols"
SPLIT_BATCH = "rows:2,cols:2", "batch:rows,width:cols"


def boxes(rng, shape, least=3.0):
    """Returns random boxes within the image, `[*shape, 4]`."""
    begin = rng.uniform(0, 0.6, (*shape, 2)) * IMAGE
    end = np.minimum(begin + rng.uniform(least, 14, (*shape, 2)), IMAGE)
    return np.concatenate([begin, end], -1)


def objects(rng, batch_size=3, number=5):
    """Returns boxes and classes. The first image has all objects, the second has none, and the others have two."""
    classes = rng.integers(0, 3, (batch_size, number)).astype(np.int32)
    classes[1] = reference.PADDING
    classes[2:, 2:] = reference.PADDING
    return boxes(rng, (batch_size, number)), classes


def level_inputs(name, fields="", batch_size=3):
    """Returns the inputs of a program with a tensor for each level."""
    sizes = [f"batch:{batch_size},height:{h},width:{w},anchors:3{fields}" for h, w in LEVELS.values()]
    return {f"{name}{i}": (size, tf.float64) for i, size in enumerate(sizes)}


def level_values(rng, name, fields=(), batch_size=3, scale=1.0):
    sizes = [(batch_size, *size, 3, *fields) for size in LEVELS.values()]
    return {f"{name}{i}": rng.standard_normal(size) * scale for i, size in enumerate(sizes)}


def of_levels(inputs, name):
    return [inputs[f"{name}{i}"] for i in range(len(LEVELS))]


def level_anchors():
    return [reference.anchors(h, w, stride, ANCHORS.size, ANCHORS.ratios, IMAGE) for stride, (h, w) in LEVELS.items()]


def flat(levels, fields=()):
    """Concatenates the anchors of all levels: `[batch, height, width, anchors, ...]` -> `[batch, n, ...]`."""
    return np.concatenate([np.reshape(x, [len(x), -1, *fields]) for x in levels], 1)


RPN_INPUTS = {
    **level_inputs("score"),
    **level_inputs("delta", ",coords:4"),
    **level_inputs("priority"),
    "boxes": ("batch:3,boxes:5,coords:4", tf.float64),
    "classes": ("batch:3,boxes:5", tf.int32),
}


@pytest.mark.parametrize(
    ("number", "layout"),
    [
        (8, WHOLE),
        (400, WHOLE),
        pytest.param(8, SPLIT, marks=pytest.mark.slow),
        pytest.param(400, SPLIT_BATCH, marks=pytest.mark.slow),
    ],
)
def test_losses_of_the_region_proposal_network(monkeypatch, number, layout):
    """400 samples are more than there are anchors."""

    def fn(**inputs):
        scores, deltas, given = (of_levels(inputs, name) for name in ("score", "delta", "priority"))
        monkeypatch.setattr(rpn, "anchor_priorities", lambda masks: given)
        anchors = [ANCHORS.boxes(x, stride, IMAGE) for x, stride in zip(scores, LEVELS)]
        sampling = rpn.AnchorSampling(number, high=0.45, low=0.2)
        losses = rpn.rpn_losses(scores, deltas, anchors, inputs["boxes"], inputs["classes"], sampling)
        return losses, mi.mtf.gradients([losses[0] + losses[1]], [*scores, *deltas])

    rng = np.random.default_rng(number)
    values = level_values(rng, "score") | level_values(rng, "delta", (4,))
    order = rng.permuted(np.tile(np.arange(3 * (35 + 12)), (3, 1)), axis=1) / 1000
    values |= {"priority0": order[:, :105].reshape(3, 5, 7, 3), "priority1": order[:, 105:].reshape(3, 3, 4, 3)}
    values["boxes"], values["classes"] = objects(rng)
    program = mi.Program(fn, RPN_INPUTS, *layout)
    got, gradients = program(**values)
    scores, deltas = flat(of_levels(values, "score")), flat(of_levels(values, "delta"), (4,))
    anchors = flat([x[None] for x in level_anchors()], (4,))[0]
    want = functools.partial(
        reference.rpn_losses,
        level_anchors=anchors,
        counts=[3 * h * w for h, w in LEVELS.values()],
        boxes=values["boxes"],
        classes=values["classes"],
        priorities=order,
        number=number,
        high=0.45,
        low=0.2,
    )
    *losses, positives = want(scores, deltas)
    assert positives.sum() == 8 if number == 8 else positives.sum() > 8
    assert (positives > 0).all() == (number == 400)  # a level may have no positive sample
    np.testing.assert_allclose(got, losses, rtol=1e-12)
    # A directional derivative compares all gradients at once.
    directions = [rng.standard_normal(x.shape) for x in gradients]
    slope = sum((x.numpy() * d).sum() for x, d in zip(gradients, directions))
    along = flat(directions[:2]), flat(directions[2:], (4,))
    ends = [sum(want(scores + step * along[0], deltas + step * along[1])[:2]) for step in (-1e-6, 1e-6)]
    np.testing.assert_allclose(slope, (ends[1] - ends[0]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("layout", [WHOLE, ("rows:2,cols:2", "height:rows,width:cols")])
def test_the_box_loss_is_a_sum_of_the_means_of_the_levels(monkeypatch, layout):
    """Values by hand: 2 positive anchors at the first level, 1 at the second, and none at the third."""
    sizes = [(2, 2), (1, 2), (1, 1)]  # of an image of 8 x 8 pixels, with anchors of 4 x 4, 8 x 4 and 8 x 8 pixels
    objects = [[0, 0, 4, 4], [4, 4, 8, 8], [0, 0, 8, 4]]
    errors = [np.zeros((1, h, w, 1, 4)) for h, w in sizes]
    errors[0][0, 0, 0, 0] = 1 / 9  # the end of the quadratic part of the Huber loss: 1 / 162 each
    errors[0][0, 1, 1, 0, 0] = 2 / 9  # the linear part: 1 / 54
    errors[1][0, 0, 0, 0, 3] = -1  # 1 / 9 - 1 / 162
    errors[2][...] = 7  # does not count

    def fn(boxes, classes, **deltas):
        deltas = list(deltas.values())
        shapes = [mi.mtf.Shape(x.shape.dims[:-1]) for x in deltas]
        scores = [mi.mtf.zeros(boxes.mesh, shape, tf.float64) for shape in shapes]
        monkeypatch.setattr(rpn, "anchor_priorities", lambda scores: [(x + i) / 8 for i, x in enumerate(scores)])
        anchors = [
            Anchors((1.0,), (ratio,), size).boxes(x, stride, (8, 8))
            for x, stride, ratio, size in zip(deltas, (4, 4, 8), (1.0, 0.5, 1.0), (1.0, 2**0.5, 1.0))
        ]
        return rpn.rpn_losses(scores, deltas, anchors, boxes, classes, rpn.AnchorSampling(high=0.9))[1]

    inputs = {
        f"deltas{i}": (f"batch:1,height:{h},width:{w},anchors:1,coords:4", "float64") for i, (h, w) in enumerate(sizes)
    }
    inputs |= {"boxes": ("batch:1,boxes:3,coords:4", "float64"), "classes": ("batch:1,boxes:3", "int32")}
    values = {f"deltas{i}": error for i, error in enumerate(errors)}
    loss = mi.Program(fn, inputs, *layout)(boxes=np.array([objects], float), classes=np.zeros((1, 3), int), **values)
    # A single mean over all positive anchors would be (4 / 162 + 1 / 54 + 17 / 162) / 12.
    np.testing.assert_allclose(loss, (4 / 162 + 1 / 54) / 8 + (1 / 9 - 1 / 162) / 4, rtol=1e-12)


@pytest.mark.parametrize("layout", [SPLIT, SPLIT_BATCH])
def test_priorities_are_distinct_and_do_not_depend_on_the_layout(layout):
    def fn(**inputs):
        return anchor_priorities(of_levels(inputs, "score"))

    inputs = level_inputs("score")
    zeros = {name: np.zeros((3, *size, 3)) for name, size in zip(inputs, LEVELS.values())}
    first, second = (flat([x.numpy() for x in mi.Program(fn, inputs, *given)(**zeros)]) for given in (WHOLE, layout))
    np.testing.assert_array_equal(first, second)
    assert first.min() >= 0
    assert first.max() < 1
    assert len(np.unique(first)) == first.size


def test_equal_random_numbers_select_the_first_anchors(monkeypatch):
    monkeypatch.setattr(mi.mtf, "random_uniform", lambda mesh, shape: mi.mtf.zeros(mesh, shape) + 0.25)

    def fn(mask):
        negatives = mi.mtf.zeros_like(mask)
        return sample_anchors([mask, mask], [negatives] * 2, anchor_priorities([mask, mask]), 10)[0]

    mask = np.zeros((1, 3, 3, 2))
    mask[0, 1:] = 1  # 12 positive anchors in each of two levels, of which 5 are selected
    chosen = mi.Program(fn, {"mask": ("batch:1,height:3,width:3,anchors:2", tf.float64)}, "rows:2", "height:rows")(
        mask=mask
    )
    np.testing.assert_array_equal(np.flatnonzero(chosen[0]), [6, 7, 8, 9, 10])
    assert not np.any(chosen[1])


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize(
    ("per_level", "number", "threshold", "layout"),
    [
        (20, 12, 0.5, WHOLE),
        (500, 400, 0.7, WHOLE),
        (3, 4, 0.0, SPLIT_BATCH),
        pytest.param(20, 12, 0.5, SPLIT, marks=pytest.mark.slow),
        pytest.param(500, 400, 0.7, SPLIT, marks=pytest.mark.slow),
    ],
)
def test_proposals(per_level, number, threshold, layout):
    def fn(**inputs):
        scores, deltas = of_levels(inputs, "score"), of_levels(inputs, "delta")
        anchors = [ANCHORS.boxes(x, stride, IMAGE) for x, stride in zip(scores, LEVELS)]
        return propose(scores, deltas, anchors, IMAGE, per_level, number, threshold)

    rng = np.random.default_rng(number)
    values = level_values(rng, "score") | level_values(rng, "delta", (4,), scale=0.7)
    values["delta0"][0, :2, :2, :, 0] = -20  # boxes beyond the upper border
    program = mi.Program(fn, level_inputs("score") | level_inputs("delta", ",coords:4"), *layout)
    got, valid = program(**values)
    for image in range(3):
        scores, deltas = ([x[image] for x in of_levels(values, name)] for name in ("score", "delta"))
        want, count = reference.proposals(scores, deltas, level_anchors(), IMAGE, per_level, number, threshold)
        np.testing.assert_array_equal(valid[image], np.arange(number) < count)
        np.testing.assert_allclose(got[image], want, rtol=0, atol=1e-12)
        assert number == 4 or (count < number) == (number == 400)


ROI_INPUTS = {
    "proposals": ("batch:3,proposals:9,coords:4", tf.float64),
    "valid": ("batch:3,proposals:9", tf.float64),
    "boxes": ("batch:3,boxes:5,coords:4", tf.float64),
    "classes": ("batch:3,boxes:5", tf.int32),
    "priorities": ("batch:3,candidates:14", tf.float64),
}


def roi_values(rng):
    """Returns inputs in which proposals are close to objects, two proposals are missing, and some priorities equal."""
    given, classes = objects(rng)
    near = np.take_along_axis(given, rng.integers(0, 5, (3, 9))[..., None], 1) + rng.uniform(-2, 2, (3, 9, 4))
    valid = np.ones((3, 9))
    valid[:, 7:] = 0
    priorities = rng.integers(0, 10, (3, 14)) / 10
    return {"proposals": near, "valid": valid, "boxes": given, "classes": classes, "priorities": priorities}


def reference_rois(values, number, foreground, threshold=0.5):
    rois = []
    for image in range(3):
        proposals = [(i, box) for i, box in enumerate(values["proposals"][image]) if values["valid"][image, i]]
        own = [
            (9 + i, box)
            for i, box in enumerate(values["boxes"][image])
            if values["classes"][image, i] != reference.PADDING
        ]
        args = values["boxes"][image], values["classes"][image], values["priorities"][image]
        rois.append(reference.sample_rois(proposals + own, *args, number, foreground, threshold))
    return rois


@pytest.mark.parametrize(
    ("number", "foreground", "layout"),
    [(8, 2, WHOLE), (16, 4, WHOLE), (16, 4, ("rows:2", "batch:rows")), (4, 4, WHOLE), (1, 1, WHOLE)],
)
def test_sampled_rois(number, foreground, layout):
    """With 16 RoIs, there are too few candidates; with 1, there are more objects than RoIs."""
    values = roi_values(np.random.default_rng(number))
    program = mi.Program(
        lambda **inputs: tuple(sample_rois(**inputs, number=number, foreground=foreground)), ROI_INPUTS, *layout
    )
    got = RoIs(*(x.numpy() for x in program(**values)))
    counts = set()
    for image, rows in enumerate(reference_rois(values, number, foreground)):
        counts.add(sum(label > 0 for _, label, _ in rows))
        np.testing.assert_array_equal(got.weights[image], np.arange(number) < len(rows))
        for i, (box, label, j) in enumerate(rows):
            np.testing.assert_array_equal(got.boxes[image, i], box)
            assert got.classes[image, i] == label
            if j is not None:
                assert got.matches[image, i] == j
                np.testing.assert_array_equal(got.objects[image, i], values["boxes"][image, j])
        assert not np.any(got.boxes[image, len(rows) :])
        assert not np.any(got.classes[image, len(rows) :])
    assert counts >= {0, foreground}


def test_empty_boxes_are_no_objects():
    values = roi_values(np.random.default_rng(0))
    values["boxes"][0, :, 2] = values["boxes"][0, :, 0]
    program = mi.Program(lambda **inputs: tuple(sample_rois(**inputs, number=20, foreground=4)), ROI_INPUTS)
    got = RoIs(*program(**values))
    assert not np.any(got.classes[0])
    assert int(np.sum(got.weights[0])) == 7


@pytest.mark.parametrize("layout", [WHOLE, ("rows:2,cols:2", "batch:rows,rois:cols")])
def test_mask_targets(layout):
    rng = np.random.default_rng(0)
    values = {
        "masks": rng.uniform(0, 1, (2, 3, 6, 5)),
        "objects": boxes(rng, (2, 3)),
        "matches": np.array([[0, 2, 1], [2, 2, 0]], np.int32),
    }
    values["objects"] = np.take_along_axis(values["objects"], values["matches"][..., None], 1)
    values["rois"] = values["objects"] + rng.uniform(-4, 4, (2, 3, 4))
    values["rois"][0, 0] = values["objects"][0, 0]
    inputs = {
        "masks": ("batch:2,boxes:3,mask_height:6,mask_width:5", tf.float64),
        "objects": ("batch:2,rois:3,coords:4", tf.float64),
        "matches": ("batch:2,rois:3", tf.int32),
        "rois": ("batch:2,rois:3,coords:4", tf.float64),
    }
    got = mi.Program(lambda **inputs: mask_targets(**inputs, size=4), inputs, *layout)(**values)
    for image, i in np.ndindex(2, 3):
        mask = values["masks"][image, values["matches"][image, i]]
        want = reference.mask_target(mask, values["objects"][image, i], values["rois"][image, i], 4)
        np.testing.assert_allclose(got[image, i], want, rtol=0, atol=1e-12)


def test_a_mask_at_the_size_of_its_target_is_the_target():
    mask = np.random.default_rng(0).integers(0, 2, (1, 1, 4, 4)).astype(np.float32)
    box = np.array([[[2, 3, 10, 7]]], np.float32)
    inputs = {
        "masks": "batch:1,boxes:1,mask_height:4,mask_width:4",
        "objects": "batch:1,rois:1,coords:4",
        "rois": "batch:1,rois:1,coords:4",
        "matches": ("batch:1,rois:1", tf.int32),
    }
    program = mi.Program(lambda **inputs: mask_targets(**inputs, size=4), inputs)
    np.testing.assert_array_equal(program(masks=mask, objects=box, rois=box, matches=[[0]]), mask)


def test_levels_of_rois():
    """Levels begin at exact powers of two."""
    sides = [0, 1, 111.9, 112, 223.9, 224, 447.9, 448, 5000]
    values = np.array([[[3, 5, 3 + side, 5 + side] for side in sides]], np.float32)
    values[0, -1] = [0, 0, 2 * 112, 112 / 2]
    program = mi.Program(
        lambda boxes: roi_levels(boxes, 2, 5, 224), {"boxes": "batch:1,rois:9,coords:4"}, "rows:2", "rois:rows"
    )
    np.testing.assert_array_equal(program(boxes=values), [[0, 0, 0, 1, 1, 2, 2, 3, 1]])
    small = mi.Program(lambda boxes: roi_levels(boxes, 3, 4, 56.0), {"boxes": "batch:1,rois:9,coords:4"})
    np.testing.assert_array_equal(small(boxes=values), [[0, 0, 1, 1, 1, 1, 1, 1, 1]])
    single = mi.Program(lambda boxes: roi_levels(boxes, 4, 4, 56.0), {"boxes": "batch:1,rois:9,coords:4"})
    assert not np.any(single(boxes=values))
