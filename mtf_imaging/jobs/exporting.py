"""Exports a trained network to a format that other programs run without this package."""

from typing import TYPE_CHECKING

from mtf_imaging.evaluation.export.formats import FORMATS
from mtf_imaging.files.literal import check_literal
from mtf_imaging.files.new_folder import check_new_folder
from mtf_imaging.files.provenance.runs import trained_run
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.jobs.runs.ensembles import trained_runs
from mtf_imaging.jobs.runs.inference import provenance
from mtf_imaging.kinds.all_kinds import check_settings, kind_of_facts, read_facts
from mtf_imaging.kinds.export import ExportedRun
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.settings.inference import ExportSettings
from mtf_imaging.settings.setting import settings_of, takes

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.card import ModelCard

_IN_CARD = [one.name for one in settings_of(Inference) if one.name != "flips"]  # other fields of the card state these


@takes(ExportSettings)
def export(own: ExportSettings) -> "ModelCard":
    """Writes a trained network and its preprocessing as a model, which other programs run without this package.

    The model is a TensorFlow SavedModel, or one ONNX or TFLite file per signature. If the converter does not accept a
    signature, it is left out with a warning; the default signature must be accepted.

    The model returns the same results as `predict` on one processor, except that its signatures do not apply the rules
    of `cleanup`. Its folder also contains `input.json` and `README.md`, which state the inputs, the outputs and these
    rules. A SavedModel for volumes also has `segment.py`, a program that segments NIfTI files without this package and
    applies the rules. With `ensemble`, the model contains the networks of all folds. For photos and objects, each of
    several sizes in `resolution`, separated by "|", becomes a signature.

    Returns:
      The card of the model: its signatures, and the requirements for their inputs.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError: the checkpoint is damaged, a setting is invalid or not supported in a model, TensorFlow cannot load a
          model from the output path, the format needs a package that is not installed, or its converter does not accept
          the network.
      DataError: the output exists, or the facts of the run are damaged.
    """
    check_new_folder(own.output)
    check_literal(own.output)
    check_no_run(own.output)
    model_format = FORMATS[own.model_format]
    model_format.check(own.dtype)
    runs = trained_runs(own)
    facts = read_facts(runs[0])
    kind = kind_of_facts(facts)
    check_settings(Inference.of(own), kind)
    run = ExportedRun(own, tuple(runs), tuple(own.flips))

    from mtf_imaging.evaluation.export.card import ModelCard  # these import TensorFlow
    from mtf_imaging.evaluation.export.converting import convert_signatures, portable_unless_saved
    from mtf_imaging.evaluation.export.saving import save_model

    with portable_unless_saved(model_format):
        networks, model = kind.export(run, facts)
        signatures, files, notes = tuple(model.signatures()), model.files(), [*model.notes()]
    restored = tuple(trained_run(one, own.checkpoint, path) for one, path in zip(runs, networks.paths, strict=True))
    if model_format.ending:
        converted = convert_signatures(signatures, model_format, own.progress)
        signatures, files = converted.signatures, files | converted.files
        notes += [f"There is no signature '{name}': {reason}." for name, reason in converted.refused.items()]
    card = ModelCard(
        kind=kind.name,
        source=str(own.model_dir),
        provenance=provenance(own, restored, idle=_IN_CARD),
        checkpoint=own.checkpoint,
        dtype=own.dtype,
        flips=run.flips,
        facts=model.facts(),
        notes=tuple(notes),
        signatures=signatures,
        model_format=model_format,
    )
    return save_model(own.output, None if model_format.ending else networks, card, files, own.progress)
