"""The losses of `InstanceSegmentation` equal NumPy's, from the outputs of a network and given random numbers."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection import Anchors, InstanceSegmentation, rpn
from tests.models import reference_mask_rcnn as reference

ANCHORS = Anchors(scales=(1.0,), ratios=(1.0, 2.0), size=2.0)
IMAGE, STRIDE, MAP = (18, 15), 3, (6, 5)
ROIS, FOREGROUND, PROPOSALS, BOXES, CLASSES = 9, 4, 7, 4, 3

INPUTS = {
    "scores": ("batch:2,height:6,width:5,anchors:2", tf.float64),
    "deltas": ("batch:2,height:6,width:5,anchors:2,coords:4", tf.float64),
    "priorities": ("batch:2,height:6,width:5,anchors:2", tf.float64),
    "roi_priorities": (f"batch:2,candidates:{PROPOSALS + BOXES}", tf.float64),
    "logits": (f"batch:2,rois:{ROIS},classes:{CLASSES + 1}", tf.float64),
    "roi_deltas": (f"batch:2,rois:{ROIS},classes:{CLASSES + 1},coords:4", tf.float64),
    "mask_logits": (f"batch:2,rois:{FOREGROUND},mask_height:4,mask_width:4", tf.float64),
}


@dataclasses.dataclass
class Network:
    """A network whose outputs are inputs of the program."""

    given: types.SimpleNamespace
    classes: int = CLASSES
    strides: tuple[int, ...] = (STRIDE,)
    level_anchors: Anchors = ANCHORS

    def with_classes(self, classes):
        return dataclasses.replace(self, classes=classes)

    def features(self, image, is_training):
        return None

    def region_scores(self, features, is_training):
        return [self.given.scores], [self.given.deltas]

    def classify(self, features, rois, is_training):
        return self.given.logits, self.given.roi_deltas

    def masks(self, features, boxes, classes, is_training):
        return self.given.mask_logits


def task(given=None):
    return InstanceSegmentation(
        Network(given),
        classes=CLASSES,
        max_boxes=BOXES,
        mask_size=5,
        anchor_samples=16,
        rois=ROIS,
        foreground=FOREGROUND / ROIS,
        train_per_level=20,
        proposals=PROPOSALS,
        proposal_threshold=0.6,
    )


@pytest.fixture
def losses(monkeypatch):
    """A function that returns the losses of a task, given the outputs of the network and the objects."""

    def fn(image, boxes, classes, masks, **outputs):
        given = types.SimpleNamespace(**outputs)
        monkeypatch.setattr(rpn, "anchor_priorities", lambda masks: [given.priorities])
        monkeypatch.setattr(mi.mtf, "random_uniform", lambda mesh, shape, dtype: given.roi_priorities)
        return task(given).loss(image, boxes, classes, masks)

    inputs = {**INPUTS, **task().inputs(2, IMAGE, tf.float64)}
    return lambda *layout: mi.Program(fn, inputs, *layout)


def batch(num_objects, seed=0):
    """Returns outputs of a network and objects; `num_objects` of each image."""
    rng = np.random.default_rng(seed)
    values = {
        name: rng.standard_normal([int(d.split(":")[1]) for d in s.split(",")]) for name, (s, _) in INPUTS.items()
    }
    values["deltas"] *= 0.5
    values["priorities"] = rng.permuted(np.tile(np.arange(60) / 60, (2, 1)), axis=1).reshape(2, 6, 5, 2)
    values["roi_priorities"] = rng.permuted(np.tile(np.arange(11) / 11, (2, 1)), axis=1)
    begin = rng.uniform(0, 9, (2, BOXES, 2))
    boxes = np.concatenate([begin, begin + rng.uniform(4, 6, begin.shape)], -1).astype(np.float32)
    classes = rng.integers(0, CLASSES, (2, BOXES)).astype(np.int32)
    for image, number in enumerate(num_objects):
        classes[image, number:] = reference.PADDING
    boxes[classes == reference.PADDING] = 0
    masks = rng.uniform(0, 1, (2, BOXES, 5, 5)).astype(np.float32)
    return values | {"image": np.zeros((2, *IMAGE, 3)), "boxes": boxes, "classes": classes, "masks": masks}


def expected(values):
    """Returns the parts of the loss, and the number of foreground RoIs."""
    boxes, classes = values["boxes"].astype(np.float64), values["classes"]
    anchors = reference.anchors(*MAP, STRIDE, ANCHORS.size, ANCHORS.ratios, IMAGE)
    rows = [values[name].reshape(2, 60, *values[name].shape[4:]) for name in ("scores", "deltas", "priorities")]
    score_loss, box_loss, _ = reference.rpn_losses(
        rows[0], rows[1], anchors.reshape(-1, 4), [60], boxes, classes, rows[2], number=16
    )
    rois = []
    for image in range(2):
        given = [values["scores"][image]], [values["deltas"][image]], [anchors]
        proposals, count = reference.proposals(*given, IMAGE, 20, PROPOSALS, 0.6)
        own = [(PROPOSALS + i, box) for i, box in enumerate(boxes[image]) if classes[image, i] != reference.PADDING]
        candidates = list(enumerate(proposals[:count])) + own
        objects = boxes[image], classes[image], values["roi_priorities"][image]
        rois.append(reference.sample_rois(candidates, *objects, ROIS, FOREGROUND, 0.5))
    outputs = values["logits"], values["roi_deltas"], values["mask_logits"], values["masks"].astype(np.float64)
    parts = score_loss, box_loss, *reference.roi_losses(rois, boxes, *outputs)
    names = ("rpn_score_loss", "rpn_box_loss", "class_loss", "box_loss", "mask_loss")
    return dict(zip(names, parts)), [sum(label > 0 for _, label, _ in rows) for rows in rois]


@pytest.mark.parametrize(
    "layout",
    [
        ("", ""),
        pytest.param(("rows:2,cols:2", "height:rows,width:cols,rois:rows"), marks=pytest.mark.slow),
        pytest.param(("rows:3,cols:2", "rois:rows,batch:cols"), marks=pytest.mark.slow),
    ],
)
def test_losses(losses, layout):
    program = losses(*layout)
    # All boxes of the first batch have objects, one image of the second has none, and no image of the third has any.
    for seed, num_objects in enumerate([(4, 2), (3, 0), (0, 0)]):
        values = batch(num_objects, seed)
        loss, measures = program(**values)
        want, foreground = expected(values)
        assert [n > 0 for n in foreground] == [n > 0 for n in num_objects]
        for name, value in want.items():
            np.testing.assert_allclose(measures[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(loss, sum(want.values()), rtol=1e-9)
        empty = [name for name, value in measures.items() if float(value) == 0]
        assert empty == (["rpn_box_loss", "box_loss", "mask_loss"] if num_objects == (0, 0) else [])
