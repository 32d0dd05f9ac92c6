"""The settings of `evaluate`, `predict` and `export`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window
from mtf_imaging.data.listing.image_formats import OUTPUT_FORMATS
from mtf_imaging.data.sampling.grid import AXIS_NAMES, PHOTO_AXES
from mtf_imaging.settings.patches import SlidingWindowSettings
from mtf_imaging.settings.setting import Settings, changed, documented, setting, settings
from mtf_imaging.settings.step import (
    BatchSettings,
    NetworkSettings,
    PlacementSettings,
    ProgressSettings,
    SpacingSettings,
    SpacingTableSettings,
)
from mtf_imaging.settings.values import MODEL_FORMATS, ONE_SCALE, Resolution

STORED = "stored"  # the cleanup rules in the folder of the run or of its folds


@settings
class EnsembleSetting(Settings):
    """The networks of a cross-validation as one.

    Attributes:
      ensemble: whether to average the probabilities of all folds in `model_dir`, the output folder of cross_validate.
        More folds take more time, but not more device memory. Detections of objects cannot be averaged.
    """

    ensemble: bool = setting(default=False, flag=True)


@settings
class TrainedRunSettings(EnsembleSetting):
    """The trained network of a job.

    Attributes:
      model_dir: folder of the run, which train wrote; with `ensemble`, the output folder of cross_validate.
      checkpoint: the checkpoint to use: the last, or the best on the cases that training held out.
      averages: whether to use the averages of the weights, if the run has them (train.average_decay), instead of the
        weights of the last step.
    """

    model_dir: str | Path = setting(flag=True)
    checkpoint: str = setting(default="last", choices=("last", "best"), flag=True)
    averages: bool = setting(default=True, flag=True)


@settings
class WindowSettings(Settings):
    """The intensities of a CT.

    Attributes:
      window: the intensity window (low, high) in HU to which LiTS images are clipped, the same as in training. For
        other data, the intensity schemes of the training are used.
    """

    window: Window = setting(default=DEFAULT_WINDOW, unit="HU")


@settings
class FlipSettings(Settings):
    """Test-time flips of an image; their predictions are averaged.

    Attributes:
      flips: axes to flip, for instance ("x", "y", "z"), or ("width",) of photos and of images with objects.
        Probabilities are averaged, and detections merged, over all combinations of flips along these axes; n axes take
        2^n times as long.
    """

    flips: Sequence[str] = setting(default=(), choices=(*AXIS_NAMES, *PHOTO_AXES), example='("x", "y")')


@settings
class ScaleSettings(Settings):
    """Test-time scales of an image; their predictions are averaged.

    Attributes:
      scales: factors by which photos and images with objects are enlarged, for instance (0.5, 1.0, 1.5). Probabilities
        are averaged, and detections merged, over all of them.
    """

    scales: Sequence[float] = setting(default=ONE_SCALE, above=0, most=100, example="(0.75, 1.0, 1.25)")


@documented
@dataclasses.dataclass(frozen=True)
class CleanupSettings(Settings):
    """The rules to apply, in this order, to the labels of a whole volume before scoring or writing.

    Attributes:
      largest_liver: whether to keep only the largest component of the liver, lesions included.
      lesions_in_liver: whether to drop lesions that do not touch the liver.
      cleanup_rules: stored for the rules that were chosen on held-out cases, unless one of the two settings above is
          True; none for no rules; lits for the two settings above; or a list such as
          lesion=threshold:0.2,liver=largest,lesion=min_volume:0.1.
    """

    largest_liver: bool = setting(default=False, example="True")
    lesions_in_liver: bool = setting(default=False, example="True")
    cleanup_rules: str = setting(default=STORED, example='"liver=largest"')


@settings
class CleanupSetting(Settings):
    """The postprocessing of a segmentation.

    Attributes:
      cleanup: rules for the segmentation of a volume, which set the threshold of a probability or remove components,
        such as lesion=threshold:0.2,lesion=min_volume:0.1 (mL); or lits, one liver and no lesions outside it;
        or none; or stored, the rules that evaluate or cross_validate chose on held-out cases and stored in `model_dir`.
        In Python, also a `Cleanup`. Default: stored.
    """

    cleanup: CleanupSettings | str | None = setting(default=None, flag=True)


@settings
class EvalBatchSettings(Settings):
    """The batches of `evaluate` and `predict`.

    Attributes:
      eval_batch_size: number of photos, images with objects or arrays that the network computes together. It changes
        speed and memory, never results. Photos that are padded to different sizes are computed one at a time.
    """

    eval_batch_size: int = setting(default=1, unit="images", least=1, flag=True)


@settings
class InferenceSettings(
    NetworkSettings,
    TrainedRunSettings,
    SpacingSettings,
    WindowSettings,
    SlidingWindowSettings,
    CleanupSetting,
    FlipSettings,
    ScaleSettings,
    ProgressSettings,
):
    """The settings that `evaluate`, `predict` and `export` share."""

    resolution: Resolution | None = changed(BatchSettings, "resolution")


@settings
class OutputFormatSettings(Settings):
    """The files of segmentations.

    Attributes:
      output_format: the file format of volume segmentations; dicom-seg is only for predict and DICOM series. Default:
        the ending of the output for one volume, otherwise the format of the volume, and nifti for DICOM.
    """

    output_format: str | None = setting(default=None, choices=tuple(OUTPUT_FORMATS), flag=True)


@settings
class MapSettings(Settings):
    """The files that `predict` writes in addition to the labels of a volume.

    Attributes:
      label_codes: JSON file with the label codes for output_format dicom-seg. Default: codes of liver and lesion for
          data with LiTS labels.
      probabilities: whether to write the probabilities of each class, on the voxels of the volume, as float32.
      uncertainty: whether to write the entropy of the probabilities and, with `ensemble` or `flips`, the mutual
        information, which is 0 where all networks and flips agree.
    """

    label_codes: str | Path | None = setting(default=None, flag=True, shared=False)
    probabilities: bool = setting(default=False, flag=True)
    uncertainty: bool = setting(default=False, flag=True)


@settings
class SplitSetting(Settings):
    """The split of labeled images.

    Attributes:
      split: list of photos or split of objects to evaluate, for instance val. Default: the held-out one of the
        training, or all photos if there are no lists.
    """

    split: str | None = setting(default=None, flag=True)


@settings
class ChooseCleanupSetting(Settings):
    """The choice of the postprocessing.

    Attributes:
      choose_cleanup: whether to choose the rules of `cleanup` on these cases and store them in `model_dir`, where
          predict and evaluate find them. The cases must be held out, and must not belong to a final test set.
    """

    choose_cleanup: bool = setting(default=False, flag=True)


@settings
class EvaluateSettings(
    InferenceSettings,
    PlacementSettings,
    EvalBatchSettings,
    OutputFormatSettings,
    SpacingTableSettings,
    SplitSetting,
    ChooseCleanupSetting,
):
    """The settings of `evaluate`.

    Attributes:
      input_dir: folder of cases with their segmentations, of photos with their label images, or of objects as in COCO.
      output_dir: folder for metrics.json, report.html, pictures and predictions.
      fold: evaluate only the held-out cases of this fold, counted from 0. Default: all cases.
      splits_file: file of the folds. Default: the file in `model_dir`, which train wrote.
      cases: the images to evaluate. Default: all images in `input_dir`, or the images of the fold or split.
      num_pictures: number of images to draw pictures of.
    """

    input_dir: str | Path = setting(flag=True, shared=False)
    output_dir: str | Path = setting(flag=True, shared=False)
    fold: int | None = setting(default=None, least=0, flag=True)
    splits_file: str | Path | None = setting(default=None, flag=True, shared=False)
    cases: Sequence[Any] | None = setting(default=None, shared=False)
    num_pictures: int = setting(default=3, shared=False)


@settings
class SubmissionSetting(Settings):
    """The files of a challenge.

    Attributes:
      submission: whether to write test-segmentation-N.nii, the format of the LiTS challenge, for a folder of
        test-volume-N.nii[.gz].
    """

    submission: bool = setting(default=False, flag=True)


@settings
class PredictSettings(
    InferenceSettings,
    PlacementSettings,
    EvalBatchSettings,
    OutputFormatSettings,
    MapSettings,
    SpacingTableSettings,
    SubmissionSetting,
):
    """The settings of `predict`.

    Attributes:
      input: volume, as a NIfTI, NRRD or MetaImage file, OME-Zarr folder or folder of a DICOM series; photo; array of a
        custom data set (.npy), prepared as the data set does; or folder of cases, images or arrays.
      output: segmentation to write (.nii.gz, .ome.zarr, .nrrd, .mha or .dcm), or folder for the segmentations; for
        objects, the JSON file of the detections in one image, or a folder; for arrays, .npy, .npz for several outputs,
        or a folder.
      overwrite: whether to replace existing results.
      planned: the images and the files to write, as returned by `plan_prediction`. Default: derived from `input` and
        `output`.
    """

    input: str | Path = setting(flag=True, shared=False)
    output: str | Path = setting(flag=True, shared=False)
    overwrite: bool = setting(default=False, flag=True)
    planned: Any = setting(default=None, shared=False)


@settings
class ExportSettings(InferenceSettings):
    """The settings of `export`.

    Attributes:
      output: new folder for the model.
      model_format: saved_model for TensorFlow, onnx for ONNX Runtime and others, or tflite for LiteRT. The latter two
        need the extras of the same name.
      scales: must be (1.0,), because the model does not resize photos.
    """

    output: str | Path = setting(flag=True)
    model_format: str = setting(default="saved_model", choices=MODEL_FORMATS, flag="format")
    scales: Sequence[float] = setting(default=ONE_SCALE, least=1, most=1, example="(1.0,)")
