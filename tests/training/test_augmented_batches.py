"""Augmentation gives the same samples under every layout, on all devices and in micro-batches."""

import itertools

import nibabel
import numpy as np
import pytest

from mtf_imaging.jobs import training as job
from tests.commands import run

TINY = ["--gin_file", "unet3d_demo", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=1", "--gin.UNet3D.convs=1"]
AUGMENTED = {
    "flips": ("x", "y", "z"),
    "half_turn": 0.5,
    "rotation": (0, 0, 15),
    "zoom": 0.1,
    "translation": 0.1,
    "elastic": 0.02,
    "class_shift_sd": 0.05,
    "corruption": 0.1,
    "gamma": 0.2,
    "multiscale_noise": 0.01,
    "blur": 0.5,
    "low_resolution": 0.5,
    "lesions": 0.5,
    "lesion_diameter": (2, 5),
}
LAYOUTS = {
    "whole": [],
    "stacked": ["--mesh_shape", "rows:2,cols:2", "--layout", "x:rows,y:cols", "--mesh_impl", "stacked"],
    "placement": ["--mesh_shape", "rows:2,cores:2", "--layout", "z:rows,batch:cores", "--mesh_impl", "placement"],
    "parts": ["--micro_batches", "2"],
}


def store(path, array):
    path.parent.mkdir(exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(array, np.diag([2.0, 2.0, 2.0, 1.0])), path)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Returns the batches of four training steps by layout. For "parts", the run resumes after two steps."""
    folder = tmp_path_factory.mktemp("augmented")
    for number in range(2):
        hu = np.random.default_rng(number).normal(40, 50, (8, 8, 8)).astype(np.int16)
        labels = np.zeros((8, 8, 8), np.uint8)
        labels[1:6, 2:7, 1:7] = 1
        labels[3, 3:5, 3:5] = 2
        store(folder / f"cases/volume-{number}.nii", hu)
        store(folder / f"cases/segmentation-{number}.nii", labels)
    words = ["--input_dir", folder / "cases", "--output_dir", folder / "records", "--resolution", 8]
    assert run("convert", *words, "--workers", 1) == 0
    options = [f"Augmentation.{name} = {value!r}" for name, value in AUGMENTED.items()]
    recipe = itertools.chain(*(("--gin_param", text) for text in ["train.augmentation = @Augmentation()", *options]))
    common = ["--data_dir", folder / "records", "--batch_size", 2, *TINY, *recipe, "--seed", 3]

    batches_by_layout = {}

    def watched(*, batches, **rest):
        for start, count in ((0, 2), (2, 2)) if name == "parts" else ((0, 4),):
            for batch in itertools.islice(batches(start), count):
                parts = batch.get("parts", [batch])
                steps.append([np.concatenate([part[key] for part in parts]) for key in ("image", "labels")])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job.loop, "train", watched)
        for name, layout in LAYOUTS.items():
            steps = batches_by_layout[name] = []
            assert run("train", *common, "--model_dir", folder / name, *layout, "--num_steps", 4) == 0
    return batches_by_layout


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "whole"])
def test_every_layout_sees_the_same_samples(seen, name):
    assert len(seen[name]) == len(seen["whole"]) == 4
    for step, whole in zip(seen[name], seen["whole"]):
        for one, other in zip(step, whole):
            np.testing.assert_array_equal(one, other)
    images = {image.tobytes() for batch, _ in seen["whole"] for image in batch}
    assert len(images) == 8  # all samples of the two cases differ
