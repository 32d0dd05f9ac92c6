"""Models in the formats ONNX and TFLite, in their own runtimes, give the results of the SavedModel."""

import json

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.export.converting import convert_signatures
from mtf_imaging.evaluation.export.formats import FORMATS
from mtf_imaging.evaluation.export.signature import DEFAULT, Field, Signature
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.detection import Anchors, InstanceSegmentation, MaskRCNN, ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import Classification, GeneratedImages, ResNet, ResNetBackbone
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.models.video import GeneratedClips, R2Plus1D
from mtf_imaging.training.optimizers import Adam
from tests.jobs.object_network import write_objects_folder
from tests.jobs.photo_network import write_photos

BACKBONE = ResNetBackbone(blocks=(1, 1, 1), base_filters=4, bottleneck=False)
DEEPLAB = {"filters": 4, "rates": (1, 2), "low_level_filters": 3, "decoder_filters": 4, "decoder_convs": 1}
MASK_RCNN = {
    "filters": 4,
    "max_level": 4,
    "rpn_filters": 3,
    "roi_max_level": 3,
    "canonical_size": 24.0,
    "box_size": 3,
    "box_units": 5,
    "mask_size": 3,
    "mask_filters": 3,
    "mask_convs": 1,
}
DETECTIONS = {"classes": 2, "max_boxes": 3, "score_threshold": 0.005, "max_detections": 6}
ANCHORS = Anchors((1.0,), (0.5, 1.0), size=2.0)
TASKS = {
    "volumes": LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, norm="group", norm_groups=1)),
    "photos": SemanticSegmentation(
        DeepLab(ResNetBackbone(blocks=(1, 1, 1), base_filters=4, output_stride=8), **DEEPLAB)
    ),
    "retinanet": ObjectDetection(
        RetinaNet(BACKBONE, filters=4, head_convs=1, min_level=2, max_level=4, anchors=ANCHORS),
        candidates=20,
        **DETECTIONS,
    ),
    "mask_rcnn": InstanceSegmentation(
        MaskRCNN(BACKBONE, anchors=ANCHORS, **MASK_RCNN),
        mask_size=6,
        anchor_samples=24,
        rois=12,
        foreground=0.5,
        train_per_level=30,
        predict_per_level=20,
        proposals=16,
        **DETECTIONS,
    ),
    "classification": Classification(ResNet(classes=4, blocks=(1, 1), base_filters=4)),
    "video": Classification(
        R2Plus1D(classes=6, blocks=(1, 1), base_filters=2, stem_kernel=3, causal=True),
        dims=("time", "height", "width"),
    ),
}


def training_data(kind, folder):
    """Returns the data for a task, which it writes to a folder."""
    if kind == "volumes":
        write_phantom(folder / "cases", 2, seed=1)
        convert = {"input_dir": folder / "cases", "workers": 1, "progress": False}
        mi.jobs.convert(**convert, output_dir=folder / "records", resolution="x:12,y:10,z:9", spacing=(40, 44, 50))
        return folder / "records"
    if kind == "photos":
        write_photos(folder / "photos")
        return mi.jobs.TrainingData(folder / "photos", Photos(size=(16, 24)))
    if kind in ("retinanet", "mask_rcnn"):
        write_objects_folder(folder / "objects")
        masks = {"masks": True, "mask_size": 6} if kind == "mask_rcnn" else {}
        return mi.jobs.TrainingData(folder / "objects", Objects(size=(16, 24), max_boxes=3, **masks))
    clips = {"classification": GeneratedImages(height=16, width=16), "video": GeneratedClips(4, 16, 16)}
    return mi.jobs.TrainingData("none", clips[kind])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns a function that trains one task, once, and returns the folder of its run."""
    folder, trained = tmp_path_factory.mktemp("formats"), {}

    def run(kind):
        if kind not in trained:
            data = training_data(kind, folder)
            trained[kind] = folder / f"run_{kind}"
            settings = {"optimizer": Adam(0.01), "batch_size": 2, "num_steps": 2, "progress": False}
            mi.jobs.train(task=TASKS[kind], data=data, model_dir=trained[kind], class_frequencies=None, **settings)
        return trained[kind]

    return run


def export(kind, model_dir, output, **options):
    return mi.jobs.export(task=TASKS[kind], model_dir=model_dir, output=output, progress=False, **options)


def example_inputs(signature):
    """Returns random inputs of a signature, of other sizes than those of the network if they are free."""
    rng, free = np.random.default_rng(0), {"x": 14, "y": 11, "z": 8, "height": 13, "width": 20}
    inputs = {}
    for field in signature.inputs:
        shape = [free[dim] if size is None else size for dim, size in zip(field.dims, field.shape, strict=True)]
        if field.name == "spacing":
            inputs[field.name] = np.array([35.0, 40.0, 52.0])
        elif field.dtype == tf.uint8:
            inputs[field.name] = rng.integers(0, 256, shape).astype(np.uint8)
        else:
            inputs[field.name] = rng.normal(0, 200, shape).astype(field.dtype.name)
    return inputs


def call(folder, model_format, signature, inputs):
    """Runs a signature of a model in the runtime of its format."""
    if model_format == "saved_model":
        function = tf.saved_model.load(str(folder)).signatures[signature.name]
        results = function(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in results.items()}
    path = str(folder / f"{signature.name}.{model_format}")
    if model_format == "onnx":
        import onnxruntime

        names = [field.name for field in signature.outputs]
        session = onnxruntime.InferenceSession(path)
        assert {one.name for one in session.get_inputs()} == {*inputs}
        return dict(zip(names, session.run(names, inputs), strict=True))
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(path).get_signature_runner()(**inputs)


def in_order_of_boxes(detections):
    """Returns detections in an order that does not depend on their scores."""
    order = np.lexsort([detections["classes"], *detections["boxes"].round(2).T])
    return {name: value[order] for name, value in detections.items()}


def compare(found, expected):
    """Compares results up to the order of float32 operations."""
    assert {*found} == {*expected}
    if "boxes" in expected:  # rounding may exchange detections with almost equal scores
        assert (np.diff(found["scores"]) <= 0).all()
        found, expected = in_order_of_boxes(found), in_order_of_boxes(expected)
    for name, value in expected.items():
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype), name
        if value.dtype == np.float32:
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=2e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("model_format", ["onnx", "tflite"])
@pytest.mark.parametrize("kind", TASKS)
def test_results_equal_those_of_the_saved_model(runs, tmp_path, kind, model_format):
    for package in FORMATS[model_format].packages:
        pytest.importorskip(package)
    run = runs(kind)
    options = {"volumes": {"cleanup": "lits"}, "photos": {"flips": ("width",)}}.get(kind, {})
    expected_card = export(kind, run, tmp_path / "saved", **options)
    card = export(kind, run, tmp_path / "model", model_format=model_format, **options)
    names = [one.name for one in expected_card.signatures]
    refused = ["volume"] if (kind, model_format) == ("volumes", "tflite") else []
    assert [one.name for one in card.signatures] == [name for name in names if name not in refused]
    for one in card.signatures:
        inputs = example_inputs(one)
        expected = call(tmp_path / "saved", "saved_model", one, inputs)
        if kind in ("retinanet", "mask_rcnn"):
            assert len(expected["scores"]) > 2
        compare(call(tmp_path / "model", model_format, one, inputs), expected)
    stored = json.loads((tmp_path / "model/input.json").read_text())
    assert stored["format"] == model_format
    files = {one["file"] for one in stored["signatures"].values()}
    assert files | {"input.json", "README.md"} == {path.name for path in (tmp_path / "model").iterdir()}
    if kind == "volumes":
        assert [rule["rule"] for rule in stored["cleanup"]] == ["largest_liver", "lesions_in_liver"]
        (note,) = (note for note in stored["notes"] if "largest_liver, lesions_in_liver" in note)
        assert note.endswith("The signatures do not apply them; the entry 'cleanup' of input.json describes them.")
    if refused:
        assert "There is no signature 'volume': it does not compute in float64." in stored["notes"]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for model_format, names in (("onnx", "tf2onnx onnxruntime"), ("tflite", "ai-edge-litert")):
        expected = f"model_format = '{model_format}' needs .*, which is not installed. Fix: run pip install {names}$"
        with pytest.raises(ConfigError, match=expected):
            export("volumes", tmp_path / "none", tmp_path / "model", model_format=model_format)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_format": "onx"}, r"model_format = 'onx' is not known. Did you mean 'onnx'\? Fix: choose one of"),
        (
            {"model_format": "onnx", "dtype": "bfloat16"},
            "dtype = 'bfloat16': ONNX networks compute in float32 or float64. Fix: use dtype = 'float32', which reads",
        ),
        (
            {"model_format": "tflite", "dtype": "float64"},
            "dtype = 'float64': TFLite networks compute in float32. Fix: train with dtype = 'float32' or use",
        ),
    ],
)
def test_mistakes_are_reported(tmp_path, monkeypatch, options, message):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(ConfigError, match=message):
        export("volumes", tmp_path / "none", tmp_path / "model", **options)
    assert not any(tmp_path.iterdir())


def signature(name, compute, dtype=tf.float32):
    field = Field("x", dtype, (3,), ("values",), "Numbers.")
    return Signature(name, "Computes.", (field,), (field._replace(name="y"),), compute)


# An operation that the converter of each format does not know, and the one that the message names.
UNKNOWN = {"onnx": (lambda x: tf.math.igamma(x, x), "Igamma"), "tflite": (lambda x: tf.math.igamma(x, x), "Igamma")}


@pytest.mark.parametrize("model_format", UNKNOWN)
def test_refused_graphs_are_named(caplog, model_format):
    for package in FORMATS[model_format].packages:
        pytest.importorskip(package)
    compute, name = UNKNOWN[model_format]
    known = signature(DEFAULT, lambda x: {"y": 2 * x})
    refused = signature("other", lambda x: {"y": compute(x)})
    converted = convert_signatures([known, refused], FORMATS[model_format])
    assert converted.signatures == (known,)
    assert [*converted.files] == [f"{DEFAULT}.{model_format}"]
    assert converted.refused == {"other": f"it has no equivalent of {name}"}
    assert f"does not accept the signature 'other' (it has no equivalent of {name})" in caplog.text
    with pytest.raises(ConfigError, match=f"does not accept this network: it has no equivalent of {name}. Fix: use"):
        convert_signatures([refused._replace(name=DEFAULT)], FORMATS[model_format])
