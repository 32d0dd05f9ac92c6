"""The settings of `evaluate`, `predict` and `export`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.listing.image_formats import OUTPUT_FORMATS
from mtf_imaging.data.window import DEFAULT_WINDOW, Window
from mtf_imaging.settings.setting import Settings, changed, documented, setting, settings
from mtf_imaging.settings.step import (
    BatchSettings,
    NetworkSettings,
    PlacementSettings,
    ProgressSettings,
    SpacingSettings,
    SpacingTableSettings,
)
from mtf_imaging.settings.values import ONE_SCALE, Resolution

if TYPE_CHECKING:
    from mtf_imaging.evaluation.segment.cleanup import Cleanup


@settings
class TrainedRunSettings(Settings):
    """The trained network of a job."""

    model_dir: str | Path = setting(
        "folder of the run, which train wrote; with `ensemble`, of cross_validate", flag=True
    )
    checkpoint: str = setting(
        "the checkpoint to use: the last, or the best on the held-out cases of the training",
        default="last",
        choices=("last", "best"),
        flag=True,
    )
    ensemble: bool = setting(
        "whether to average the probabilities of all folds in `model_dir`, the output folder of cross_validate. More "
        "folds take more time, but no more memory of the devices. Detections of objects cannot be averaged",
        default=False,
        flag=True,
    )


@settings
class WindowSettings(Settings):
    """The intensities of a CT."""

    window: Window = setting(
        "the intensity window (low, high) in HU to which images of LiTS are clipped, the same as in training. For "
        "other data, the intensity schemes of the training are used",
        default=DEFAULT_WINDOW,
        unit="HU",
    )


@settings
class FlipSettings(Settings):
    """The flips of an image whose predictions are averaged."""

    flips: Sequence[str] = setting(
        'axes to flip, for instance ("x", "y", "z"), or ("width",) of photos. Probabilities are averaged over all '
        "combinations of flips along these axes; n axes take 2^n times as long",
        default=(),
        example='("x", "y")',
    )


@settings
class ScaleSettings(Settings):
    """The sizes of an image whose predictions are averaged."""

    scales: Sequence[float] = setting(
        "factors by which photos are enlarged, for instance (0.5, 1.0, 1.5). Probabilities are averaged over all of "
        "them",
        default=ONE_SCALE,
        example="(0.75, 1.0, 1.25)",
    )


@documented
@dataclasses.dataclass(frozen=True)
class CleanupSettings(Settings):
    """The rules to apply, in this order, to the labels of a whole volume before scoring or writing."""

    largest_liver: bool = setting(
        "whether to keep only the largest component of the liver, lesions included", default=False, example="True"
    )
    lesions_in_liver: bool = setting(
        "whether to drop lesions that do not touch the liver", default=False, example="True"
    )


@settings
class CleanupSetting(Settings):
    """The postprocessing of a segmentation."""

    cleanup: "Cleanup | None" = setting(
        "the postprocessing of the segmentation, which removes anatomically impossible components. Default: none",
        default=None,
    )


@settings
class InferenceSettings(
    NetworkSettings,
    TrainedRunSettings,
    SpacingSettings,
    WindowSettings,
    CleanupSetting,
    FlipSettings,
    ScaleSettings,
    ProgressSettings,
):
    """The settings that `evaluate`, `predict` and `export` share."""

    resolution: Resolution | None = changed(BatchSettings, "resolution")


@settings
class OutputFormatSettings(Settings):
    """The files of segmentations."""

    output_format: str | None = setting(
        "the file format of segmentations of volumes. Default: the ending of the output for one volume, otherwise "
        "ome-zarr for OME-Zarr volumes and nifti for all others",
        default=None,
        choices=tuple(OUTPUT_FORMATS),
        flag=True,
    )


@settings
class EvaluateSettings(InferenceSettings, PlacementSettings, OutputFormatSettings, SpacingTableSettings):
    """The settings of `evaluate`."""

    input_dir: str | Path = setting(
        "folder of cases with their segmentations, of photos with their label images, or of objects as in COCO",
        flag=True,
        shared=False,
    )
    split: str | None = setting(
        "list of photos or split of objects to evaluate, for instance val. Default: the held-out one of the training, "
        "or all photos if there are no lists",
        default=None,
        flag=True,
    )
    output_dir: str | Path = setting(
        "folder for metrics.json, report.html, pictures and predictions", flag=True, shared=False
    )
    fold: int | None = setting(
        "evaluate only the held-out cases of this fold, counted from 0. Default: all cases",
        default=None,
        least=0,
        flag=True,
    )
    splits_file: str | Path | None = setting(
        "file of the folds. Default: the file in `model_dir`, which train wrote", default=None, flag=True, shared=False
    )
    cases: Sequence[Any] | None = setting(
        "the images to evaluate. Default: all in `input_dir`, or those of the fold or split", default=None, shared=False
    )
    num_pictures: int = setting("number of images to draw pictures of", default=3, shared=False)


@settings
class PredictSettings(InferenceSettings, PlacementSettings, OutputFormatSettings, SpacingTableSettings):
    """The settings of `predict`."""

    input: str | Path = setting(
        "a volume, as a NIfTI file, OME-Zarr folder or folder of the DICOM files of a series; a photo; or a folder of "
        "cases or images",
        flag=True,
        shared=False,
    )
    output: str | Path = setting(
        "segmentation to write (.nii, .nii.gz or .ome.zarr), or folder for the segmentations; for objects, the JSON "
        "file of the detections in one image, or a folder",
        flag=True,
        shared=False,
    )
    submission: bool = setting(
        "whether to write test-segmentation-N.nii, the format of the LiTS challenge, for a folder of "
        "test-volume-N.nii[.gz]",
        default=False,
        flag=True,
    )
    overwrite: bool = setting("whether to replace existing results", default=False, flag=True)
    planned: Any = setting(
        "the images and the files to write, as returned by `plan_prediction`. Default: derived from `input` and "
        "`output`",
        default=None,
        shared=False,
    )


@settings
class ExportSettings(InferenceSettings):
    """The settings of `export`."""

    output: str | Path = setting("new folder for the model", flag=True)
    scales: Sequence[float] = setting(
        "must be (1.0,), because the model does not resize photos", default=ONE_SCALE, example="(1.0,)"
    )
