"""Segments volumes with a trained network."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.data.nifti.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.evaluation.segment.cleanup import AS_FOUND, Cleanup
from mtf_imaging.evaluation.segment.predict import plan_predictions, predict_cases, run_network
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.jobs.agreement import check_same_cases
from mtf_imaging.jobs.devices import Devices
from mtf_imaging.jobs.ensembles import ensemble_runs
from mtf_imaging.jobs.network import task_for, trained_network
from mtf_imaging.jobs.run import description_of_run
from mtf_imaging.jobs.settings import Resolution, Spacing, sampling_of_run
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
    submission: bool = False,
    overwrite: bool = False,
    spacing_table: str | Path | SpacingTable | None = None,
    planned: list[tuple[Case, Path]] | None = None,
    progress: bool = True,
) -> list[Path]:
    """Segments one volume or all volumes of a folder, each in its original geometry.

    If the program runs as several processes, every process makes the same call. All of them compute the network, and
    process 0 writes the files.

    Args:
      task: the network that the run trained.
      model_dir: the folder of the run.
      input: a NIfTI file, or a folder of cases.
      output: the segmentation to write, or the folder for the segmentations.
      checkpoint: "last", or "best" for the checkpoint with the best score on held-out cases.
      ensemble: whether `model_dir` is the output folder of `cross_validate`. The probabilities of its folds are then
        averaged on the grid of the network. More folds take more time, but no more memory of the devices.
      layout: the mesh of processors and the dimensions to split over it. A rule for `batch` is dropped.
      devices: the devices that compute; None for the devices of this process.
      resolution: voxels of the network's input along x, y and z; None for the resolution of the run.
      spacing: voxel size of the network's input in mm; None for the spacing of the run.
      window: intensity window (low, high) in HU, the same as in training, for LiTS. For other data, the intensity
        schemes of the training are used.
      dtype: the dtype of images and activations.
      cleanup: the postprocessing of the segmentation, which removes anatomically impossible components.
      flips: axes to flip at test time, such as ("x", "y"). Probabilities are averaged over all combinations of flips.
      submission: whether to use the file names and the storage format of the LiTS challenge.
      overwrite: whether to replace existing segmentations.
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
    known = read_spacing_table(spacing_table)
    runs = ensemble_runs(model_dir, checkpoint) if ensemble else [Path(model_dir)]
    weights_folder(runs[0], checkpoint)
    description = description_of_run(runs[0])
    task = task_for(task, description)
    if planned is None:
        planned = plan_predictions(input, output, overwrite, submission, known, description)
    sampling = sampling_of_run(runs[0], resolution, spacing)
    devices = devices or Devices()
    agreed = {"model_dir": [*map(str, runs)], "checkpoint": checkpoint, "dtype": dtype, "flips": flips}
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
        network = trained_network(task, sampling.grids, runs, checkpoint, flips, **options)
        if not group.is_first:
            run_network(cases, sampling, network, window, known, description)
            return [path for _, path in planned]
        return predict_cases(
            input,
            output,
            sampling,
            network,
            window,
            progress=progress,
            overwrite=overwrite,
            cleanup=cleanup,
            submission=submission,
            known=known,
            planned=planned,
            description=description,
        )
