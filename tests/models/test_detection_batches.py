"""Batches of images through trained detectors: the same detections as one image at a time, for several sizes."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.models.detection import Anchors, ObjectDetection, RetinaNet
from mtf_imaging.training.prediction import NetworkBuilder
from tests.models import programs
from tests.models.tiny_backbone import TinyBackbone

SIZE, SCALED = (32, 40), (24, 30)
RETINANET = RetinaNet(
    TinyBackbone(8), filters=3, head_convs=1, min_level=2, max_level=4, anchors=Anchors(scales=(2.0,), ratios=(1.0,))
)
LAYOUTS = {"": "", "rows:2,cols:2": "height:rows,width:cols", "rows:3": "batch:rows"}


@pytest.mark.slow
@pytest.mark.parametrize("mesh", LAYOUTS)
@pytest.mark.parametrize("name", ["retinanet", "mask_rcnn"])
def test_a_batch_has_the_detections_of_its_images(name, mesh):
    if name == "retinanet":
        task = ObjectDetection(RETINANET, classes=3, max_boxes=4, score_threshold=0.0)
    else:
        task = programs.mask_rcnn_task()
    program = programs.train_program(task, SIZE)
    options = {"task": task, "dtype": "float64", "layout": Layout.parse(mesh, LAYOUTS[mesh])}
    for size in (SIZE, SCALED):
        one = NetworkBuilder(**options | {"layout": mi.Layout.parse("", "")}).network_of(program, size)
        batch = NetworkBuilder(**options, batch_size=3).network_of(program, size)
        images = np.random.default_rng(0).standard_normal((3, *size, 3))
        expected = [one(image) for image in images]
        assert sum((result["scores"] > 0).sum() for result in expected) > 4
        for number in (3, 2):
            results = batch.predict_batch(images[:number])
            assert len(results) == number
            for found, own in zip(results, expected, strict=False):
                tf.nest.map_structure(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9), found, own)
        for found, own in zip(batch(images[0]).values(), expected[0].values(), strict=True):
            np.testing.assert_allclose(found, own, rtol=1e-9, atol=1e-9)
