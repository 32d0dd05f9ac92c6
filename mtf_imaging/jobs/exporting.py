"""Exports a trained network as a SavedModel, which TensorFlow runs without this package."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import mtf_imaging
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.files.new_folder import check_new_folder
from mtf_imaging.files.run_folder import check_no_run, weights_folder
from mtf_imaging.jobs.ensembles import ensemble_runs
from mtf_imaging.kinds.all_kinds import kind_of_facts
from mtf_imaging.kinds.export import ExportSettings
from mtf_imaging.kinds.facts import read_facts
from mtf_imaging.kinds.inference import ONE_SCALE
from mtf_imaging.kinds.settings import DTYPES, Resolution, Spacing, check_choice

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.card import ModelCard
    from mtf_imaging.training.task import Task

_CLEANUP = "The postprocessing of predict (largest_liver, lesions_in_liver) is not part of the model."


def export(
    *,
    task: "Task",
    model_dir: str | Path,
    output: str | Path,
    checkpoint: str = "last",
    ensemble: bool = False,
    resolution: Resolution | None = None,
    spacing: Spacing | None = None,
    window: Window = DEFAULT_WINDOW,
    dtype: str = "float32",
    cleanup: Cleanup = AS_FOUND,
    flips: Sequence[str] = (),
    scales: Sequence[float] = ONE_SCALE,
    progress: bool = True,
) -> "ModelCard":
    """Writes a trained network and its preprocessing as a SavedModel, which TensorFlow runs without this package.

    The model computes what `predict` computes on one processor. Its folder also contains `input.json` and `README.md`,
    which state the inputs and outputs.

    Args:
      task: the network that the run trained.
      model_dir: the folder of the run.
      output: the folder to write, which must be new or empty.
      checkpoint: "last", or "best" for the checkpoint with the best score on held-out cases.
      ensemble: whether `model_dir` is the output folder of `cross_validate`. The model then contains the networks of
        all folds, and averages their probabilities.
      resolution: the size of the network's input; None for that of the run. For photos and objects, several sizes
        separated by "|" give a signature each.
      spacing: voxel size of the network's input in mm; None for the spacing of the run.
      window: intensity window (low, high) in HU, the same as in training, for LiTS.
      dtype: the dtype of activations.
      cleanup: the postprocessing of `predict`, which the model does not contain; its card then says so.
      flips: axes to flip. Probabilities are averaged over all combinations of flips.
      scales: must be (1.0,), because the model does not resize photos.
      progress: whether to show progress on stderr.

    Returns:
      The card of the model: its signatures, and what their inputs must be.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError: a setting is invalid, or the model cannot contain it.
      DataError: the output exists, or the facts of the run are damaged.
    """
    check_new_folder(output)
    check_no_run(output)
    check_choice("dtype", dtype, DTYPES)
    runs = ensemble_runs(model_dir, checkpoint) if ensemble else [Path(model_dir)]
    weights_folder(runs[0], checkpoint)
    facts = read_facts(runs[0])
    kind = kind_of_facts(facts)
    averaged = tuple(flips), tuple(scales)
    own = ExportSettings(task, tuple(runs), checkpoint, dtype, resolution, spacing, window, *averaged, progress)
    networks, model = kind.export(own, facts)

    from mtf_imaging.evaluation.export.card import ModelCard  # these import TensorFlow
    from mtf_imaging.evaluation.export.saving import save_model

    card = ModelCard(
        kind=kind.name,
        source=str(model_dir),
        runs=tuple((run.name, step) for run, step in zip(runs, networks.steps, strict=True)),
        checkpoint=checkpoint,
        dtype=dtype,
        flips=own.flips,
        facts=model.facts(),
        notes=(*model.notes(), *([] if cleanup == AS_FOUND else [_CLEANUP])),
        signatures=tuple(model.signatures()),
        version=mtf_imaging.__version__,
    )
    save_model(output, networks, card, progress)
    return card
