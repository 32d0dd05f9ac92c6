"""The losses of the region proposal network, and the targets of masks, equal those of TensorFlow's model garden."""

import numpy as np
import pytest
import tensorflow as tf
from official.vision.losses.maskrcnn_losses import RpnBoxLoss, RpnScoreLoss
from official.vision.ops.anchor import Anchor, RpnAnchorLabeler
from official.vision.ops.spatial_transform_ops import crop_mask_in_target_box

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.mask_targets import mask_targets
from mtf_imaging.models.detection.rpn import AnchorSampling, rpn_losses

SIZES, STRIDES, BATCH, SAMPLES = (72, 100), (8, 16, 32), 2, 8192  # more samples than anchors, so none is random
SIZE = 1.5  # positive anchors at all levels
LAYOUTS = [("", ""), ("rows:2,cols:2", "height:rows,width:cols")]


def random_boxes(rng, number):
    low = rng.uniform(0, [40, 60], (BATCH, number, 2))
    return np.concatenate([low, low + rng.uniform(8, 40, low.shape)], -1).astype(np.float32)


@pytest.mark.parametrize(("mesh_shape", "layout"), LAYOUTS)
def test_losses_of_the_region_proposal_network(mesh_shape, layout):
    rng = np.random.default_rng(0)
    boxes, classes = random_boxes(rng, 5), np.zeros((BATCH, 5), np.int32)
    anchors = Anchor(3, 5, 1, [0.5, 1.0, 2.0], SIZE, SIZES).multilevel_boxes
    scores, deltas = (
        {level: rng.normal(0, 0.3, (BATCH, *x.shape[:2], 3 * n)).astype(np.float32) for level, x in anchors.items()}
        for n in (1, 4)
    )
    labeler = RpnAnchorLabeler(0.5, 0.3, SAMPLES)
    labels = [labeler.label_anchors(anchors, tf.constant(x), tf.zeros([5, 1])) for x in boxes]
    score_targets, box_targets = ({k: tf.stack([x[i][k] for x in labels]) for k in anchors} for i in (0, 1))
    positives = [int(tf.reduce_sum(tf.cast(x == 1, tf.int32))) for x in score_targets.values()]
    assert len(set(positives)) == 3
    assert min(positives) > 0
    expected = RpnScoreLoss(SAMPLES)(scores, score_targets), RpnBoxLoss(1 / 9)(deltas, box_targets)

    def fn(boxes, classes, **outputs):
        scores, deltas = ([outputs[f"{name}{k}"] for k in anchors] for name in ("score", "delta"))
        shapes = Anchors((1.0,), (0.5, 1.0, 2.0), SIZE)
        levels = [shapes.boxes(x, stride, SIZES) for x, stride in zip(scores, STRIDES)]
        return rpn_losses(scores, deltas, levels, boxes, classes, AnchorSampling(SAMPLES, high=0.5, low=0.3))

    specs, values = {}, {}
    for k, x in anchors.items():
        shape = f"batch:{BATCH},height:{x.shape[0]},width:{x.shape[1]},anchors:3"
        specs |= {f"score{k}": shape, f"delta{k}": f"{shape},coords:4"}
        values |= {f"score{k}": scores[k], f"delta{k}": deltas[k].reshape(*scores[k].shape, 4)}
    specs |= {"boxes": f"batch:{BATCH},boxes:5,coords:4", "classes": (f"batch:{BATCH},boxes:5", "int32")}
    found = mi.Program(fn, specs, mesh_shape, layout)(boxes=boxes, classes=classes, **values)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    # It adds 0.01 to the number of coordinates.
    factors = [(4 * n + 0.01) / (4 * n) for n in positives]
    assert float(expected[1]) * min(factors) <= float(found[1]) * (1 + 1e-5)
    assert float(found[1]) <= float(expected[1]) * max(factors) * (1 + 1e-5)


def test_mask_targets():
    """Its targets are interpolated, and pixel i of a mask lies at i. Ours are 1 from 1/2 on, and it lies at i + 1/2."""
    rng = np.random.default_rng(1)
    objects = random_boxes(rng, 4)
    rois = (objects + rng.uniform(-4, 4, objects.shape)).astype(np.float32)
    masks = rng.integers(0, 2, (BATCH, 4, 7, 7)).astype(np.float32)
    expected = crop_mask_in_target_box(masks, objects, rois, 12, sample_offset=0.5).numpy()
    boxes = f"batch:{BATCH},rois:4,coords:4"
    specs = {"masks": f"batch:{BATCH},boxes:4,mask_height:7,mask_width:7", "objects": boxes, "rois": boxes}
    specs["matches"] = (f"batch:{BATCH},rois:4", "int32")
    program = mi.Program(lambda **inputs: mask_targets(**inputs, size=12), specs)
    half_pixels = np.tile(objects[..., 2:] - objects[..., :2], 2) / 7 / 2
    found = program(masks=masks, objects=objects, rois=rois + half_pixels, matches=np.tile(np.arange(4), (BATCH, 1)))
    np.testing.assert_array_equal(found, expected >= 0.5)
