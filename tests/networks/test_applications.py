"""Networks of all families of `keras.applications` are converted without a change."""

import keras
import numpy as np
import pytest

import mtf_imaging as mi
from tests.networks import comparing

APPLICATIONS = [name for name, each in vars(keras.applications).items() if callable(each)]
# These need larger images.
SIZES = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
# One network of each family, which has all of its operations; the others only have more layers.
SMALLEST = {
    *("ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "EfficientNetV2B0", "InceptionResNetV2", "InceptionV3"),
    *("MobileNet", "MobileNetV2", "MobileNetV3Small", "NASNetMobile", "ResNet50", "ResNet50V2", "VGG16", "Xception"),
}
DIFFERENTIATED = ("ConvNeXtTiny", "EfficientNetB0", "MobileNetV2", "ResNet50", "ResNet50V2")


def built(name):
    comparing.use_dtype("float64")
    size = SIZES.get(name, 32)
    model = getattr(keras.applications, name)(
        weights=None, classes=10, input_shape=(size, size, 3), classifier_activation=None
    )
    rng = np.random.default_rng(0)
    for variable in model.variables:  # other than the initial values, with which norms change nothing
        if "variance" in variable.path or "gamma" in variable.path:
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
        elif "mean" in variable.path or "beta" in variable.path:
            variable.assign(rng.uniform(-0.1, 0.1, variable.shape))
    return model


def test_all_families_have_a_smallest_network():
    assert len(APPLICATIONS) == 40
    assert {*APPLICATIONS} > SMALLEST


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALLEST))
def test_outputs_of_applications(name):
    """A network computes its logits under a layout as in Keras. Untrained, deep ones amplify rounding 1e5-fold."""
    model = built(name)
    network = mi.networks.load(model)
    specs = network.inputs(batch=2)
    image = comparing.arrays(specs)["image"]
    program = mi.Program(network, specs, "rows:2,cols:2", "x:rows,y:cols")
    wanted = model(image).numpy()
    largest = np.abs(wanted).max()
    assert largest > 1e-6
    assert np.abs(program(image=image) - wanted).max() <= 1e-9 * largest


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    comparing.use_dtype("float32")


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_of_applications(name):
    """The gradients of the image and of all weights equal those of Keras. In training, so few voxels are chaotic."""
    comparing.check_model(built(name), "split", batch=2)
