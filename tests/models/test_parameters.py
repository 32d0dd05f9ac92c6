"""The parameters of networks and tasks are checked by their types and bounds."""

import dataclasses
import re

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.detection import Anchors, InstanceSegmentation, MaskRCNN, ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import Classification, GeneratedImages, ResNet, ResNetBackbone, Xception
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, UNet3D
from mtf_imaging.models.video import GeneratedClips, R2Plus1D
from tests.models.tiny_backbone import TinyBackbone

CLASSES = [Anchors, Classification, DeepLab, GeneratedClips, GeneratedImages, InstanceSegmentation, MaskRCNN]
CLASSES += [LiverTumorSegmentation, ObjectDetection, R2Plus1D, ResNet, ResNetBackbone, RetinaNet, Segmentation]
CLASSES += [SemanticSegmentation, UNet3D, Xception]
# The parameters that have no default.
NETWORK = {"network": lambda image, is_training: image}
NEEDED = {InstanceSegmentation: NETWORK, ObjectDetection: NETWORK, SemanticSegmentation: NETWORK}
NEEDED |= {owner: {"backbone": TinyBackbone(8)} for owner in (DeepLab, MaskRCNN, RetinaNet)}
PARAMETERS = [(owner, field) for owner in CLASSES for field in dataclasses.fields(owner) if field.init]
UNIT = "a number of at least 0 and at most 1"
FRACTION = "a number of at least 0 and below 1"


def make(owner, **parameters):
    return owner(**NEEDED.get(owner, {}) | parameters)


@pytest.mark.parametrize(
    ("owner", "field"), PARAMETERS, ids=[f"{owner.__name__}.{field.name}" for owner, field in PARAMETERS]
)
def test_every_parameter_is_checked(owner, field):
    wrong = None if field.name in NEEDED.get(owner, ()) else object()
    with pytest.raises(mi.ConfigError, match=rf"^{owner.__name__}\.{field.name} = [^:]*: it must be ."):
        make(owner, **{field.name: wrong})


@pytest.mark.parametrize(
    ("owner", "name", "value", "rule"),
    [
        *((UNet3D, "depth", value, "an int of at least 1") for value in (0, 2.0, True, "3")),
        (UNet3D, "norm", "layer", "one of 'batch', 'instance', 'group', 'none'"),
        *((UNet3D, "dropout_rate", value, FRACTION) for value in (-0.1, 1.0, float("nan"))),
        (UNet3D, "norm_momentum", 1, FRACTION),
        (UNet3D, "norm_epsilon", 0, "a number above 0"),
        (UNet3D, "gather_below", -1, "an int of at least 0"),
        *((UNet3D, "deep_supervision", each, "True or False, or an int of at least 0") for each in (-1, "all")),
        (UNet3D, "pool_sizes", ((2, 3, 1),) * 3, "a tuple in which each element is a tuple in which each element is"),
        (UNet3D, "max_filters", 0, "an int of at least 1, or None"),
        (UNet3D, "class_biases", (0, "1"), "a tuple in which each element is a number, or None"),
        (LiverTumorSegmentation, "dice", "tversky", "one of 'lesion', 'classes', 'adaptive'"),
        *((task, "dice_over", "patch", "one of 'case'") for task in (Segmentation, LiverTumorSegmentation)),
        *((Segmentation, "dice_weight", value, UNIT) for value in (-0.1, 1.2)),
        (Segmentation, "class_weights", (1, -1, 1), "a tuple in which each element is a number of at least 0, or None"),
        *((Segmentation, "channels", value, "an int of at least 1, or a tuple") for value in (0, "T1", ())),
        (ResNetBackbone, "strided_conv", "5x5", "one of '3x3', '1x1'"),
        (ResNetBackbone, "stem", "3x3", "one of '7x7', 'v1-beta'"),
        *((ResNetBackbone, name, "valid", "one of 'fixed', 'same'") for name in ("padding", "pool_padding")),
        *((Xception, "output_stride", value, "one of None, 8, 16, 32") for value in (4, True)),
        (Xception, "norm_momentum", 1, FRACTION),
        *(
            (ResNet, "blocks", value, "a tuple in which each element is an int of at least 1")
            for value in ((), (2, 0), 3)
        ),
        (ResNet, "padding", "valid", "one of 'fixed', 'same'"),
        (ResNet, "gather_below", -1, "an int of at least 0"),
        (R2Plus1D, "norm_momentum", 1, FRACTION),
        (R2Plus1D, "gather_below", -1, "an int of at least 0"),
        (GeneratedClips, "frames", 1, "an int of at least 2"),
        *((GeneratedClips, name, 15, "an int of at least 16") for name in ("height", "width")),
        *((GeneratedImages, name, 7, "an int of at least 8") for name in ("height", "width")),
        *((owner, "noise", -1, "a number of at least 0") for owner in (GeneratedClips, GeneratedImages)),
        *((DeepLab, name, 1, FRACTION) for name in ("dropout_rate", "norm_momentum")),
        (DeepLab, "rates", (6, 0), "a tuple in which each element is an int of at least 1, or None"),
        (DeepLab, "gather_below", -1, "an int of at least 0, or None"),
        (DeepLab, "backbone", 3, "an object such as resnet.ResNetBackbone with features and output_stride"),
        (SemanticSegmentation, "network", None, "an object such as deeplab.DeepLab"),
        (SemanticSegmentation, "classes", 1, "an int of at least 2"),
        *((owner, "norm_momentum", 1, FRACTION) for owner in (RetinaNet, MaskRCNN)),
        *((owner, "gather_below", -1, "an int of at least 0") for owner in (RetinaNet, MaskRCNN)),
        (MaskRCNN, "box_convs", -1, "an int of at least 0"),
        (RetinaNet, "anchors", 9, "of class Anchors, or None"),
        (Anchors, "ratios", (1, 0), "a tuple in which each element is a number above 0"),
        (ObjectDetection, "match_threshold", 0, "a number above 0 and at most 1"),
        *((ObjectDetection, name, -1, "a number of at least 0") for name in ("focal_gamma", "box_loss_weight")),
        *(
            (owner, name, value, UNIT)
            for owner in (ObjectDetection, InstanceSegmentation)
            for name in ("score_threshold", "nms_threshold")
            for value in (-1, 2)
        ),
        *((ObjectDetection, "focal_alpha", value, UNIT) for value in (-1, 2)),
        *(
            (InstanceSegmentation, name, 2, "a number above 0 and at most 1")
            for name in ("foreground", "foreground_threshold")
        ),
    ],
)
def test_bounds(owner, name, value, rule):
    with pytest.raises(mi.ConfigError, match=re.escape(f"{owner.__name__}.{name} = {value!r}: it must be {rule}")):
        make(owner, **{name: value})


def test_values_within_their_bounds_are_accepted():
    network = UNet3D(depth=np.int64(2), dropout_rate=0, kernel_sizes=[[3, 3, 1], [3, 3, 3]], pool_sizes=[[2, 2, 1]])
    assert network.kernel_sizes == ((3, 3, 1), (3, 3, 3))  # gin files may contain lists
    assert hash(network) == hash(dataclasses.replace(network))
    assert UNet3D(depth=1, pool_sizes=()).level_strides == ((1, 1, 1),)
    assert DeepLab(TinyBackbone(), rates=(), class_biases=(-1.0, 0)).atrous_rates == ()
