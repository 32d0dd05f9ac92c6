"""`mtf-imaging import_weights`: reads pretrained weights from a TensorFlow checkpoint of another program."""

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.runtime.next_step import after_import_weights
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.settings.data import ImportWeightsSettings
from mtf_imaging.settings.setting import changed, settings, values_of

if TYPE_CHECKING:
    from mtf_imaging.jobs.importing import ImportedWeights

# A copy of the names in a module that imports TensorFlow, which --help does without; a test compares them.
_FORMATS = ("tpu", "tf_slim", "tf_vision")


@settings
class _Flags(ImportWeightsSettings):
    """The settings that the command has flags for."""

    file_format: str | None = changed(ImportWeightsSettings, "file_format", choices=_FORMATS)


SUMMARY = "reads the weights of a pretrained ResNet from a TensorFlow checkpoint."
EXAMPLE = "mtf-imaging import_weights --checkpoint resnet_v1_50.ckpt --output_dir resnet50"
SETTINGS = (_Flags,)
NOTES = (
    "The checkpoint is a local file; nothing is downloaded. ResNet-50, ResNet-101 and ResNet-152 of tensorflow/tpu, "
    "TF-Slim and tensorflow/models can be read. Only the backbone is imported. The command lists the variables that it "
    "leaves out, and the settings of resnet.ResNetBackbone and of the images with which the weights compute the same "
    "features.",
    "Then train with --initial_weights resnet50. The folder of a run of this package needs no import: "
    "--initial_weights run starts from its last checkpoint. docs/guides/pretrained_weights.md has examples.",
)
_SHOWN = 4
_WIDTH = 100
_BACKBONE = "resnet.ResNetBackbone"
# Jobs that the last line can suggest, with a folder for their data and the settings of their backbones. The momentum
# does not affect features.
JOBS = {
    ("deeplab_voc", "photos"): {
        "blocks": (3, 4, 23, 3),
        "base_filters": 64,
        "stem": "v1-beta",
        "padding": "fixed",
        "norm_epsilon": 1e-5,
    },
    ("mask_rcnn_1024", "coco"): {
        "blocks": (3, 4, 6, 3),
        "base_filters": 64,
        "stem": "7x7",
        "padding": "fixed",
        "norm_epsilon": 1e-4,
    },
}


def run(values: flags.FlagValues) -> str:
    import_tensorflow()
    from mtf_imaging.jobs.importing import import_weights
    from mtf_imaging.models.resnet import WEIGHT_FORMATS

    given = FlagSettings(values, _Flags)
    imported = import_weights(**values_of(ImportWeightsSettings, given, formats=WEIGHT_FORMATS))
    print(_text(values.output_dir, imported))
    (job, data_dir), params = min(
        ((key, _other_values(imported.settings, own)) for key, own in JOBS.items()), key=lambda pair: len(pair[1])
    )
    gin_params = [f"{_BACKBONE}.{name}={_gin_value(value)}" for name, value in params.items()]
    return after_import_weights(values, job, data_dir, gin_params)


def _other_values(settings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a job has with other values; those that it does not name have no effect on features."""
    return {name: value for name, value in settings.items() if own.get(name, value) != value}


def _text(output_dir: str, imported: "ImportedWeights") -> str:
    lines = [
        f"{output_dir}: {imported.title}, {imported.num_variables} variables with {imported.num_values / 1e6:.2f} "
        f"million values, from {imported.checkpoint} (format {imported.file_format})",
        "Not imported:",
        f"  optimizer slots and moving averages of weights: {len(imported.slots)}",
        f"  other variables: {_listed(imported.others)}",
        "Settings of the network that the weights do not contain:",
        *(f"  {_BACKBONE}.{name} = {_gin_value(value)}" for name, value in imported.settings.items()),
        *(line for note in imported.notes for line in textwrap.wrap(note, _WIDTH)),
    ]
    return "\n".join(lines)


def _listed(names: tuple[str, ...]) -> str:
    if not names:
        return "0"
    more = ", ..." if len(names) > _SHOWN else ""
    return f"{len(names)} ({', '.join(names[:_SHOWN])}{more})"


def _gin_value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
