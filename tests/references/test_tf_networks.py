"""Whole networks of TensorFlow's model garden with random weights compute the same here.

Their configurations are the published ones, with 5 classes and with images of 128 x 192 pixels.
"""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.vision.configs import maskrcnn, retinanet, semantic_segmentation
from official.vision.modeling import factory

import mtf_imaging as mi
from mtf_imaging.models.deeplab import DeepLab
from mtf_imaging.models.detection import MaskRCNN, RetinaNet
from mtf_imaging.models.detection.head_layers import HeadLayers
from mtf_imaging.models.detection.roi_heads import BoxHead, MaskHead
from mtf_imaging.models.detection.weights import WEIGHT_FORMATS as DETECTORS
from mtf_imaging.models.resnet import WEIGHT_FORMATS, ResNetBackbone
from mtf_imaging.training.checkpoints.weights_folder import Weights, find_weights, write_weights
from tests.references.transplants import LAYOUTS, assert_equal, compute_imported, image_spec, randomize_variables

SIZE, CLASSES = (128, 192), 5
FORMATS = (*DETECTORS, *WEIGHT_FORMATS)
SPEC = tf_keras.layers.InputSpec(shape=[None, *SIZE, 3])
ROIS = 6
FOLDED = 1e-7  # the difference of a mean and a bias is rounded to float32


@pytest.fixture
def image():
    return np.random.default_rng(1).standard_normal((1, *SIZE, 3))


@pytest.fixture(scope="module", autouse=True)
def float64():
    """Keras networks of float64, whose results do not depend on the order of additions within the tolerance."""
    tf_keras.backend.set_floatx("float64")
    yield
    tf_keras.backend.set_floatx("float32")


def own_settings(imported, network):
    """Returns the settings of a detector that an import reports."""
    assert all(name.startswith(f"detection.{network.__name__}.") for name in imported.network_settings)
    return {name.rpartition(".")[2]: value for name, value in imported.network_settings.items()}


@pytest.fixture(scope="module")
def retina(tmp_path_factory):
    """A RetinaNet and its checkpoint."""
    config = retinanet.retinanet_resnetfpn_coco().task.model
    config.num_classes = CLASSES
    network = factory.build_retinanet(SPEC, config)
    network(tf.zeros([1, *SIZE, 3], tf.float64), tf.constant([SIZE]), training=False)
    randomize_variables(network)
    return network, tf.train.Checkpoint(**network.checkpoint_items).save(str(tmp_path_factory.mktemp("r") / "ckpt"))


@pytest.mark.parametrize(("mesh_shape", "layout"), LAYOUTS)
def test_retinanet(retina, image, tmp_path, mesh_shape, layout):
    network, path = retina
    features = network.decoder(network.backbone(image, training=False), training=False)
    logits, deltas, _ = network.head(features, training=False)
    imported = mi.jobs.import_weights(checkpoint=path, output_dir=tmp_path / "weights", formats=FORMATS)
    assert (imported.file_format, imported.title) == ("tf_vision_retinanet", "RetinaNet with ResNet-50")
    assert {name.partition("/")[0] for name in imported.others} == {"_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter"}
    ours = RetinaNet(backbone=ResNetBackbone(**imported.settings), **own_settings(imported, RetinaNet))
    assert ours.classes == CLASSES - 1

    def fn(image):
        return [list(level) for level in ours(image, is_training=False)]

    found = compute_imported(tmp_path / "weights", fn, {"image": image_spec(image)}, mesh_shape, layout)
    assert len(found) == 5
    for level, (classes, boxes) in enumerate(found, 3):
        shape = (*boxes.shape[:4], CLASSES)
        assert_equal(classes, tf.reshape(logits[str(level)], shape)[..., 1:])
        assert_equal(boxes, tf.reshape(deltas[str(level)], boxes.shape))


@pytest.fixture(scope="module")
def mask(tmp_path_factory):
    """A Mask R-CNN and its checkpoint."""
    config = maskrcnn.maskrcnn_resnetfpn_coco().task.model
    config.num_classes = CLASSES
    network = factory.build_maskrcnn(SPEC, config)
    crops = {size: tf.zeros([1, ROIS, size, size, 256], tf.float64) for size in (7, 14)}
    features = network.decoder(network.backbone(tf.zeros([1, *SIZE, 3], tf.float64)))
    network.rpn_head(features)
    network.detection_head[0](crops[7])
    network.mask_head([crops[14], tf.ones([1, ROIS], tf.int32)])
    parts = {name: part for name, part in network.checkpoint_items.items() if part is not None}
    for number, part in enumerate([network.backbone, network.decoder, network.rpn_head, *network.detection_head]):
        randomize_variables(part, number)
    randomize_variables(network.mask_head, 9)
    return network, tf.train.Checkpoint(**parts).save(str(tmp_path_factory.mktemp("m") / "ckpt"))


@pytest.mark.parametrize(("mesh_shape", "layout"), [LAYOUTS[0], ("rows:2,cols:2", "height:rows,width:cols,rois:rows")])
def test_mask_rcnn(mask, image, tmp_path, mesh_shape, layout):
    """The heads of RoIs read given features, because the positions of samples are compared elsewhere."""
    network, path = mask
    rng = np.random.default_rng(2)
    crops = {size: rng.standard_normal((1, ROIS, size, size, 256)) for size in (7, 14)}
    classes = rng.integers(0, CLASSES, (1, ROIS)).astype(np.int32)
    features = network.decoder(network.backbone(image, training=False), training=False)
    expected = network.rpn_head(features, training=False)
    expected_classes, expected_boxes = network.detection_head[0](crops[7], training=False)
    expected_masks = network.mask_head([crops[14], classes], training=False)
    imported = mi.jobs.import_weights(checkpoint=path, output_dir=tmp_path / "weights", formats=FORMATS)
    assert (imported.file_format, imported.title) == ("tf_vision_mask_rcnn", "Mask R-CNN with ResNet-50")
    settings = own_settings(imported, MaskRCNN)
    ours = MaskRCNN(backbone=ResNetBackbone(**imported.settings), **settings)
    layers = HeadLayers(ours.norm, False, ours.norm_momentum, ours.norm_epsilon)
    box = BoxHead(layers, ours.box_units, ours.classes, ours.box_convs, ours.box_filters, ours.box_dense)

    def fn(image, box_crops, mask_crops, classes):
        levels = ours.features(image, is_training=False)
        scores, deltas = ours.region_scores(levels, is_training=False)
        masks = MaskHead(layers, ours.mask_filters, ours.mask_convs, ours.classes)(mask_crops, classes)
        return {"levels": levels, "scores": scores, "deltas": deltas, "heads": [*box(box_crops), masks]}

    names = ("batch", "rois", "crop_height", "crop_width", "channels")
    inputs = {"image": image_spec(image), "classes": (f"batch:1,rois:{ROIS}", classes)}
    inputs |= {"box_crops": image_spec(crops[7], names), "mask_crops": image_spec(crops[14], names)}
    found = compute_imported(tmp_path / "weights", fn, inputs, mesh_shape, layout)
    for number, level in enumerate(range(2, 7)):
        assert_equal(found["levels"][number], features[str(level)])
        assert_equal(found["scores"][number], expected[0][str(level)])
        deltas = found["deltas"][number]
        assert_equal(deltas, tf.reshape(expected[1][str(level)], deltas.shape))
    classes, boxes, masks = found["heads"]
    for own, other in ((classes, expected_classes), (boxes, expected_boxes), (masks, expected_masks)):
        assert_equal(own, tf.reshape(other, own.shape), FOLDED)


@pytest.mark.parametrize("prefix", ["", "model/"])
def test_checkpoints_of_models_have_the_same_weights(retina, tmp_path, prefix):
    """A checkpoint of a model as one object has other names than one of its parts."""
    network, path = retina
    items = {"model": network} if prefix else network.checkpoint_items
    other = tf.train.Checkpoint(**items).save(str(tmp_path / "model"))
    values = []
    for number, checkpoint in enumerate((path, other)):
        folder = tmp_path / f"weights{number}"
        mi.jobs.import_weights(checkpoint=checkpoint, output_dir=folder, formats=FORMATS)
        weights = Weights(find_weights(folder))
        values.append(dict(weights.read(list(weights.shapes))))
    assert values[0].keys() == values[1].keys()
    assert all(np.array_equal(values[0][name], values[1][name]) for name in values[0])


@pytest.fixture(scope="module")
def deeplab(tmp_path_factory):
    """The network of seg_deeplabv3plus_pascal with ReLU instead of swish, and its checkpoint."""
    config = semantic_segmentation.seg_deeplabv3plus_pascal().task.model
    config.norm_activation.activation = "relu"
    config.norm_activation.use_sync_bn = False
    config.num_classes = CLASSES
    network = factory.build_segmentation_model(SPEC, config)
    network(tf.zeros([1, *SIZE, 3], tf.float64))
    randomize_variables(network)
    return network, tf.train.Checkpoint(**network.checkpoint_items).save(str(tmp_path_factory.mktemp("d") / "ckpt"))


def decoder_values(network):
    """Returns the weights of ASPP and of the head by their names in `DeepLab`."""
    values = {}

    def add(name, conv, norm):
        values[f"deeplab/{name}/filter"] = conv.kernel.numpy()
        for own, other in (("scale", norm.gamma), ("offset", norm.beta)):
            values[f"deeplab/{name}_norm/{own}"] = other.numpy()
        values[f"deeplab/{name}_norm/moving_mean"] = norm.moving_mean.numpy()
        values[f"deeplab/{name}_norm/moving_variance"] = norm.moving_variance.numpy()

    aspp = network.decoder.aspp
    *branches, pooling = aspp.aspp_layers
    for number, branch in enumerate(branches):
        add(f"aspp/aspp{number}", *branch.layers[:2])
    add("aspp/aspp_mean", *pooling.layers[-1].layers[:2])
    add("aspp/aspp_join", *aspp.projection.layers[:2])
    # The mean is the last of the concatenated maps there, and the first here.
    join = values["deeplab/aspp/aspp_join/filter"]
    values["deeplab/aspp/aspp_join/filter"] = np.roll(join, join.shape[2] // 5, axis=2)
    head = network.head
    add("decoder/low_level", head._dlv3p_conv, head._dlv3p_norm)
    for number, (conv, norm) in enumerate(zip(head._convs, head._norms, strict=True)):
        add(f"decoder/decoder{number}", conv, norm)
    values["deeplab/classes/filter"] = head._classifier.kernel.numpy()
    values["deeplab/classes/bias"] = head._classifier.bias.numpy()
    return values


@pytest.mark.parametrize(("mesh_shape", "layout"), LAYOUTS)
def test_deeplab(deeplab, image, tmp_path, mesh_shape, layout):
    """Logits agree to float32, in which the reference resizes. It leaves the resize to the image to the loss."""
    network, path = deeplab
    logits = tf.image.resize(network(image, training=False)["logits"], SIZE)
    imported = mi.jobs.import_weights(checkpoint=path, output_dir=tmp_path / "backbone", formats=WEIGHT_FORMATS)
    assert imported.title == "ResNet-101 with the stem v1-beta"
    weights = Weights(find_weights(tmp_path / "backbone"))
    values = dict(weights.read(list(weights.shapes))) | decoder_values(network)
    write_weights(tmp_path / "weights", values, {"title": "DeepLab v3+"})
    norm = {"norm_epsilon": 1e-3, "norm_momentum": 0.9997}
    backbone = ResNetBackbone(**{**imported.settings, **norm, "output_stride": 16})
    ours = DeepLab(backbone=backbone, classes=CLASSES, align_corners=False, **norm)

    def fn(image):
        return ours(image, is_training=False)

    found = compute_imported(tmp_path / "weights", fn, {"image": image_spec(image)}, mesh_shape, layout)
    assert_equal(found, logits, tolerance=1e-5)
