"""`mtf-imaging import_weights`: reads pretrained weights from a file written by another program."""

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
_COMMON: dict[str, Any] = {"bottleneck": True, "padding": "fixed", "pool_padding": "same", "strided_conv": "3x3"}
# Jobs that the last line can suggest, with a folder for their data and the settings of their backbones. The momentum
# does not affect features.
JOBS: dict[tuple[str, str], dict[str, Any]] = {
    ("deeplab_voc", "photos"): {
        "blocks": (3, 4, 23, 3),
        "base_filters": 64,
        "stem": "v1-beta",
        **_COMMON,
        "norm_epsilon": 1e-5,
    },
    ("mask_rcnn_1024", "coco"): {
        "blocks": (3, 4, 6, 3),
        "base_filters": 64,
        "stem": "7x7",
        **_COMMON,
        "norm_epsilon": 1e-4,
    },
}
JOBS["retinanet_1280", "coco"] = JOBS["mask_rcnn_1024", "coco"]
# The jobs of detectors, with the settings of their networks. The task chooses the number of classes.
NETWORKS: dict[str, tuple[tuple[str, str], dict[str, Any]]] = {
    "detection.RetinaNet": (
        ("retinanet_1280", "coco"),
        {"filters": 256, "head_convs": 4, "min_level": 3, "max_level": 7, "norm_epsilon": 1e-4},
    ),
    "detection.MaskRCNN": (
        ("mask_rcnn_1024", "coco"),
        {
            "filters": 256,
            "min_level": 2,
            "max_level": 6,
            "norm": False,
            "norm_epsilon": 1e-4,
            "rpn_filters": 256,
            "box_size": 7,
            "box_convs": 0,
            "box_filters": 256,
            "box_dense": 2,
            "box_units": 1024,
            "mask_filters": 256,
            "mask_convs": 4,
        },
    ),
}


def run(values: flags.FlagValues) -> str:
    import_tensorflow()
    from mtf_imaging.jobs.importing import import_weights
    from mtf_imaging.models.detection.weights import WEIGHT_FORMATS as DETECTORS
    from mtf_imaging.models.resnet import WEIGHT_FORMATS

    given = FlagSettings(values, _Flags)
    imported = import_weights(**values_of(ImportWeightsSettings, given, formats=(*DETECTORS, *WEIGHT_FORMATS)))
    print(_text(values.output_dir, imported))
    (job, data_dir), params = _job(imported)
    return after_import_weights(
        values, job, data_dir, [f"{name}={_gin_value(value)}" for name, value in params.items()]
    )


def _job(imported: "ImportedWeights") -> tuple[tuple[str, str], dict[str, Any]]:
    """Returns a job with a matching network, a folder for its data, and the gin parameters that differ."""
    network = next(iter(imported.network_settings), "").rpartition(".")[0]
    jobs, others = JOBS, dict[str, Any]()
    if network:
        job, own = NETWORKS[network]
        values = {name.rpartition(".")[2]: value for name, value in imported.network_settings.items()}
        jobs, others = {job: JOBS[job]}, _other_values({name: values[name] for name in values if name in own}, own)
    key, params = min(
        ((key, _other_values(imported.settings, own)) for key, own in jobs.items()), key=lambda pair: len(pair[1])
    )
    params = {f"{_BACKBONE}.{name}": value for name, value in params.items()}
    return key, params | {f"{network}.{name}": value for name, value in others.items()}


def _other_values(settings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with other values in a job; settings that the job does not name do not affect features."""
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
        *(f"  {name} = {_gin_value(value)}" for name, value in imported.network_settings.items()),
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
