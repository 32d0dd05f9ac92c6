"""`mtf-imaging import_weights`: reads pretrained weights from a file written by another program."""

import shlex
import textwrap
from typing import TYPE_CHECKING

from absl import flags

from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.plain_text import some
from mtf_imaging.settings.data import ImportWeightsSettings
from mtf_imaging.settings.setting import changed, settings, values_of

if TYPE_CHECKING:
    from mtf_imaging.jobs.importing import ImportedWeights

# Copies of names from a module that imports TensorFlow, so that --help does not import it; a test compares them.
_FORMATS = ("tf_vision_retinanet", "tf_vision_mask_rcnn", "tpu", "tf_slim", "tf_vision", "torchvision", "keras")


@settings
class _Flags(ImportWeightsSettings):
    """The settings with flags in this command."""

    file_format: str | None = changed(ImportWeightsSettings, "file_format", choices=_FORMATS)


SUMMARY = "reads the weights of a ResNet or detector from a file of another program."
EXAMPLE = "mtf-imaging import_weights --checkpoint resnet_v1_50.ckpt --output_dir resnet50"
SETTINGS = (_Flags,)
NOTES = (
    "The checkpoint is a local file; nothing is downloaded. ResNet-50, ResNet-101 and ResNet-152 of tensorflow/tpu, "
    "TF-Slim, tensorflow/models, torchvision and Keras applications can be read, and ResNet-18 and ResNet-34 of "
    "torchvision. RetinaNet and Mask R-CNN of tensorflow/models are imported with their heads, unless "
    "--format tf_vision selects the backbone. Of other networks, only the backbone is imported. The command lists the "
    "variables that it leaves out, and the settings of the network and of the images with which the weights compute "
    "the same features.",
    "Files of torch.save, .safetensors, .keras and .h5 files are read without PyTorch.",
    "Then train with --initial_weights resnet50. The folder of a run of this package needs no import: "
    "--initial_weights run starts from its last checkpoint. docs/guides/pretrained_weights.md has examples.",
)
_SHOWN = 4
_WIDTH = 100
_BACKBONE = "resnet.ResNetBackbone"


def run(values: flags.FlagValues) -> str:
    import_tensorflow()
    from mtf_imaging.jobs.importing import import_weights
    from mtf_imaging.models.detection.weights import WEIGHT_FORMATS as DETECTORS
    from mtf_imaging.models.resnet import WEIGHT_FORMATS

    given = FlagSettings(values, _Flags)
    imported = import_weights(**values_of(ImportWeightsSettings, given, formats=(*DETECTORS, *WEIGHT_FORMATS)))
    print(_text(values.output_dir, imported))
    weights = shlex.quote(values.output_dir)
    return (
        f"mtf-imaging train --data_dir DATA --model_dir run --initial_weights {weights} --gin_file JOB (with the "
        "settings above)"
    )


def _text(output_dir: str, imported: "ImportedWeights") -> str:
    lines = [
        f"{output_dir}: {imported.title}, {imported.num_variables} variables with {imported.num_values / 1e6:.2f} "
        f"million values, from {imported.checkpoint} (format {imported.file_format})",
        "Not imported:",
        f"  optimizer slots and moving averages of weights: {len(imported.slots)}",
        f"  other variables: {_listed(imported.others)}",
        "Settings of the network that the weights do not contain:",
        *(f"  {_BACKBONE}.{name} = {_gin_value(value)}" for name, value in imported.settings.items()),
        *(f"  {name} = {_gin_value(value)}" for name, value in imported.network_settings.items()),
        *(line for note in imported.notes for line in textwrap.wrap(note, _WIDTH)),
    ]
    return "\n".join(lines)


def _listed(names: tuple[str, ...]) -> str:
    return f"{len(names)} ({some(names, _SHOWN)})" if names else "0"


def _gin_value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
