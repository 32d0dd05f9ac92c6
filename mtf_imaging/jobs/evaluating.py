"""Predicts labeled images with a trained network, and scores the predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.images.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.jobs.agreement import check_same_cases
from mtf_imaging.jobs.devices import Devices
from mtf_imaging.jobs.ensembles import check_no_fold, ensemble_runs
from mtf_imaging.kinds.all_kinds import open_subject
from mtf_imaging.kinds.inference import ONE_SCALE, Inference
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.settings import Resolution, Spacing
from mtf_imaging.layout import ONE_PROCESSOR, Layout

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


def evaluate(
    *,
    task: "Task",
    model_dir: str | Path,
    input_dir: str | Path,
    output_dir: str | Path,
    checkpoint: str = "last",
    ensemble: bool = False,
    layout: Layout = ONE_PROCESSOR,
    devices: Devices | None = None,
    resolution: Resolution | None = None,
    spacing: Spacing | None = None,
    window: Window = DEFAULT_WINDOW,
    dtype: str = "float32",
    cleanup: Cleanup = AS_FOUND,
    flips: Sequence[str] = (),
    scales: Sequence[float] = ONE_SCALE,
    fold: int | None = None,
    splits_file: str | Path | None = None,
    split: str | None = None,
    output_format: str | None = None,
    spacing_table: str | Path | SpacingTable | None = None,
    cases: Sequence[Any] | None = None,
    num_pictures: int = 3,
    progress: bool = True,
) -> list:
    """Predicts each case with the weights of a run, scores it at its original resolution, and writes a report.

    The cases are volumes, photos if the run was trained on `Photos`, or images with objects if it was trained on
    `Objects`. Settings without effect on them are refused.

    The function writes `predictions/` (for objects, `detections.json`), `pictures/`, `metrics.json`, `metrics.csv` and
    `report.html` to the output folder.

    If the program runs as several processes, every process makes the same call. All of them compute the network, and
    process 0 writes and prints the results.

    Args:
      task: the network that the run trained.
      model_dir: the folder of the run.
      input_dir: the folder of labeled cases, of labeled photos, or of objects as in COCO.
      output_dir: the folder to write to.
      checkpoint: "last", or "best" for the checkpoint with the best score on held-out cases.
      ensemble: whether `model_dir` is the output folder of `cross_validate`. The probabilities of its folds are then
        averaged on the grid of the network. More folds take more time, but no more memory of the devices. Detections
        of objects cannot be averaged.
      layout: the mesh of processors and the dimensions to split over it. A rule for `batch` is dropped.
      devices: the devices that compute; None for the devices of this process.
      resolution: voxels of the network's input along x, y and z; None for the resolution of the run.
      spacing: voxel size of the network's input in mm; None for the spacing of the run.
      window: intensity window (low, high) in HU, the same as in training, for LiTS. For other data, the intensity
        schemes of the training are used.
      dtype: the dtype of images and activations.
      cleanup: the postprocessing of the segmentation, which removes anatomically impossible components.
      flips: axes to flip at test time, such as ("x", "y"). Probabilities are averaged over all combinations of flips.
        The axes of photos are "height" and "width".
      scales: factors by which photos are enlarged, such as (0.5, 1.0, 1.5). Probabilities are averaged over all scales.
      fold: the fold whose held-out cases are evaluated; None for all cases.
      splits_file: the file of folds; None for the file in `model_dir`.
      split: the list of photos or the split of objects to evaluate, such as "val"; None for the held-out one of the
        training, or for all photos if the folder has no lists.
      output_format: the file format of segmentations of volumes, "nifti" or "ome-zarr"; None for OME-Zarr for OME-Zarr
        volumes, and NIfTI for NIfTI and DICOM.
      spacing_table: a CSV file with voxel sizes for files whose headers lack them.
      cases: the cases, as returned by `cases_to_evaluate`; None for all cases in `input_dir`, or those of the fold.
      num_pictures: number of cases to draw pictures of.
      progress: whether to show progress bars and print tables.

    Returns:
      The scores of each case; an empty list in other processes than process 0.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError, DataError, LayoutError: an argument or a folder is invalid.
    """
    check_no_fold(ensemble, fold)
    runs = ensemble_runs(model_dir, checkpoint) if ensemble else [Path(model_dir)]
    settings = Inference(
        ensemble=ensemble,
        resolution=resolution,
        spacing=spacing,
        window=window,
        cleanup=cleanup,
        flips=flips,
        scales=scales,
        fold=fold,
        splits_file=splits_file,
        split=split,
        output_format=output_format,
        spacing_table=read_spacing_table(spacing_table),
    )
    weights_folder(runs[0], checkpoint)
    subject = open_subject(runs[0], settings)
    task = task_for(task, subject.description)
    if cases is None:
        cases = subject.find_labeled(input_dir, output_dir)
    devices = devices or Devices()
    agreed: dict[str, Any] = {"model_dir": [*map(str, runs)], "checkpoint": checkpoint, "dtype": dtype}
    agreed |= {"flips": flips, "scales": scales, "resolution": resolution}
    with devices.joined(layout) as group:
        check_same_cases(group, cases, task, **agreed)
        progress = progress and group.is_first
        options: dict[str, Any] = {
            "layout": layout,
            "mesh_impl": devices.mesh_impl,
            "dtype": dtype,
            "progress": progress,
        }
        network = subject.network(task, runs, checkpoint, cases, **options)
        if not group.is_first:
            subject.run_network(cases, network)
            return []
        return subject.evaluate(cases, network, input_dir, output_dir, num_pictures, progress)
