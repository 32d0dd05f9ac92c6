"""Segments volumes with a trained network."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.data.nifti.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.evaluation.segment.cleanup import AS_FOUND, Cleanup
from mtf_imaging.evaluation.segment.predict import plan_predictions, predict_cases
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.jobs.devices import Devices
from mtf_imaging.jobs.network import trained_network
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
    """Segments a volume, or the volumes of a folder, each in its own geometry.

    Args:
      task: the network that the run trained.
      model_dir: the folder of the run.
      input: a NIfTI file, or a folder of cases.
      output: the segmentation to write, or a folder for them.
      checkpoint: "last", or "best" for the best on held-out cases.
      layout: the mesh of processors, and what is split over it; a rule for `batch` is dropped.
      devices: where the processors are; None for this process.
      resolution: voxels that the network works on; None for those of the run.
      spacing: the voxel size in mm that the network works on; None for that of the run.
      window: (low, high) in HU, as in training.
      dtype: of images and activations.
      cleanup: what is removed of what the network finds.
      flips: axes, as ("x", "y"), over all combinations of whose flips probabilities are averaged.
      submission: whether to name and store the files as the LiTS challenge takes them.
      overwrite: whether to replace existing segmentations.
      spacing_table: a CSV file of voxel sizes for files whose headers lack them.
      planned: pairs (case, file to write), as `plan_predictions` returned them; None to plan here.
      progress: whether to show progress bars.

    Returns:
      The files that were written.

    Raises:
      CheckpointError: the run has no such checkpoint, or one of another network.
      ConfigError, DataError, LayoutError: an argument or a file that cannot be used.
    """
    known = read_spacing_table(spacing_table)
    weights_folder(model_dir, checkpoint)
    if planned is None:
        planned = plan_predictions(input, output, overwrite, submission, known)
    sampling = sampling_of_run(model_dir, resolution, spacing)
    devices = devices or Devices()
    with devices.joined(layout):
        options: dict[str, Any] = {
            "layout": layout,
            "mesh_impl": devices.mesh_impl,
            "dtype": dtype,
            "progress": progress,
        }
        network = trained_network(task, sampling.grid, model_dir, checkpoint, flips, **options)
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
        )
