"""Candidates and non-maximum suppression equal plain NumPy, under every layout."""

import functools

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.models.detection import Anchors
from mtf_imaging.models.detection.detections import candidates, non_maximum_suppression
from tests.models import reference_detection
from tests.models.programs import assert_detections, random_boxes

HEIGHT, WIDTH, STRIDE, CLASSES, NUMBER = 5, 3, 4, 3, 17
SHAPES = Anchors(scales=(1.0,), ratios=(0.5, 2.0), size=2.0)


@functools.cache
def candidate_program(*layout):
    def fn(logits, deltas):
        return candidates(logits, deltas, SHAPES.boxes(logits, STRIDE, (HEIGHT * STRIDE, WIDTH * STRIDE)), NUMBER)

    anchors = f"batch:2,height:{HEIGHT},width:{WIDTH},anchors:{SHAPES.per_cell}"
    inputs = {"logits": (f"{anchors},classes:{CLASSES}", "float64"), "deltas": (f"{anchors},coords:4", "float64")}
    return mi.Program(fn, inputs, *layout)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    "layout",
    [
        (),
        ("rows:4,cols:2", "height:rows,width:cols", "stacked"),
        pytest.param(("rows:8", "height:rows", "placement"), marks=pytest.mark.slow),
        pytest.param(("rows:2,cores:2", "width:rows,batch:cores", "stacked"), marks=pytest.mark.slow),
    ],
)
def test_candidates(layout, ties):
    rng = np.random.default_rng(0)
    shape = (2, HEIGHT, WIDTH, SHAPES.per_cell)
    logits = rng.integers(-2, 2, (*shape, CLASSES)).astype(float) if ties else rng.standard_normal((*shape, CLASSES))
    deltas = rng.standard_normal((*shape, 4))
    boxes, scores = (x.numpy() for x in candidate_program(*layout)(logits=logits, deltas=deltas))
    anchors = reference_detection.anchors(HEIGHT, WIDTH, STRIDE, SHAPES.scales, SHAPES.ratios, SHAPES.size)
    for image in range(2):
        rows = logits[image].reshape(-1, CLASSES)
        mask = reference_detection.highest_pairs(rows, NUMBER)
        decoded = map(reference_detection.decode, deltas[image].reshape(-1, 4), anchors.reshape(-1, 4))
        want = [(1 / (1 + np.exp(-row)), box) for row, box in zip(np.where(mask, rows, -np.inf), decoded)]
        order = sorted(range(len(rows)), key=lambda i: -rows[i].max())[:NUMBER]
        np.testing.assert_allclose(scores[image], [want[i][0] for i in order], rtol=1e-12)
        np.testing.assert_allclose(boxes[image], [want[i][1] for i in order], rtol=1e-12)
        assert np.count_nonzero(scores[image]) == NUMBER


def test_fewer_pairs_than_candidates():
    def fn(logits, deltas):
        return candidates(logits, deltas, SHAPES.boxes(logits, 4, (4, 8)), 1000)

    anchors = "batch:1,height:1,width:2,anchors:2"
    inputs = {"logits": f"{anchors},classes:2", "deltas": f"{anchors},coords:4"}
    boxes, scores = mi.Program(fn, inputs)(logits=np.zeros((1, 1, 2, 2, 2)), deltas=np.zeros((1, 1, 2, 2, 4)))
    assert boxes.shape == (1, 4, 4)
    np.testing.assert_array_equal(scores, np.full((1, 4, 2), 0.5))


@pytest.mark.parametrize("layout", [(), ("cores:2,rows:2", "batch:cores,height:rows", "stacked")])
@pytest.mark.parametrize("per_class", [False, True])
def test_non_maximum_suppression(layout, per_class):
    rng = np.random.default_rng(2)
    number = 40
    each = (number, CLASSES) if per_class else (number,)
    boxes = np.stack([random_boxes(rng, int(np.prod(each)), 30, 30).reshape(*each, 4) for _ in range(2)])
    scores = rng.random((2, number, CLASSES)).astype(np.float32)
    scores[1] = np.where(rng.random(scores[1].shape) < 0.95, 0, scores[1])  # fewer detections than there is room for

    def fn(boxes, scores, image):
        del image
        return non_maximum_suppression(boxes, scores, 0.4, 0.3, 25)

    shape = f"batch:2,candidates:{number},classes:{CLASSES}"
    inputs = {"boxes": f"{shape if per_class else f'batch:2,candidates:{number}'},coords:4", "scores": shape}
    # An image, so that a rule for its height is legal.
    program = mi.Program(fn, {**inputs, "image": "batch:2,height:4"}, *layout)
    got = {k: v.numpy() for k, v in program(boxes=boxes, scores=scores, image=np.zeros((2, 4), np.float32)).items()}
    want = []
    for own_boxes, own_scores in zip(boxes.astype(np.float64), scores):
        if per_class:
            detections = []
            for label in range(CLASSES):
                others = own_scores[:, [label]]
                detections += [
                    (score, label, box)
                    for score, _, box in reference_detection.suppress(own_boxes[:, label], others, 0.4, 0.3, 25)
                ]
            want.append(sorted(detections, key=lambda row: -row[0])[:25])
        else:
            want.append(reference_detection.suppress(own_boxes, own_scores, 0.4, 0.3, 25))
    assert len(want[0]) == 25 > len(want[1]) > 0
    assert_detections(got, want)
