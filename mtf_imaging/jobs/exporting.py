"""Exports a trained network as a SavedModel, which TensorFlow runs without this package."""

from typing import TYPE_CHECKING

import mtf_imaging
from mtf_imaging.evaluation.cleanup import AS_FOUND
from mtf_imaging.files.literal import check_literal
from mtf_imaging.files.new_folder import check_new_folder
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.jobs.ensembles import trained_runs
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.settings.inference import ExportSettings
from mtf_imaging.settings.setting import check_choice, takes
from mtf_imaging.settings.values import DTYPES

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.card import ModelCard
from mtf_imaging.kinds.all_kinds import kind_of_facts
from mtf_imaging.kinds.export import ExportedRun

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.card import ModelCard

_CLEANUP = "The postprocessing of predict (largest_liver, lesions_in_liver) is not part of the model."


@takes(ExportSettings)
def export(own: ExportSettings) -> "ModelCard":
    """Writes a trained network and its preprocessing as a SavedModel, which TensorFlow runs without this package.

    The model computes what `predict` computes on one processor. Its folder also contains `input.json` and `README.md`,
    which state the inputs and outputs, and for volumes `segment.py`, a program that segments NIfTI files without this
    package. With `ensemble`, the model contains the networks of all folds. For photos and objects, several sizes
    separated by "|" in `resolution` give a signature each. The model does not contain the postprocessing of `cleanup`;
    its card then says so.

    Returns:
      The card of the model: its signatures, and what their inputs must be.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError: a setting is invalid, the model cannot contain it, or TensorFlow cannot load a model from the output.
      DataError: the output exists, or the facts of the run are damaged.
    """
    check_new_folder(own.output)
    check_literal(own.output)
    check_no_run(own.output)
    check_choice("dtype", own.dtype, DTYPES)
    runs = trained_runs(own)
    facts = read_facts(runs[0])
    kind = kind_of_facts(facts)
    run = ExportedRun(own, tuple(runs), tuple(own.flips))
    networks, model = kind.export(run, facts)

    from mtf_imaging.evaluation.export.card import ModelCard  # these import TensorFlow
    from mtf_imaging.evaluation.export.saving import save_model

    card = ModelCard(
        kind=kind.name,
        source=str(own.model_dir),
        runs=tuple((run.name, step) for run, step in zip(runs, networks.steps, strict=True)),
        checkpoint=own.checkpoint,
        dtype=own.dtype,
        flips=run.flips,
        facts=model.facts(),
        notes=(*model.notes(), *([_CLEANUP] if own.cleanup and own.cleanup != AS_FOUND else [])),
        signatures=tuple(model.signatures()),
        version=mtf_imaging.__version__,
    )
    save_model(own.output, networks, card, model.files(), own.progress)
    return card
