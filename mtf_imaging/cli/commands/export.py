"""`mtf-imaging export`: writes a trained network as a model that runs without this package."""

import shlex
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.files.literal import check_literal
from mtf_imaging.files.new_folder import check_new_folder
from mtf_imaging.settings.inference import ExportSettings

SUMMARY = "writes a trained network as a SavedModel, or as ONNX or TFLite files."
EXAMPLE = "mtf-imaging export --model_dir run --output model"
SETTINGS = (ExportSettings,)
WITHOUT = ("micro_batches", "xla", "network")
_UNSPLIT = "an exported network is not split."
IDLE = {
    "mesh_shape": _UNSPLIT,
    "layout": _UNSPLIT,
    "mesh_impl": _UNSPLIT,
    "input_partition_dims": _UNSPLIT,
    "communication": "export runs as one process.",
    "batch_size": "an exported network computes one image at a time.",
}
NOTES = (
    "The model contains the network, its weights, the intensity schemes and, in the signature volume, the resampling. "
    "The command prints the inputs and outputs of each signature; input.json and README.md in the folder of the model "
    "repeat them. An existing folder is never replaced.",
    "To average the folds of a cross-validation: mtf-imaging export --model_dir folds --ensemble --output model. For "
    "photos of other sizes: mtf-imaging export --model_dir run --resolution height:1024,width:2048 --output model. "
    "docs/guides/export.md has examples.",
    "For other runtimes: mtf-imaging export --model_dir run --format onnx --output model. The formats onnx and tflite "
    "have one file for each signature, and need the extras of the same name.",
)


def run(values: flags.FlagValues) -> str:
    check_new_folder(values.output)  # reports errors before TensorFlow is imported
    check_literal(values.output)
    _, configuration = setup_flags.saved_run(values)
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_settings
    from mtf_imaging.jobs.exporting import export

    card = export(**bound_settings(ExportSettings, configuration.bind(), values))
    print(card.as_text())
    return f"read {shlex.quote(str(Path(values.output) / 'README.md'))}"
