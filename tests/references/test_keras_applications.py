"""A ResNet50 of Keras applications with random weights: imported from each kind of file, it has the same features."""

import keras
import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.models.resnet import WEIGHT_FORMATS, ResNetBackbone
from tests.references.transplants import LAYOUTS, assert_equal, compute_imported, image_spec, randomize_variables

MEAN = np.array([123.68, 116.779, 103.939])  # of red, green and blue, in imagenet_utils.py of Keras
FILES = ("model.weights.h5", "model.keras", "model.h5")
STAGES = ("conv2_block3_out", "conv3_block4_out", "conv4_block6_out", "conv5_block3_out")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The folder of the files, an image of red, green and blue in 0..255, and the features in float64."""
    folder = tmp_path_factory.mktemp("keras")
    keras.backend.set_floatx("float64")
    try:
        model = keras.applications.ResNet50(weights=None, include_top=False, input_shape=(64, 96, 3))
        randomize_variables(model)
        model.save_weights(folder / FILES[0])
        model.save(folder / FILES[1])
        model.save(folder / FILES[2])
        image = np.random.default_rng(0).uniform(0, 255, (1, 64, 96, 3))
        features = keras.Model(model.input, [model.get_layer(name).output for name in STAGES])
        outputs = features(keras.applications.resnet.preprocess_input(image.copy()))
    finally:
        keras.backend.set_floatx("float32")
    return folder, image, [np.asarray(output) for output in outputs]


@pytest.mark.parametrize(
    ("name", "mesh_shape", "layout"), [*((name, *LAYOUTS[0]) for name in FILES), (FILES[0], *LAYOUTS[1])]
)
def test_an_imported_resnet_has_the_same_features(network, tmp_path, name, mesh_shape, layout):
    folder, image, expected = network
    imported = mi.jobs.import_weights(checkpoint=folder / name, output_dir=tmp_path / "weights", formats=WEIGHT_FORMATS)
    assert (imported.title, imported.num_variables, imported.others) == ("ResNet-50", 265, ())
    assert 'image scaling "mean"' in imported.notes[0]
    backbone = ResNetBackbone(**imported.settings)

    def fn(image):
        return list(backbone.features(image, is_training=False))

    found = compute_imported(tmp_path / "weights", fn, {"image": image_spec(image - MEAN)}, mesh_shape, layout)
    for feature, other in zip(found, expected, strict=True):
        assert_equal(feature, other, tolerance=1e-7)  # the difference of a mean and a bias is rounded to float32
