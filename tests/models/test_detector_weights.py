"""Checkpoints of detectors of official/vision: names, shapes and classes. tests/references compares their results."""

import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.detection import MaskRCNN, RetinaNet
from mtf_imaging.models.detection.weights import WEIGHT_FORMATS as DETECTORS
from mtf_imaging.models.resnet import WEIGHT_FORMATS, ResNetBackbone
from mtf_imaging.training.checkpoints.weights_folder import Weights, find_weights
from tests.models import reference_checkpoints as reference

FILTERS, BLOCKS, BASE = 6, (1, 1, 1, 1), 2
COCO = 91
END = reference.ENDING


class Checkpoint:
    """The variables of a checkpoint with random values.

    Attributes:
      arrays: {name: value}.
    """

    def __init__(self, prefix=""):
        image = np.zeros((1, 32, 32, 3), np.float32)
        self.arrays = reference.tf_vision(image, BLOCKS, BASE, prefix=f"{prefix}backbone/")[0]
        self._prefix, self._rng = prefix, np.random.default_rng(0)

    def add(self, name, *shape):
        self.arrays[f"{self._prefix}{name}{END}"] = self._rng.uniform(0.5, 1.5, shape).astype(np.float32)

    def layer(self, name, *shape):
        self.add(f"{name}/kernel", *shape)
        self.add(f"{name}/bias", shape[-1])

    def norm(self, name, size):
        for own in reference.NORM:
            self.add(f"{name}/{own}", size)

    def pyramid(self, laterals, convs):
        """Adds a pyramid whose convolutions have the order `laterals` of sizes; norms follow."""
        inputs = [4 * BASE * 2**stage for stage in (3, 2, 1, 0)]
        at = iter(inputs)
        for number, size in enumerate(laterals):
            self.layer(f"decoder/layer_with_weights-{number}", size, size, next(at) if size == 1 else FILTERS, FILTERS)
        for number in range(len(laterals), len(laterals) + convs):
            self.norm(f"decoder/layer_with_weights-{number}", FILTERS)


def retinanet(prefix="", classes=COCO, anchors=9, pyramid=(1, 1, 3, 1, 3, 3, 3, 3)):
    checkpoint = Checkpoint(prefix)
    checkpoint.pyramid(pyramid, sum(size == 3 for size in pyramid))
    for name, outputs in (("cls", classes), ("box", 4)):
        for i in range(2):
            checkpoint.layer(f"head/_{name}_convs/{i}", 3, 3, FILTERS, FILTERS)
            for level in range(5):
                checkpoint.norm(f"head/_{name}_norms/{level}/{i}", FILTERS)
        own = {"cls": "_classifier", "box": "_box_regressor"}[name]
        checkpoint.layer(f"head/{own}", 3, 3, FILTERS, anchors * outputs)
    return checkpoint.arrays


def mask_rcnn(prefix="", classes=COCO, head="detection_head/0", rpn_convs=1, anchors=3):
    checkpoint = Checkpoint(prefix)
    checkpoint.pyramid((1, 1, 1, 1, 3, 3, 3, 3, 3), 5)
    for i in range(rpn_convs):
        checkpoint.layer(f"rpn_head/_convs/{i}", 3, 3, FILTERS, FILTERS)
        for level in range(5):
            checkpoint.norm(f"rpn_head/_norms/{level}/{i}", FILTERS)
    checkpoint.layer("rpn_head/_classifier", 1, 1, FILTERS, anchors)
    checkpoint.layer("rpn_head/_box_regressor", 1, 1, FILTERS, 4 * anchors)
    for own, number in ((head, 2), ("mask_head", 1)):
        for i in range(number):
            checkpoint.layer(f"{own}/_convs/{i}", 3, 3, FILTERS, FILTERS)
            checkpoint.norm(f"{own}/_conv_norms/{i}", FILTERS)
    checkpoint.layer(f"{head}/_fcs/0", 3 * 3 * FILTERS, 10)
    checkpoint.norm(f"{head}/_fc_norms/0", 10)
    checkpoint.layer(f"{head}/_classifier", 10, classes)
    checkpoint.layer(f"{head}/_box_regressor", 10, 4 * classes)
    checkpoint.add("mask_head/_deconv/kernel", 2, 2, FILTERS, FILTERS)
    checkpoint.add("mask_head/_deconv/bias", FILTERS)
    checkpoint.norm("mask_head/_deconv_bn", FILTERS)
    checkpoint.layer("mask_head/_mask_regressor", 1, 1, FILTERS, classes)
    return checkpoint.arrays


def do_import(tmp_path, arrays, **options):
    path = reference.write(tmp_path / "ckpt-7", arrays)
    options |= {"output_dir": tmp_path / "weights", "formats": (*DETECTORS, *WEIGHT_FORMATS)}
    return mi.jobs.import_weights(checkpoint=path, **options)


def weights(tmp_path):
    file = Weights(find_weights(tmp_path / "weights"))
    return dict(file.read(list(file.shapes)))


def network(imported, kind):
    settings = {name.rpartition(".")[2]: value for name, value in imported.network_settings.items()}
    return kind(backbone=ResNetBackbone(**imported.settings), **settings)


def variables(fn, **inputs):
    """Returns the shapes of the variables that a function creates."""
    specs = {"image": ("batch:2,height:64,width:64,channels:3", tf.float32), **inputs}
    return {
        variable.name: tuple(variable.shape.to_integer_list) for variable in trace_only(fn, specs).graph.all_variables
    }


@pytest.mark.parametrize("prefix", ["", "model/"])
def test_a_retinanet_has_all_variables(tmp_path, prefix):
    arrays = retinanet(prefix)
    imported = do_import(tmp_path, arrays)
    assert imported.file_format == "tf_vision_retinanet"
    assert imported.settings.items() >= {"norm_epsilon": 1e-3, "norm_momentum": 0.99, "padding": "same"}.items()
    detector = network(imported, RetinaNet)
    assert (detector.classes, detector.head_convs, detector.filters) == (80, 2, FILTERS)
    values = weights(tmp_path)
    assert {name: value.shape for name, value in values.items()} == variables(lambda image: detector(image, True))
    assert "80 classes with a category" in imported.notes[-1]
    # The last category of COCO, a toothbrush, has the number 90 there, and the index 79 here.
    bias = arrays[f"{prefix}head/_classifier/bias{END}"].reshape(9, COCO)
    own = values["class_head/predictions/bias"].reshape(9, 80)
    np.testing.assert_array_equal(own[:, [0, 10, 11, 79]], bias[:, [1, 11, 13, 90]])
    kernel = arrays[f"{prefix}head/_classifier/kernel{END}"].reshape(3, 3, FILTERS, 9, COCO)
    own = values["class_head/predictions/filter"].reshape(3, 3, FILTERS, 9, 80)
    np.testing.assert_array_equal(own[..., [0, 79]], kernel[..., [1, 90]])


@pytest.mark.parametrize("head", ["detection_head/0", "detection_head"])
def test_a_mask_rcnn_has_all_variables(tmp_path, head):
    arrays = mask_rcnn(head=head)
    imported = do_import(tmp_path, arrays)
    assert imported.file_format == "tf_vision_mask_rcnn"
    detector = network(imported, MaskRCNN)
    assert (detector.classes, detector.box_convs, detector.box_dense, detector.box_size) == (80, 2, 1, 3)

    def fn(image, rois, classes):
        levels = detector.features(image, True)
        results = [*detector.region_scores(levels, True), detector.classify(levels, rois, True)]
        return [*results, detector.masks(levels, rois, classes, True)]

    rois = {"rois": ("batch:2,rois_whole:2,coords:4", tf.float32), "classes": ("batch:2,rois_whole:2", tf.int32)}
    values = weights(tmp_path)
    assert {name: value.shape for name, value in values.items()} == variables(fn, **rois)
    np.testing.assert_array_equal(
        values["box_head/classes/bias"][[0, 11, 12, 80]], arrays[f"{head}/_classifier/bias{END}"][[0, 11, 13, 90]]
    )
    boxes = arrays[f"{head}/_box_regressor/kernel{END}"].reshape(10, COCO, 4)
    np.testing.assert_array_equal(values["box_head/boxes/weights"][:, 80], boxes[:, 90])
    mean, bias = (arrays[f"{head}/{name}{END}"] for name in ("_fc_norms/0/moving_mean", "_fcs/0/bias"))
    np.testing.assert_allclose(values["box_head/dense0/norm/moving_mean"], mean - bias, rtol=1e-6, atol=1e-7)


def test_other_numbers_of_classes_are_kept(tmp_path):
    imported = do_import(tmp_path, retinanet(classes=5))
    assert imported.network_settings["detection.RetinaNet.classes"] == 4
    assert not any("COCO" in note for note in imported.notes)


def test_the_backbone_alone_can_be_chosen(tmp_path):
    imported = do_import(tmp_path, retinanet(), file_format="tf_vision")
    assert imported.network_settings == {}
    assert imported.num_variables == 5 * (1 + 4 * 4)


FAULTS = [
    (
        lambda: retinanet(pyramid=(1, 1, 3, 3, 3, 3)),
        "has 2 1 x 1 and 4 3 x 3 convolutions. Only pyramids of the levels",
    ),
    (lambda: mask_rcnn(rpn_convs=2), "'rpn_head/_convs' has 2 convolutions, but the region proposal network"),
    (lambda: retinanet(anchors=3), "has 3 anchors in each cell, but RetinaNet has 9"),
    (lambda: mask_rcnn(anchors=9), "'rpn_head/_classifier' has 9 anchors in each cell, but MaskRCNN has 3"),
    (lambda: without(mask_rcnn(), "mask_head/"), "there is no variable 'mask_head/_deconv/kernel.*Fix: "),
    (lambda: without(retinanet(), "decoder/"), "there is no feature pyramid 'decoder/layer_with_weights-0'. Fix: "),
    (lambda: without(retinanet(), "head/_box_regressor/bias"), "'head/_box_regressor/bias.*' is missing. Fix: "),
    (lambda: without(retinanet(), "head/_box_norms/4/1/beta"), "'head/_box_norms/4/1/beta.*' is missing, which is"),
]


def without(arrays, start):
    assert any(name.startswith(start) for name in arrays)
    return {name: value for name, value in arrays.items() if not name.startswith(start)}


@pytest.mark.parametrize(("arrays", "message"), FAULTS)
def test_other_detectors_are_refused(arrays, message, tmp_path):
    with pytest.raises(mi.CheckpointError, match=message) as error:
        do_import(tmp_path, arrays())
    assert re.search("Fix: ", str(error.value))
