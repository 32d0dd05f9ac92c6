"""Exported models, in a process without this package, give the results of `predict`."""

import dataclasses
import json
import re
import shutil

import nibabel
import numpy as np
import pytest
from PIL import Image
from tensorflow.core.protobuf import saved_model_pb2

import mtf_imaging as mi
from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.intensities.statistics import channel_statistics
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.cleanup.cleanup import Cleanup
from mtf_imaging.evaluation.cleanup.rule_text import parse_rules
from mtf_imaging.evaluation.cleanup.stored_choice import Choice, save_rules
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.kinds.networks import task_for, trained_network
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.objects.reading.masks import decode_mask
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.kinds.photos.reading.label_images import read_label_image
from mtf_imaging.kinds.volumes.trained import description_of_run
from mtf_imaging.models.deeplab import SemanticSegmentation
from mtf_imaging.models.resnet import Classification, GeneratedImages, ResNet
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, UNet3D
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns, predictor
from tests import tiny_runs
from tests.data.resampling import resample_linear
from tests.data.test_nonzero import AROUND, whole_and_cropped
from tests.evaluation.descriptions import REGIONS
from tests.jobs.isolated import Isolated
from tests.jobs.object_network import CATEGORIES, TinyDetection, write_objects_folder
from tests.jobs.photo_network import CLASSES, TwoConvs, write_photos
from tests.jobs.test_described import write_cases
from tests.kinds.loops import detect_one
from tests.kinds.volumes import network_input, read_case, segment_volume
from tests.tiny_runs import VOLUMES

WINDOW = (-160.0, 240.0)  # a division by 400, which is not exact
NETWORK = UNet3D(base_filters=2, depth=2, convs=1, norm="group", norm_groups=1)
LIVER = LiverTumorSegmentation(NETWORK)
ONE = {"layout": mi.Layout(), "mesh_impl": "stacked", "progress": False}


@pytest.fixture(scope="module")
def isolated(tmp_path_factory):
    process = Isolated(tmp_path_factory.mktemp("isolated"))
    yield process
    process.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Cases of LiTS in several orientations, records of one grid and of two grids, and runs on both."""
    folder = tmp_path_factory.mktemp("exported")
    write_phantom(folder / "cases", 3, seed=1)
    path = folder / "cases/volume-1.nii.gz"
    image = nibabel.load(path)
    nibabel.save(nibabel.Nifti1Image(np.asarray(image.dataobj), image.affine @ np.diag([1.6, 1.6, 1.3, 1])), path)
    convert = {"input_dir": folder / "cases", "workers": 1, "progress": False}
    mi.jobs.convert(**convert, output_dir=folder / "records", resolution="x:12,y:10,z:9")
    options = {"spacing": (40.0, 44.0, 50.0), "grids": 2, "multiple": 4}
    path = folder / "cases/segmentation-1.nii.gz"
    labels = nibabel.load(path)
    nibabel.save(
        nibabel.Nifti1Image(np.asarray(labels.dataobj), nibabel.load(folder / "cases/volume-1.nii.gz").affine), path
    )
    mi.jobs.convert(**convert, output_dir=folder / "buckets", **options)
    train(LIVER, folder / "records", folder / "run")
    return folder


def train(task, data, model_dir, num_steps=2, **options):
    settings = {"optimizer": Adam(0.05), "batch_size": 2, "num_steps": num_steps, "progress": False, **options}
    # Without first biases, the networks of a few steps predict other labels than the background.
    mi.jobs.train(task=task, data=data, model_dir=model_dir, class_frequencies=None, **settings)


def export(task, model_dir, output, **options):
    return mi.jobs.export(task=task, model_dir=model_dir, output=output, progress=False, **options)


def check_graph(model):
    """Checks that a model has neither devices nor operations that need this package or other processes."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((model / "saved_model.pb").read_bytes())
    (graph,) = (meta.graph_def for meta in saved.meta_graphs)
    functions = [one for one in graph.library.function if not re.search("traced_(save|restore)", one.signature.name)]
    nodes = [node for function in functions for node in function.node_def]
    assert len(nodes) > 20
    assert {node.device for node in nodes} == {""}
    assert not [node.op for node in nodes if re.search("Collective|PyFunc|Nccl|Assign|Random", node.op)]
    assert not [node.name for node in nodes if "_class" in node.attr]


def cases(folder):
    return [read_case(case) for case in find_cases(folder / "cases")]


@pytest.mark.slow
def test_a_grid_and_a_whole_volume_of_lits(folder, isolated, tmp_path):
    card = export(LIVER, folder / "run", tmp_path / "model", window=WINDOW)
    sampling = Sampling((12, 10, 9))
    network = predictor(task=LIVER, sizes=sampling.grid, model_dir=folder / "run")
    for volume in cases(folder):
        hu = resample_linear(volume.hu, sampling.spans(volume.geometry.shape, volume.geometry.spacing), -1024)
        found = isolated.call(tmp_path / "model", "serving_default", image=hu)
        expected = network(network_input(volume, sampling, window=WINDOW))
        np.testing.assert_array_equal(found["probabilities"], expected)
        np.testing.assert_array_equal(found["labels"], expected.argmax(-1))
        assert found["labels"].dtype == np.uint8
        found = isolated.call(tmp_path / "model", "volume", image=volume.hu.astype(np.float32))
        expected = segment_volume(volume, sampling, network, window=WINDOW)
        np.testing.assert_array_equal(found["labels"], expected)
        assert len(np.unique(expected)) > 1
    check_graph(tmp_path / "model")
    assert [one.name for one in card.signatures] == ["serving_default", "volume"]
    stored = json.loads((tmp_path / "model/input.json").read_text())
    assert stored == json.loads(card.as_json())
    assert (stored["kind"], stored["orientation"], stored["spacing"]) == ("volumes", "RAS+", None)
    assert (stored["intensities"], stored["labels"]) == (["window -160 240"], dict(LITS.labels))
    assert stored["runs"] == [{"name": "run", "step": 2}]
    image = stored["signatures"]["serving_default"]["inputs"]["image"]
    assert (image["dtype"], image["dims"], image["shape"]) == ("float32", ["x", "y", "z"], [12, 10, 9])
    assert "RAS+ orientation" in image["meaning"]
    assert "| input | `image` | float32 | x: 12, y: 10, z: 9 |" in (tmp_path / "model/README.md").read_text()


@pytest.mark.slow
def test_a_network_that_fits_long_voxels(folder, isolated, tmp_path):
    """The levels have uneven sizes of 12 x 10 x 9, 6 x 5 x 9 and 3 x 5 x 5 voxels."""
    levels = {"kernel_sizes": ((3, 3, 1), (3, 3, 3), (1, 3, 3)), "pool_sizes": ((2, 2, 1), (2, 1, 2))}
    task = LiverTumorSegmentation(dataclasses.replace(NETWORK, depth=3, residual=True, max_filters=4, **levels))
    split = {"layout": mi.Layout.parse("rows:5,cols:2", "x:rows,z:cols"), "mesh_impl": "stacked"}
    layout = {"layout": split["layout"], "devices": mi.jobs.Devices(mesh_impl="stacked")}
    train(task, folder / "records", tmp_path / "run", dtype="float64", **layout)
    export(task, tmp_path / "run", tmp_path / "model", dtype="float64")
    options = {"task": task, "sizes": (12, 10, 9), "model_dir": tmp_path / "run", "dtype": "float64"}
    image = np.random.default_rng(0).integers(-900, 900, (12, 10, 9)).astype(np.float32)
    found = isolated.call(tmp_path / "model", "serving_default", image=image)["probabilities"]
    inputs = np.clip(image[..., None] / 1024 + 0.5, 0, 1).astype(np.float32)
    np.testing.assert_array_equal(found, predictor(**options)(inputs).astype(np.float32))
    np.testing.assert_allclose(predictor(**options, **split)(inputs), predictor(**options)(inputs), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes(folder, isolated, tmp_path, dtype):
    train(LIVER, folder / "records", tmp_path / "run", num_steps=1, dtype=dtype)
    export(LIVER, tmp_path / "run", tmp_path / "model", dtype=dtype)
    network = predictor(task=LIVER, sizes=(12, 10, 9), model_dir=tmp_path / "run", dtype=dtype)
    image = np.random.default_rng(0).integers(-900, 900, (12, 10, 9)).astype(np.float32)
    found = isolated.call(tmp_path / "model", "serving_default", image=image)["probabilities"]
    expected = network(np.clip(image[..., None] / 1024 + 0.5, 0, 1).astype(np.float32))
    assert expected.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.slow
def test_each_volume_gets_its_grid(folder, isolated, tmp_path):
    """Two grids of one voxel size; the box of the grid crops or surrounds the volumes."""
    train(LIVER, folder / "buckets", tmp_path / "run", batch_size=1)
    card = export(LIVER, tmp_path / "run", tmp_path / "model")
    sampling = open_records(folder / "buckets").sampling
    assert len(sampling.grids) == 2
    names = [f"grid_{'x'.join(map(str, grid))}" for grid in sampling.grids]
    assert [one.name for one in card.signatures] == ["serving_default", *names, "volume"]
    network = trained_network(NetworkBuilder(task=LIVER), TrainedRuns([tmp_path / "run"]), sampling.grids)
    used = set()
    for volume in cases(folder):
        own = sampling.choose(volume.geometry.shape, volume.geometry.spacing)
        used.add(own.grid)
        hu = resample_linear(volume.hu, own.spans(volume.geometry.shape, volume.geometry.spacing), -1024)
        found = isolated.call(tmp_path / "model", names[sampling.grids.index(own.grid)], image=hu)
        np.testing.assert_array_equal(found["probabilities"], network(network_input(volume, sampling)))
        inputs = {"image": volume.hu.astype(np.float32), "spacing": np.array(volume.geometry.spacing, np.float64)}
        found = isolated.call(tmp_path / "model", "volume", **inputs)
        np.testing.assert_array_equal(found["labels"], segment_volume(volume, sampling, network))
    assert used == {*sampling.grids}
    check_graph(tmp_path / "model")
    with pytest.raises(RuntimeError, match=r"InvalidArgument|TypeError|ValueError"):
        isolated.call(tmp_path / "model", names[0], image=np.zeros((5, 5, 5), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sliding_window(folder, isolated, tmp_path, dtype):
    """Two runs on two grids, whose one window slides over both, also over flipped images."""
    for seed in range(2):
        options = {"batch_size": 1, "seed": seed, "dtype": dtype}
        train(LIVER, folder / "buckets", tmp_path / f"cv/fold_{seed}", **options)
    window = {"sliding_window": "x:8,y:4,z:4", "window_step": 0.75}
    options = {"ensemble": True, "flips": ("y",), "dtype": dtype}
    card = export(LIVER, tmp_path / "cv", tmp_path / "model", **window, **options)
    assert json.loads(card.as_json())["sliding_window"] == {"size": [8, 4, 4], "step": 0.75}
    assert "The network computes windows of 8 x 4 x 4 voxels" in (tmp_path / "model/README.md").read_text()
    sampling = open_records(folder / "buckets").sampling
    runs = [tmp_path / f"cv/fold_{seed}" for seed in range(2)]
    sliding = NetworkBuilder(task=LIVER, window=SlidingWindow((8, 4, 4), 0.75), dtype=dtype)
    network = trained_network(sliding, TrainedRuns(runs), sampling.grids, (1,))
    for volume in cases(folder):
        own = sampling.choose(volume.geometry.shape, volume.geometry.spacing)
        hu = resample_linear(volume.hu, own.spans(volume.geometry.shape, volume.geometry.spacing), -1024)
        name = f"grid_{'x'.join(map(str, own.grid))}"
        found = isolated.call(tmp_path / "model", name, image=hu)
        expected = network(network_input(volume, sampling)).astype(np.float32)
        np.testing.assert_array_equal(found["probabilities"], expected)
        inputs = {"image": volume.hu.astype(np.float32), "spacing": np.array(volume.geometry.spacing, np.float64)}
        found = isolated.call(tmp_path / "model", "volume", **inputs)
        np.testing.assert_array_equal(found["labels"], segment_volume(volume, sampling, network))
    check_graph(tmp_path / "model")
    with pytest.raises(ConfigError, match="window of 99 x 99 x 99 voxels does not fit into the grid of"):
        export(LIVER, tmp_path / "cv", tmp_path / "other", sliding_window=99, **options)
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_box_that_crops_volumes(folder, isolated, tmp_path):
    """Voxels outside of the box are background."""
    options = {"resolution": "x:8,y:12,z:8", "spacing": (40.0, 50.0, 36.0)}
    export(LIVER, folder / "run", tmp_path / "model", **options)
    sampling = Sampling((8, 12, 8), options["spacing"])
    network = predictor(task=LIVER, sizes=sampling.grid, model_dir=folder / "run")
    for volume in cases(folder):
        inputs = {"image": volume.hu.astype(np.float32), "spacing": np.array(volume.geometry.spacing, np.float64)}
        found = isolated.call(tmp_path / "model", "volume", **inputs)
        np.testing.assert_array_equal(found["labels"], segment_volume(volume, sampling, network))
    for wrong in (0, -3, np.nan):
        with pytest.raises(RuntimeError, match=r"the spacing needs positive sizes in mm, but is\] \[3 .* 5\]"):
            isolated.call(tmp_path / "model", "volume", **inputs | {"spacing": np.array([3.0, wrong, 5.0])})


@pytest.mark.slow
def test_an_ensemble_with_flips(folder, isolated, tmp_path):
    for fold in range(3):
        train(LIVER, folder / "records", tmp_path / f"cv/fold_{fold}", num_steps=1, seed=fold)
    flips = ("x", "z")
    card = export(LIVER, tmp_path / "cv", tmp_path / "model", ensemble=True, flips=flips)
    assert card.runs == (("fold_0", 1), ("fold_1", 1), ("fold_2", 1))
    runs = [tmp_path / f"cv/fold_{fold}" for fold in range(3)]
    network = trained_network(NetworkBuilder(task=LIVER), TrainedRuns(runs), [(12, 10, 9)], (0, 2))
    image = np.random.default_rng(0).integers(-900, 900, (12, 10, 9)).astype(np.float32)
    found = isolated.call(tmp_path / "model", "serving_default", image=image)["probabilities"]
    expected = network(np.clip(image[..., None] / 1024 + 0.5, 0, 1).astype(np.float32))
    np.testing.assert_array_equal(found, expected)
    alone = trained_network(NetworkBuilder(task=LIVER), TrainedRuns(runs[:1]), [(12, 10, 9)], (0, 2))
    assert np.abs(alone(np.clip(image[..., None] / 1024 + 0.5, 0, 1).astype(np.float32)) - expected).max() > 1e-4
    check_graph(tmp_path / "model")


@pytest.fixture(scope="module")
def regions(tmp_path_factory):
    """A run on two MR channels with regions."""
    folder = tmp_path_factory.mktemp("regions")
    write_cases(folder / "raw", REGIONS)
    mi.jobs.convert(input_dir=folder / "raw", output_dir=folder / "records", resolution=6, workers=1, progress=False)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "schemes",
    [
        {},
        {"FLAIR": "percentiles", "T1w": "z-score of nonzero voxels"},
        {"FLAIR": "rescale_to_0_1", "T1w": "none"},
    ],
    ids=str,
)
def test_regions_and_schemes_that_depend_on_the_image(regions, isolated, tmp_path, schemes):
    task = Segmentation(NETWORK)
    data = mi.jobs.TrainingData(regions / "records", data_set=Records(intensities=schemes or None))
    train(task, data, tmp_path / "run", num_steps=1)
    export(task, tmp_path / "run", tmp_path / "model")
    description, sampling = description_of_run(tmp_path / "run"), Sampling((6, 6, 6))
    network = predictor(task=task_for(task, description), sizes=(6, 6, 6), model_dir=tmp_path / "run")
    for case in find_cases(regions / "raw"):
        image = read_case(case, description=description)
        spans = sampling.spans(image.geometry.shape, image.geometry.spacing)
        scalings = [
            intensity.scaling(channel_statistics(channel))
            for intensity, channel in zip(description.intensities, image.channels, strict=True)
        ]
        inputs = {
            "image": np.stack([resample_linear(values, spans) for values in image.channels], -1),
            "offset": np.array([scaling.offset for scaling in scalings], np.float32),
            "scale": np.array([scaling.scale for scaling in scalings], np.float32),
        }
        found = isolated.call(tmp_path / "model", "serving_default", **inputs)
        expected = network(network_input(image, sampling, description=description))
        np.testing.assert_array_equal(found["probabilities"], expected)
        np.testing.assert_array_equal(found["labels"], description.to_labels(expected))
        # The signature sums the statistics of the whole image in another order, in float64.
        whole = np.stack(image.channels, axis=-1).astype(np.float32)
        found = isolated.call(tmp_path / "model", "volume", image=whole)
        np.testing.assert_array_equal(
            found["labels"], segment_volume(image, sampling, network, description=description)
        )
    card = json.loads((tmp_path / "model/input.json").read_text())
    assert card["regions"] == {name: list(values) for name, values in REGIONS.masks.items()}
    assert card["intensities"] == [*map(str, description.intensities)]
    meaning = card["signatures"]["serving_default"]["inputs"]["offset"]["meaning"]
    assert meaning.startswith("For each channel, a number of the whole image before it was resampled. FLAIR: ")


@pytest.mark.slow
@pytest.mark.parametrize("size", [{"resolution": "x:6,y:6,z:8"}, {"spacing": "2,2,2.5", "grids": 2, "multiple": 4}])
def test_skull_stripped_images_are_cropped_as_in_prediction(isolated, tmp_path, size):
    whole_and_cropped(tmp_path)
    whole = tmp_path / "whole"
    options = {"workers": 1, "progress": False, "crop_to_nonzero": True}
    mi.jobs.convert(input_dir=whole, output_dir=tmp_path / "records", **size, **options)
    task = Segmentation(NETWORK)
    train(task, tmp_path / "records", tmp_path / "run")
    (case,) = find_cases(whole)
    image = read_case(case, description=description_of_run(tmp_path / "run"))
    shared = {"task": task, "model_dir": tmp_path / "run", "progress": False}
    (path,) = mi.jobs.predict(**shared, input=whole, output=tmp_path / "out")
    mi.jobs.evaluate(**shared, input_dir=whole, output_dir=tmp_path / "scores")
    written = nibabel.load(path)
    labels = np.asarray(written.dataobj)
    np.testing.assert_array_equal(labels, nibabel.load(tmp_path / "scores/predictions" / path.name).dataobj)
    np.testing.assert_array_equal(written.affine, nibabel.load(case.volume).affine)
    box = tuple(slice(before, n - after) for (before, after), n in zip(AROUND, labels.shape))
    assert np.count_nonzero(labels) == np.count_nonzero(labels[box]) > 0
    export(task, tmp_path / "run", tmp_path / "model")
    inputs = {"image": np.stack(image.channels, axis=-1).astype(np.float32)}
    if "spacing" in size:
        inputs["spacing"] = np.array(image.geometry.spacing)
    np.testing.assert_array_equal(isolated.call(tmp_path / "model", "volume", **inputs)["labels"], labels)
    assert "cropped to the box of the voxels that are not 0" in (tmp_path / "model/input.json").read_text()


@pytest.mark.slow
def test_photos(isolated, tmp_path):
    write_photos(tmp_path / "photos")
    task = SemanticSegmentation(TwoConvs())
    data = mi.jobs.TrainingData(tmp_path / "photos", Photos(size=(16, 24)))
    train(task, data, tmp_path / "run")
    sizes = "height:20,width:40|height:16,width:24"
    card = export(task, tmp_path / "run", tmp_path / "model", resolution=sizes, flips=("width",))
    assert [one.name for one in card.signatures] == ["serving_default", "grid_16x24", "grid_20x40"]
    shared = {"task": task, "model_dir": tmp_path / "run", "input": tmp_path / "photos", "progress": False}
    paths = mi.jobs.predict(**shared, output=tmp_path / "out", resolution="height:20,width:40", flips=("width",))
    assert len(paths) == 6
    for path in paths:
        with Image.open(tmp_path / "photos/images" / path.name) as opened:
            pixels = np.asarray(opened)
        found = isolated.call(tmp_path / "model", "serving_default", image=pixels)
        assert found["probabilities"].shape == (*pixels.shape[:2], 3)
        np.testing.assert_allclose(found["probabilities"].sum(-1), 1, rtol=1e-5)
        np.testing.assert_array_equal(found["labels"], read_label_image(path, CLASSES))
    check_graph(tmp_path / "model")
    with pytest.raises(RuntimeError, match="the photo is larger than 16 x 24 pixels; export the model with a larger"):
        isolated.call(tmp_path / "model", "grid_16x24", image=pixels)
    with pytest.raises(ConfigError, match=r"scales must be a tuple in which each element is 1, not \(0\.5, 1\.0\)"):
        export(task, tmp_path / "run", tmp_path / "other", scales=(0.5, 1.0))
    with pytest.raises(ConfigError, match=r"flips = \('x',\): not axes of the images"):
        export(task, tmp_path / "run", tmp_path / "other", flips=("x",))
    with pytest.raises(ConfigError, match=r"spacing = 2 has no effect on photos: it is a setting of volumes"):
        export(task, tmp_path / "run", tmp_path / "other", spacing=2)
    with pytest.raises(ConfigError, match=r"cleanup has no effect on photos: it is a setting of volumes"):
        export(task, tmp_path / "run", tmp_path / "other", cleanup="lits")
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_objects_with_masks(isolated, tmp_path):
    write_objects_folder(tmp_path / "objects")
    task = TinyDetection(masks=True)
    data = mi.jobs.TrainingData(tmp_path / "objects", Objects(size=(16, 24), max_boxes=3, masks=True))
    train(task, data, tmp_path / "run")
    export(task, tmp_path / "run", tmp_path / "model")
    network = predictor(task=task_for(task, CATEGORIES), sizes=(16, 24), model_dir=tmp_path / "run")
    rng, counts = np.random.default_rng(0), []
    for height, width in ((20, 30), (33, 20), (16, 24), (7, 100), (120, 90)):
        pixels = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
        expected = detect_one(pixels, network, CATEGORIES, (16, 24))
        found = isolated.call(tmp_path / "model", "serving_default", image=pixels)
        np.testing.assert_array_equal(found["boxes"], expected.boxes.astype(np.float32))
        np.testing.assert_array_equal(found["scores"], expected.scores.astype(np.float32))
        np.testing.assert_array_equal(found["classes"], expected.classes)
        np.testing.assert_array_equal(found["category_ids"], [CATEGORIES.ids[one] for one in expected.classes])
        for mask, encoded in zip(found["masks"], expected.masks, strict=True):
            np.testing.assert_array_equal(mask, decode_mask(encoded, height, width))
        counts.append(len(expected))
    assert sum(counts) > 5
    check_graph(tmp_path / "model")
    with pytest.raises(
        ConfigError, match=r"flips = \('width',\): an exported model does not merge detections of flips"
    ):
        export(task, tmp_path / "run", tmp_path / "other", flips=("width",))
    with pytest.raises(ConfigError, match="sliding_window = 8 has no effect on images with objects: it is a setting"):
        export(task, tmp_path / "run", tmp_path / "other", sliding_window=8)
    (tmp_path / "cv").mkdir()
    (tmp_path / "run").rename(tmp_path / "cv/fold_0")
    (tmp_path / "cv/fold_1").symlink_to(tmp_path / "cv/fold_0")
    with pytest.raises(
        ConfigError, match="ensemble = True has no effect on images with objects: it is a setting of volumes"
    ):
        export(task, tmp_path / "cv", tmp_path / "other", ensemble=True)


@pytest.mark.slow
def test_a_custom_data_set(isolated, tmp_path):
    """Without a description of the data, the model is the network alone."""
    task = Classification(ResNet(classes=4, blocks=(1, 1), base_filters=4))
    data = mi.jobs.TrainingData("none", GeneratedImages(height=16, width=16))
    train(task, data, tmp_path / "run")
    card = export(task, tmp_path / "run", tmp_path / "model")
    assert card.kind == "arrays"
    image = np.random.default_rng(0).normal(size=(16, 16, 3)).astype(np.float32)
    found = isolated.call(tmp_path / "model", "serving_default", image=image)
    network = predictor(task=task, sizes=(16, 16), model_dir=tmp_path / "run")
    np.testing.assert_array_equal(found["prediction"], network(image))
    assert "| input | `image` | float32 | height: 16, width: 16, channels: 3 |" in card.as_markdown()
    check_graph(tmp_path / "model")


def lose_header(image):
    """Returns an image without the codes of its affine, stored as a DICOM series is: the second axis points back."""
    turned = image.as_reoriented(nibabel.orientations.axcodes2ornt("LPS"))
    values = np.array(turned.dataobj)
    back = values[:, -values.shape[1] // 4 :]
    back[back > 0] = 900  # bone
    lost = nibabel.Nifti1Image(values, None)
    lost.header.set_zooms(turned.header.get_zooms())
    return lost


def wrap_hu(image):
    """Returns an image whose negative HU are unsigned numbers."""
    return nibabel.Nifti1Image(np.asarray(image.dataobj).astype(np.int16).view(np.uint16), image.affine)


def with_nan(image):
    values = image.get_fdata(dtype=np.float32)
    values[:3] = np.nan
    return nibabel.Nifti1Image(values, image.affine)


def constant(image):
    return nibabel.Nifti1Image(np.full(image.shape, 40, np.int16), image.affine)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, lose_header, wrap_hu, with_nan, constant])
def test_the_program_of_a_model(folder, isolated, tmp_path, fault):
    """It writes the file that predict writes, with and without a voxel size, also if predict repairs the input."""
    path = folder / "cases/volume-1.nii.gz"
    if fault:
        path = tmp_path / "volume-1.nii.gz"
        nibabel.save(fault(nibabel.load(folder / "cases/volume-1.nii.gz")), path)
    for name, options in {"plain": {}, "spacing": {"resolution": 8, "spacing": 60}}.items():
        export(LIVER, folder / "run", tmp_path / name, **options)
        isolated.run(tmp_path / name / "segment.py", path, tmp_path / f"{name}.nii.gz")
        shared = {"task": LIVER, "model_dir": folder / "run", "progress": False, **options}
        (written,) = mi.jobs.predict(**shared, input=path, output=tmp_path / f"{name}_expected.nii.gz")
        expected, found = nibabel.load(written), nibabel.load(tmp_path / f"{name}.nii.gz")
        np.testing.assert_array_equal(found.dataobj, expected.dataobj)
        np.testing.assert_allclose(found.affine, expected.affine, atol=1e-4)
        assert found.get_data_dtype() == expected.get_data_dtype()
        assert [int(found.header[code]) for code in ("sform_code", "qform_code")] == [
            int(expected.header[code]) for code in ("sform_code", "qform_code")
        ]


@pytest.mark.slow
@pytest.mark.parametrize("cleanup", [None, Cleanup(largest_liver=True)], ids=["stored", "largest_liver"])
def test_the_program_of_a_model_applies_the_rules_of_predict(folder, isolated, tmp_path, cleanup):
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    rules = parse_rules("lesion=threshold:0.5,liver=largest,lesion=min_volume:3000,lesion=inside:liver", LITS)
    save_rules(run, Choice(rules, 1, {}, {}, None))
    card = export(LIVER, run, tmp_path / "model", cleanup=cleanup)
    names = ["largest_liver"] if cleanup else [*map(str, rules[1:])]
    note = card.notes[-1 if cleanup else -2]
    if not cleanup:
        assert card.notes[-1] == "The labels follow from the probabilities with these rules: lesion=threshold:0.5."
    assert note == (
        f"predict applies these rules to the components of its labels: {', '.join(names)}. The signatures do not apply "
        "them; the entry 'cleanup' of input.json describes them. segment.py applies them by default, which needs SciPy."
    )
    assert note in (tmp_path / "model/README.md").read_text().replace("\n", " ")
    assert [rule["rule"] for rule in json.loads((tmp_path / "model/input.json").read_text())["cleanup"]] == names
    shared = {"task": LIVER, "model_dir": run, "input": folder / "cases/volume-1.nii.gz", "progress": False}
    labels = []
    raw = "none" if cleanup else str(rules[0])  # the labels of a model follow its thresholds in any case
    for name, words, own in (("clean", (), cleanup), ("raw", ("--no_cleanup",), raw)):
        path = tmp_path / f"{name}.nii.gz"
        isolated.run(tmp_path / "model/segment.py", shared["input"], path, *words)
        (written,) = mi.jobs.predict(**shared, output=tmp_path / f"{name}_expected.nii.gz", cleanup=own)
        labels.append(np.asarray(nibabel.load(path).dataobj))
        np.testing.assert_array_equal(labels[-1], nibabel.load(written).dataobj)
    assert (labels[0] != labels[1]).any()
    assert labels[0].any()


class TwoInputs(LiverTumorSegmentation):
    def inputs(self, batch_size, sizes, *, dtype, labels):
        inputs = super().inputs(batch_size, sizes, dtype=dtype, labels=labels)
        return inputs | {"prior": inputs["image"]}

    def predict(self, image, prior):
        return super().predict(image)


class TwoClasses(LiverTumorSegmentation):
    def predict(self, image):
        return mi.mtf.slice(super().predict(image), 0, 2, "classes")


class Parts(LiverTumorSegmentation):
    def predict(self, image):
        return {"a": image, "b": super().predict(image)}


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"output": "run"}, DataError, "run: already exists, and is never replaced. Fix: name a new folder."),
        ({"output": "cases/volume-0.nii.gz"}, DataError, "volume-0.nii.gz: already exists, and is never replaced."),
        ({"model_dir": "none"}, mi.CheckpointError, "none: this folder holds no checkpoint. Fix: train there first"),
        ({"checkpoint": "best"}, mi.CheckpointError, "run: this run has no best checkpoint"),
        ({"ensemble": True}, ConfigError, "run: this folder holds no folds (fold_0, fold_1, ...)"),
        ({"dtype": "float23"}, ConfigError, "dtype = 'float23' is not known. Did you mean 'float32'?"),
        ({"flips": ("w",)}, ConfigError, "flips = 'w' is not known. Fix: choose one of x, y, z, height, width."),
        ({"resolution": "x:8"}, DataError, "resolution 'x:8': needs a positive size for x, y and z."),
        ({"spacing": "-1"}, DataError, "spacing '-1': needs a positive size in mm along x, y and z."),
        ({"window": (3, 3)}, DataError, "window (3.0, 3.0): the lower bound must be below the upper bound."),
        ({"dtype": "float32"}, mi.CheckpointError, "] in the checkpoint, but float32 ["),
        ({"task": LiverTumorSegmentation(UNet3D(base_filters=3, depth=1))}, mi.CheckpointError, "another network"),
        (
            {"task": TwoClasses(VOLUMES.network)},
            mi.ShapeError,
            "the network returned probabilities of shape [12, 12, 12, 2] for an image of [12, 12, 12]; 3 classes need "
            "[12, 12, 12, 3]. Fix: return one probability for each of them at every voxel.",
        ),
        ({"task": Parts(VOLUMES.network)}, mi.ShapeError, "the network returned probabilities of a, b for an image of"),
        (
            {"task": TwoInputs(VOLUMES.network)},
            ConfigError,
            "the network of task TwoInputs has the inputs image, prior, but",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_mistakes_are_reported_and_leave_no_folder(tmp_path_factory, tmp_path, change, error, text):
    given = {"task": VOLUMES, "dtype": "float64", "model_dir": "run", "output": tmp_path / "model"} | change
    given |= {name: tiny_runs.volumes(tmp_path_factory) / given[name] for name in ("model_dir", "output")}
    with pytest.raises(error, match=re.escape(text)):
        export(**given)
    assert not any(tmp_path.iterdir())


def test_a_model_may_lie_in_the_folder_of_its_run(tmp_path_factory, tmp_path):
    run = shutil.copytree(tiny_runs.volumes(tmp_path_factory) / "run", tmp_path / "run")
    assert export(VOLUMES, run, run / "eval/model", dtype="float64").kind == "volumes"


@pytest.mark.slow
def test_a_failed_export_leaves_no_folder(folder, tmp_path, monkeypatch):
    from mtf_imaging.evaluation.export.card import ModelCard

    def fail(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ModelCard, "as_markdown", fail)
    with pytest.raises(OSError, match="No space left on device"):
        export(LIVER, folder / "run", tmp_path / "new/model")
    assert not any((tmp_path / "new").iterdir())
