"""Predicts images with a trained network."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.images.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.jobs.agreement import check_same_cases
from mtf_imaging.jobs.devices import Devices
from mtf_imaging.jobs.ensembles import ensemble_runs
from mtf_imaging.kinds.all_kinds import open_subject
from mtf_imaging.kinds.inference import ONE_SCALE, Inference
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.settings import Resolution, Spacing
from mtf_imaging.layout import ONE_PROCESSOR, Layout

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


def predict(
    *,
    task: "Task",
    model_dir: str | Path,
    input: str | Path,
    output: str | Path,
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
    submission: bool = False,
    output_format: str | None = None,
    overwrite: bool = False,
    spacing_table: str | Path | SpacingTable | None = None,
    planned: list[tuple[Any, Path]] | None = None,
    progress: bool = True,
) -> list[Path]:
    """Segments one image or all images of a folder, or detects their objects, each in its original geometry.

    The images are volumes, photos if the run was trained on `Photos`, or images with objects if it was trained on
    `Objects`. Settings without effect on them are refused.

    If the program runs as several processes, every process makes the same call. All of them compute the network, and
    process 0 writes the files.

    Args:
      task: the network that the run trained.
      model_dir: the folder of the run.
      input: a NIfTI file, an OME-Zarr folder, a folder with the DICOM files of a series, or a folder of cases; for
        photos and objects, an image file, or a folder of images; for a custom data set, a `.npy` file with an image as
        the data set prepares it, or a folder of such files.
      output: the segmentation to write, or the folder for the segmentations. For objects, the JSON file of the
        detections in one image, or a folder. For arrays, a `.npy` file, or a `.npz` file if there are several outputs.
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
      submission: whether to use the file names and the storage format of the LiTS challenge.
      output_format: the file format of segmentations of volumes, "nifti" or "ome-zarr"; None for the ending of `output`
        or, in a folder, OME-Zarr for OME-Zarr volumes and NIfTI for NIfTI and DICOM.
      overwrite: whether to replace existing results.
      spacing_table: a CSV file with voxel sizes for files whose headers lack them.
      planned: pairs (case, file to write), as returned by `plan_predictions`; None to derive them from `input` and
        `output`.
      progress: whether to show progress bars.

    Returns:
      The paths of the written files.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError, DataError, LayoutError: an argument or a file is invalid.
    """
    runs = ensemble_runs(model_dir, checkpoint) if ensemble else [Path(model_dir)]
    settings = Inference(
        ensemble=ensemble,
        resolution=resolution,
        spacing=spacing,
        window=window,
        cleanup=cleanup,
        flips=flips,
        scales=scales,
        submission=submission,
        output_format=output_format,
        spacing_table=read_spacing_table(spacing_table),
    )
    weights_folder(runs[0], checkpoint)
    subject = open_subject(runs[0], settings)
    task = task_for(task, subject.description)
    if planned is None:
        planned = subject.plan_predictions(input, output, overwrite)
    devices = devices or Devices()
    agreed: dict[str, Any] = {"model_dir": [*map(str, runs)], "checkpoint": checkpoint, "dtype": dtype}
    agreed |= {"flips": flips, "scales": scales, "resolution": resolution}
    with devices.joined(layout) as group:
        cases = [case for case, _ in planned]
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
            return [*dict.fromkeys(path for _, path in planned)]
        return subject.predict(planned, network, Path(input), Path(output), progress)
