"""The 2D networks of keras-unet-collection with random weights: loaded unchanged, they equal themselves in Keras 2."""

import importlib
import sys

import pytest
import tensorflow as tf
import tf_keras

from tests.networks import comparing

FREE, FIXED, FILTERS = (None, None, 1), (64, 64, 1), [8, 16, 32]
# {function of keras_unet_collection.models: its arguments}
NETWORKS = {
    "unet_2d": (FREE, FILTERS, 2),
    "vnet_2d": (FREE, FILTERS, 2, 1, 2),
    "unet_plus_2d": (FREE, FILTERS, 2),
    "r2_unet_2d": (FREE, FILTERS, 2),
    "att_unet_2d": (FREE, FILTERS, 2),
    "resunet_a_2d": (FIXED, [8, 16, 32, 64], [1, 3], 2),
    "u2net_2d": (FIXED, 2, [8, 16, 32, 64], [16, 16], [8, 8, 8, 8], [8, 8]),
    "unet_3plus_2d": (FIXED, 2, FILTERS),
    "transunet_2d": (FIXED, FILTERS, 2, 2, 2, 32, 32, 2, 1),
    "swin_unet_2d": (FIXED, 8, 2, 3, 1, 1, [2, 2], [2, 2, 2, 2], [2, 2, 2, 2], 32),
}


@pytest.fixture(scope="module")
def models():
    """The module of the package, which finds Keras 2 as `tensorflow.keras`; two of its networks need that release."""
    tf_keras.backend.set_floatx("float64")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf, "keras", tf_keras)
        for part in ("", ".activations", ".applications", ".backend", ".layers", ".models"):
            patch.setitem(sys.modules, f"tensorflow.keras{part}", importlib.import_module(f"tf_keras{part}"))
        yield importlib.import_module("keras_unet_collection.models")
    tf_keras.backend.set_floatx("float32")


@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_loaded_unchanged(models, name, layout):
    # The V-Net needs transposed convolutions; the recurrences of the R2U-Net amplify the rounding of a resize.
    options = {"unpool": False} if name in ("vnet_2d", "r2_unet_2d") else {}
    model = getattr(models, name)(*NETWORKS[name], **options)
    comparing.randomize(model.variables)
    side = 16 if NETWORKS[name][0] is FREE else 64  # slices of 6, 6 and 4 voxels in an uneven layout and in turns
    comparing.check_model(model, layout, tolerance=1e-5, x=side, y=side)  # their resizes compute in float32
