"""Networks first predict the frequencies of the classes, under every layout."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.class_biases import sigmoid_biases, softmax_biases
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, UNet3D
from tests.models.programs import numbers
from tests.models.test_unet3d import batch
from tests.models.tiny_backbone import TinyBackbone

FREQUENCIES = (0.9, 0.09, 0.01)
NETWORK = UNet3D(base_filters=2, depth=3, convs=1, dropout_rate=0.0)
SIZES = (7, 6, 5)
REGIONS = {"whole": (1, 2), "core": (2,)}
BIAS = "unet3d/classes/bias"


def loss_program(task, *layout):
    return mi.Program(task.loss, task.inputs(2, SIZES, tf.float64), *layout)


def initial(task, *layout):
    return numbers(loss_program(task, *layout).variables)


def test_a_softmax_of_the_biases_is_the_frequencies():
    np.testing.assert_allclose(tf.nn.softmax(softmax_biases(FREQUENCIES)).numpy(), FREQUENCIES, rtol=1e-6)
    assert abs(sum(softmax_biases(FREQUENCIES))) < 1e-12
    np.testing.assert_allclose(tf.nn.sigmoid(sigmoid_biases((0.3, 0.01))).numpy(), (0.3, 0.01), rtol=1e-6)


def test_frequencies_of_0_and_1_give_finite_biases():
    assert np.isfinite(softmax_biases((1.0, 0.0))).all()
    np.testing.assert_allclose(sigmoid_biases((1.0, 0.0)), (np.log(1e6), -np.log(1e6)), rtol=1e-5)


@pytest.mark.parametrize("layout", [(), ("rows:2,cols:3", "x:rows,y:cols"), ("cores:2", "batch:cores")])
def test_only_the_biases_of_the_classes_change(layout):
    task = LiverTumorSegmentation(NETWORK)
    zeros, given = initial(task, *layout), initial(task.with_class_frequencies(FREQUENCIES), *layout)
    np.testing.assert_allclose(given.pop(BIAS), softmax_biases(FREQUENCIES), rtol=1e-6)
    assert not zeros.pop(BIAS).any()
    for name, value in zeros.items():
        np.testing.assert_array_equal(given[name], value, err_msg=name)


def test_the_first_loss_is_smaller_and_the_same_under_a_split():
    task, inputs = LiverTumorSegmentation(NETWORK, class_weights=(1, 1, 1), dice_weight=0.0), batch(SIZES)
    inputs["labels"] = (np.random.default_rng(0).random((2, *SIZES)) > 0.95).astype(np.int32)
    counts = np.bincount(inputs["labels"].ravel(), minlength=3)
    biased = task.with_class_frequencies(counts / counts.sum())
    losses = [
        float(loss_program(each, *layout)(**inputs)[0])
        for each, *layout in [(task,), (biased,), (biased, "rows:2,cols:3", "x:rows,y:cols")]
    ]
    assert losses[1] < 0.7 * losses[0]
    assert losses[2] == pytest.approx(losses[1], rel=1e-9)


def test_coarser_logits_have_the_same_biases():
    task = LiverTumorSegmentation(dataclasses.replace(NETWORK, deep_supervision=1))
    values = initial(task.with_class_frequencies(FREQUENCIES))
    np.testing.assert_array_equal(values["unet3d/classes1/bias"], values[BIAS])


def test_each_region_starts_from_its_own_frequency():
    task = Segmentation(NETWORK, labels=2, regions=REGIONS)
    assert task.with_class_frequencies((0.3, 0.01)).network.class_biases == sigmoid_biases((0.3, 0.01))


def test_biases_of_the_user_stay():
    task = LiverTumorSegmentation(dataclasses.replace(NETWORK, class_biases=(0, 1, 2)))
    assert task.with_class_frequencies(FREQUENCIES).network.class_biases == (0, 1, 2)
    task = LiverTumorSegmentation(lambda image, is_training: image)  # a network without this method stays as it is
    assert task.with_class_frequencies(FREQUENCIES) is task


@pytest.mark.parametrize("frequencies", [(0.5, 0.5), (0.5, 0.6, -0.1), (0.5, 0.5, 1.1)])
def test_invalid_frequencies_are_refused(frequencies):
    for task in (LiverTumorSegmentation(NETWORK), SemanticSegmentation(DeepLab(TinyBackbone()), classes=3)):
        with pytest.raises(mi.ConfigError, match="there must be a number from 0 to 1 for each of the 3 outputs"):
            task.with_class_frequencies(frequencies)


def test_another_number_of_biases_is_refused():
    task = LiverTumorSegmentation(dataclasses.replace(NETWORK, class_biases=(0.0, 1.0)))
    with pytest.raises(mi.MtfImagingError, match=r"bias"):
        initial(task)


def test_deeplab_starts_from_the_frequencies_of_its_classes():
    network = DeepLab(TinyBackbone(), filters=2, low_level_filters=2, decoder_filters=2, decoder_convs=1)
    task = SemanticSegmentation(network, classes=3).with_class_frequencies(FREQUENCIES)
    program = mi.Program(
        lambda image, labels: task.loss(image, labels)[0],
        task.inputs(2, (16, 16)),
        mesh_shape="rows:2",
        layout="height:rows",
    )
    np.testing.assert_allclose(program.variables["deeplab/classes/bias"], softmax_biases(FREQUENCIES), rtol=1e-6)
