"""The good data whose copies inputs damage: small cases, records and trained runs of every kind."""

import json
import shutil
from pathlib import Path

import numpy as np

from benchmarks.reliability import commands
from benchmarks.reliability.files import checkpoints, dicom, nifti, photos, zarr_images

TINY = (
    *("--gin_file", "unet3d_demo", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=1", "--gin.UNet3D.convs=1"),
    *("--seed", "3", "--num_steps", "2"),
)
_PIXELS = """
train.data = @{kind}()
{kind}.size = (16, 24)
{more}
setup.batch_size = 1
train.num_steps = 2
train.optimizer = @Adam()
"""
PHOTO_JOB = (
    "import mtf_imaging.models.deeplab\nimport benchmarks.reliability.networks\njob.task = @SemanticSegmentation()\n"
    "SemanticSegmentation.network = @OneConv()" + _PIXELS.format(kind="Photos", more="")
)
OBJECT_JOB = "import benchmarks.reliability.networks\njob.task = @FixedBoxes()" + _PIXELS.format(
    kind="Objects", more="Objects.max_boxes = 3"
)
_DONE = "complete"
_LIMIT_S = 150


def prepare(folder: Path) -> Path:
    """Writes all good data unless the folder has them, and returns the folder."""
    if (folder / _DONE).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    write_data(folder)
    for line in (
        "convert --input_dir cases --output_dir records --resolution 8 --workers 1 --chunk 4",
        "convert --input_dir nnunet --output_dir described --resolution 8 --workers 1",
        "score --reference_dir cases --prediction_dir predictions --output_dir scores --workers 1",
        f"train --data_dir records --model_dir run {' '.join(TINY)}",
        f"train --data_dir described --model_dir described_run --gin_file unet3d_brain {' '.join(TINY[2:])}",
        "train --data_dir photos --model_dir photo_run --gin_file photos.gin",
        "train --data_dir objects --model_dir object_run --gin_file objects.gin",
    ):
        result = commands.run(line.split(), folder, _LIMIT_S)
        if result.code:
            raise SystemExit(f"{folder}: {line} failed on good data, exit code {result.code}:\n{result.text[-3000:]}")
    checkpoints.write_slim(folder / "slim/model.ckpt")
    (folder / _DONE).touch()
    return folder


def write_data(folder: Path) -> Path:
    """Writes data that does not need a command: cases, predictions, series, images and jobs; returns the folder."""
    nifti.write_cases(folder / "cases")
    nifti.write_cases(folder / "more_cases", 6)
    nifti.write_cases(folder / "held_out", 3, first=2)
    for number in range(2):
        _, labels = nifti.abdomen(number)
        nifti.write(folder / f"predictions/segmentation-{number}.nii.gz", np.roll(labels, 1, axis=0))
    write_described(folder / "nnunet")
    dicom.write_series(folder / "dicom/volume-0")
    zarr_images.write(folder / "zarr/volume-0.ome.zarr")
    for name in ("dicom", "zarr"):
        for number in (0, 1):
            shutil.copy(folder / f"cases/segmentation-{number}.nii.gz", folder / name)
        shutil.copy(folder / "cases/volume-1.nii.gz", folder / name)
    photos.write_photos(folder / "photos")
    photos.write_objects(folder / "objects")
    (folder / "in_files.gin").write_text("import benchmarks.reliability.in_files\n")
    (folder / "photos.gin").write_text(PHOTO_JOB)
    (folder / "objects.gin").write_text(OBJECT_JOB)
    return folder


def write_described(folder: Path, channels: int = 1) -> Path:
    """Writes two nnU-Net cases with MR channels and the labels spleen and cyst."""
    for number in range(2):
        values, labels = nifti.abdomen(number)
        for channel in range(channels):
            nifti.write(folder / f"imagesTr/a{number}_{channel:04}.nii.gz", values + 1000)
        nifti.write(folder / f"labelsTr/a{number}.nii.gz", labels)
    fields = {
        "channel_names": {str(channel): f"MR{channel}" for channel in range(channels)},
        "labels": {"background": 0, "spleen": 1, "cyst": 2},
        "numTraining": 2,
        "file_ending": ".nii.gz",
    }
    (folder / "dataset.json").write_text(json.dumps(fields))
    return folder
