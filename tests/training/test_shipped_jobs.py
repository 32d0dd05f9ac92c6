"""Every shipped job can be planned under every shipped layout, and builds under one of them."""

import numpy as np
import pytest

from mtf_imaging.cli.config import resources
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.cli.config.training_settings import Job, Training
from mtf_imaging.data.phantom.kinds import BRAIN_TUMORS
from mtf_imaging.engine.layout import format_rules, parse_layout
from mtf_imaging.kinds.objects.generator import write_objects
from mtf_imaging.kinds.objects.scenes import CATEGORIES
from mtf_imaging.kinds.photos.scenes import SCENES, write_scenes
from mtf_imaging.training.optimizers import Adafactor
from tests.commands import bound, run

SHIPPED = list(resources.shipped_files())
JOBS = [name for name in SHIPPED if name.startswith("gin/")]
# Jobs for a fixed number of GPUs, which are built only with their own layout.
FOR_GPUS = {
    "gin/unet3d_lits_1gpu.gin": "1 x 192 x 192 x 192 x 1",
    "gin/unet3d_lits_8gpu.gin": "1 x 128 x 256 x 512 x 1",
}
OWN_LAYOUT = {
    "gin/unet3d_lits.gin": "16 x 16 x 16 x 256 x 1",
    "gin/unet3d_tpu_256.gin": "4 x 16 x 256 x 256 x 1",
}
LAYOUTS = [name for name in SHIPPED if name.startswith("layouts/")]
# Jobs for images and clips, which are built under the same layouts with their own names for x and y: the resolution and
# the number of variables. Their networks halve the image two to four times, so each of 16 slices keeps a pixel.
OF_IMAGES = {
    "gin/classify_4way.gin": ("256", 29),
    "gin/deeplab_scenes.gin": ("256", 68),
    "gin/video_motion.gin": ("x:4,y:64,z:64", 35),
}
IMAGE_NAMES = {"x": "height", "y": "width"}
# Jobs for photos of a fixed size, which are planned with their own layout: the size, and the first and the last slice.
OF_LARGE_PHOTOS = {
    "gin/deeplab_voc.gin": ("513", "64 x 129 x 129 x 64", "64 x 65 x 65 x 256"),
    "gin/deeplab_aerial.gin": ("8192", "2 x 1024 x 1024 x 64", "2 x 512 x 512 x 256"),
}
# The recipes of detectors: the first slice, and a slice of the coarsest level.
OF_DETECTORS = {
    "gin/retinanet_1280.gin": ("8 x 640 x 640 x 64", "8 x 10 x 10 x 256"),
    "gin/retinanet_2560_8way.gin": ("8 x 320 x 640 x 64", "8 x 5 x 10 x 256"),
    **{
        f"gin/mask_rcnn_1024{epochs}.gin": ("8 x 256 x 256 x 64", "8 x 8 x 8 x 256")
        for epochs in ("", "_24epochs", "_48epochs")
    },
}
# The jobs of the demo on objects: the number of variables.
OF_OBJECTS = {"gin/mask_rcnn_objects.gin": 94, "gin/retinanet_objects.gin": 81}
BEST = "gin/unet3d_lits_best.gin"  # six levels, the coarsest of which are gathered
IMPORTED = "gin/imported_network.gin"  # tests/cli/test_imported_network.py has a network for it
OF_OTHERS = {BEST, IMPORTED, *FOR_GPUS, *OF_IMAGES, *OF_LARGE_PHOTOS, *OF_DETECTORS, *OF_OBJECTS}
OF_VOLUMES = [job for job in JOBS if job not in OF_OTHERS]
# The network halves the image three times, so each of the 16 slices along x and y keeps a voxel.
SMALL = ["--resolution", "x:128,y:128,z:16", "--batch_size", "2"]


def dry_run(*words, data_dir="none"):
    return run("train", "--data_dir", data_dir, "--model_dir", "none", *words, "--dry_run")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A folder of photos, which tell the number of classes."""
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, 4, seed=1, size=(16, 20), progress=False)
    return folder


def test_there_are_jobs_and_layouts():
    assert {"gin/unet3d_demo.gin", "gin/unet3d_real_ct.gin", "gin/unet3d_lits.gin"} <= set(JOBS)
    assert len(LAYOUTS) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("job", OF_VOLUMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_can_be_planned(job, layout, capsys):
    """A plan checks all operations of the step, without the seconds that it takes to build them."""
    assert run("explain", "--gin_file", job, "--gin_file", layout, *SMALL) == 0
    out = capsys.readouterr().out
    assert out.startswith("one processor" if layout == "layouts/single.gin" else "mesh rows:")
    assert "\nunet3d/down3/conv1/conv1 " in out


@pytest.mark.slow
@pytest.mark.parametrize("job", OF_LARGE_PHOTOS)
def test_jobs_of_large_photos_can_be_planned(job, capsys):
    size, first, last = OF_LARGE_PHOTOS[job]
    assert run("explain", "--gin_file", job, "--resolution", size) == 0
    rows = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert first in rows["resnet/stem0/stem0"]
    assert last in rows["deeplab/decoder/decoder1/decoder1"]
    assert not [name for name in rows if "gather" in name]


@pytest.mark.slow
@pytest.mark.parametrize("job", OF_DETECTORS)
def test_recipes_of_detectors_can_be_planned(job, capsys):
    first, last = OF_DETECTORS[job]
    assert run("explain", "--gin_file", job, "--verbose") == 0
    rows = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert first in rows["resnet/stem/stem"]
    level = 6 if "mask" in job else 7
    assert last in rows[f"fpn/level{level}/level{level}"]


# Every job and every layout at least once.
PAIRS = [
    (OF_VOLUMES[n % len(OF_VOLUMES)], LAYOUTS[n % len(LAYOUTS)]) for n in range(max(len(OF_VOLUMES), len(LAYOUTS)))
]


@pytest.mark.slow
@pytest.mark.parametrize(("job", "layout"), PAIRS)
def test_it_builds(job, layout, capsys):
    assert dry_run("--gin_file", job, "--gin_file", layout, *SMALL) == 0
    assert "weights in 50 variables" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("job", OF_IMAGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_builds_for_images(job, layout, scenes, capsys):
    resolution, variables = OF_IMAGES[job]
    with bound(layout):
        setup = JobSetup()
    volume_dims = [dim for dim, _ in parse_layout(setup.layout) if dim not in {*IMAGE_NAMES, "batch"}]
    layout_of_images = setup.parsed_layout.restrict(lambda dim: dim not in volume_dims)
    mesh = layout_of_images.mesh_string
    rules = format_rules((IMAGE_NAMES.get(dim, dim), onto) for dim, onto in layout_of_images.rules)
    words = ["--resolution", resolution, "--batch_size", "2", f"--mesh_shape={mesh}", f"--layout={rules}"]
    assert dry_run("--gin_file", job, *words, data_dir=scenes) == 0
    assert f"weights in {variables} variables" in capsys.readouterr().out
    if rules:
        assert dry_run("--gin_file", job, "--gin_file", layout, data_dir=scenes) == 2
        assert "no tensor dimension is called 'x'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("job", OF_OBJECTS)
def test_it_builds_for_objects(job, tmp_path, capsys):
    write_objects(tmp_path, 4, seed=1, size=(40, 44), progress=False)
    assert dry_run("--gin_file", job, data_dir=tmp_path) == 0
    assert f"weights in {OF_OBJECTS[job]} variables" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("job", "image"), [*OWN_LAYOUT.items(), *FOR_GPUS.items()])
def test_a_job_has_its_own_layout(job, image, capsys):
    small = ["--gin.UNet3D.base_filters=2", "--gin.UNet3D.convs=1", "--gin.UNet3D.depth=2"]
    assert dry_run("--gin_file", job, *small) == 0
    assert next(line for line in capsys.readouterr().out.splitlines() if line.startswith("image")).endswith(f" {image}")


@pytest.mark.slow
def test_our_job_for_lits_is_planned_and_builds_under_its_layout(capsys):
    assert run("explain", "--gin_file", BEST, "--resolution", "x:416,y:416,z:512", "--spacing", "1") == 0
    out = capsys.readouterr().out
    assert "receptive field: 412 x 412 x 412 of 416 x 416 x 512 voxels, 412 x 412 x 412 of 416 x 416 x 512 mm" in out
    assert "2 x 104 x 208 x 512 x 32" in next(line for line in out.splitlines() if "down0/conv1/conv1 " in line)
    small = ["--gin.UNet3D.base_filters=2", "--gin.UNet3D.convs=1", "--resolution", "x:130,y:70,z:32"]
    assert dry_run("--gin_file", BEST, *small) == 0
    assert "unet3d/pool3_gather gathers x" in capsys.readouterr().out


def test_our_job_for_lits_has_the_settings_of_its_reasons():
    with bound(BEST):
        setup, training, task = JobSetup(), Training(), Job().task
    assert training.class_frequencies == "data"
    assert (task.dice, task.dice_weight, task.class_weights) == ("classes", 0.5, (1, 1, 1))
    assert (task.network.norm, task.network.depth, task.network.deep_supervision) == ("instance", 6, True)
    assert (setup.batch_size, setup.micro_batches) == (2, 1)
    rates = [training.optimizer.learning_rate(step) for step in (0, training.num_steps)]
    np.testing.assert_allclose(rates, [0.001, 0.0])


@pytest.mark.slow
def test_a_mesh_too_large_for_deep_levels_builds_and_may_gather_them(capsys):
    job = ["--gin_file", "unet3d_demo", "--gin_file", "16x16x2", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.convs=1"]
    sizes = ["--resolution", "x:64,y:64,z:16", "--batch_size", "2"]
    assert dry_run(*job, *sizes) == 0
    assert "_gather" not in capsys.readouterr().out
    assert dry_run(*job, *sizes, "--gin.UNet3D.gather_below=2") == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines() if line.startswith("unet3d/pool")]
    assert [(line[0], line[-1]) for line in lines] == [
        ("unet3d/pool2_gather", "1 x 1 x 1 x 4 x 4 -> 1 x 16 x 16 x 4 x 4")
    ]


def test_the_job_of_brains_has_the_channels_and_regions_of_the_phantoms():
    with bound("unet3d_brain"):
        stated = Job().task.description
    for name in ("channels", "labels", "masks", "region_order"):
        assert getattr(stated, name) == getattr(BRAIN_TUMORS, name)


def test_the_job_of_scenes_has_their_classes():
    with bound("deeplab_scenes"):
        task = Job().task
    assert (task.classes, task.ignore_label) == (len(SCENES.classes), SCENES.ignore_label)


def test_the_recipe_of_deeplab_has_its_settings():
    with bound("deeplab_voc"):
        setup, training, network = JobSetup(), Training(), Job().task.network
        rates = [training.optimizer.learning_rate(step) for step in (0, 25_000, 50_000)]
    assert (setup.batch_size, training.num_steps, training.data.size) == (64, 50_000, (513, 513))
    assert (training.data.scaling, training.data.augmentation.scale_step) == ("mean", 0.25)
    assert (network.backbone.blocks, network.backbone.stem) == ((3, 4, 23, 3), "v1-beta")
    assert (network.backbone.strides, network.backbone.multigrid) == ((4, 8, 16, 16), (1, 2, 4))
    assert (network.dropout_rate, network.norm_momentum, network.backbone.norm_momentum) == (0.1, 0.9997, 0.9997)
    np.testing.assert_allclose(rates, [0.01, 0.01 * 0.5**0.9, 0], atol=1e-9)


@pytest.mark.parametrize("job", OF_DETECTORS)
def test_the_recipes_of_detectors_have_their_settings(job):
    with bound(job):
        setup, training, task = JobSetup(), Training(), Job().task
        times = int(job.removesuffix("epochs.gin").rpartition("_")[2]) // 12 if "epochs" in job else 1
        steps = (
            0,
            499,
            *(number * times - 1 + drop for number in (15_000, 20_000) for drop in (0, 1)),
            22_500 * times - 1,
        )
        rates = [training.optimizer.learning_rate(step) for step in steps]
    assert (setup.batch_size, training.num_steps, task.max_boxes) == (64, 22_500 * times, training.data.max_boxes)
    assert training.data.size == ((1024,) * 2 if "mask" in job else (1280,) * 2 if "1280" in job else (2560,) * 2)
    assert (training.data.augmentation.min_scale, training.data.augmentation.max_scale) == (0.8, 1.2)
    backbone = task.network.backbone
    assert (backbone.blocks, backbone.norm_momentum, backbone.norm_epsilon) == ((3, 4, 6, 3), 0.997, 1e-4)
    np.testing.assert_allclose(rates, [0.08 / 500, 0.08, 0.08, 0.008, 0.008, 0.0008, 0.0008])
    if "mask" in job:
        assert (task.network.train_norms, training.data.masks, training.data.mask_size) == (False, True, task.mask_size)


@pytest.mark.parametrize("job", OF_OBJECTS)
def test_the_jobs_of_objects_fit_their_data(job):
    with bound(job):
        task, data = Job().task, Training().data
    assert (task.classes, task.max_boxes) == (len(CATEGORIES), data.max_boxes)
    assert data.masks == ("mask" in job)
    assert not data.masks or task.mask_size == data.mask_size


@pytest.mark.parametrize("job", ["gin/unet3d_lits.gin", *FOR_GPUS])
def test_the_job_of_the_paper_has_its_settings(job):
    with bound(job):
        setup, training = JobSetup(), Training()
        assert Job().dtype == "bfloat16"
        assert setup.batch_size == 32
        assert setup.micro_batches == (32 if job in FOR_GPUS else 1)
        assert isinstance(training.optimizer, Adafactor)
        assert training.class_frequencies is None
        assert (training.augmentation.flips, training.augmentation.half_turn) == (("x", "y", "z"), 0.5)
        least, most = training.augmentation.lesion_diameter
        voxels = int(setup.resolution)
        assert (least / voxels, most / voxels) == (1 / 64, 1 / 8)  # the same in mm at every resolution
        rates = [training.optimizer.learning_rate(step) for step in (0, 19_999, 20_000, 59_999)]
    np.testing.assert_allclose(rates, [0.003, 0.003, 0.0009, 0.00027])
