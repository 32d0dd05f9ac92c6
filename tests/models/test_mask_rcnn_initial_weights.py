"""The initial weights of the heads of Mask R-CNN have the distributions of the reference implementation.

The numbers are those of models/official/mask_rcnn/heads.py in tensorflow/tpu. Its dense layers have the default of
TensorFlow, the uniform distribution of Glorot et al. (2010).
"""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.head_layers import HeadLayers
from mtf_imaging.models.detection.roi_heads import BoxHead, MaskHead
from mtf_imaging.models.detection.rpn import RPNHead

CHANNELS, FILTERS, UNITS, CLASSES, BINS = 32, 48, 96, 19, 4
NORMAL = {
    "rpn/conv/filter": 0.01,
    "rpn/scores/weights": 0.01,
    "rpn/boxes/weights": 0.01,
    "box_head/classes/weights": 0.01,
    "box_head/boxes/weights": 0.001,
    "mask_head/conv0/filter": (2 / (3 * 3 * FILTERS)) ** 0.5,
    "mask_head/upsample/filter": (2 / (2 * 2 * FILTERS)) ** 0.5,
    "mask_head/masks/weights": (2 / (CLASSES + 1)) ** 0.5,
}
UNIFORM = {
    "box_head/dense0/weights": (6 / (BINS * BINS * CHANNELS + UNITS)) ** 0.5,
    "box_head/dense1/weights": (6 / (UNITS + UNITS)) ** 0.5,
}


@pytest.fixture(scope="module")
def weights():
    def fn(level, crops, classes):
        layers = HeadLayers(False, False, 0.9, 1e-3)
        outputs = RPNHead(layers, FILTERS, 40)([level], 3)
        return outputs, BoxHead(layers, UNITS, CLASSES)(crops), MaskHead(layers, FILTERS, 1, CLASSES)(crops, classes)

    inputs = {
        "level": f"batch:1,height:1,width:1,channels:{CHANNELS}",
        "crops": f"batch:1,rois:1,crop_height:{BINS},crop_width:{BINS},channels:{CHANNELS}",
        "classes": ("batch:1,rois:1", tf.int32),
    }
    return {name: variable.numpy() for name, variable in mi.Program(fn, inputs).variables.items()}


@pytest.mark.parametrize("name", NORMAL)
def test_normal_weights(weights, name):
    values = weights[name].ravel() / NORMAL[name]
    error = 1 / np.sqrt(len(values))
    assert abs(values.mean()) < 4 * error
    assert abs(values.std() - 1) < 3 * error  # the distribution truncated at two standard deviations has 0.88
    assert (np.abs(values) > 2).any()


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_weights(weights, name):
    values = weights[name].ravel() / UNIFORM[name]
    assert np.abs(values).max() <= 1
    assert np.abs(values).max() > 0.999
    assert abs(values.std() - 3**-0.5) < 2 / np.sqrt(len(values))


def test_all_other_weights_are_biases_of_0(weights):
    others = weights.keys() - NORMAL.keys() - UNIFORM.keys()
    assert {name.rpartition("/")[2] for name in others} == {"bias"}
    assert not any(weights[name].any() for name in others)
