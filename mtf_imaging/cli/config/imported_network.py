"""A network of another library as the run of a job: its file, and a file that describes its images and labels.

Imports TensorFlow.
"""

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.data.sampling.sampling import format_spacing, parse_spacing
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.run_folder import CONFIG, fold_folder
from mtf_imaging.kinds.facts import VOLUMES, Facts
from mtf_imaging.models.imported import Network
from mtf_imaging.models.unet3d import Segmentation
from mtf_imaging.networks.loading import load
from mtf_imaging.networks.nnunet import checkpoints, is_nnunet
from mtf_imaging.networks.nnunet import preprocessing as nnunet_preprocessing
from mtf_imaging.spelling import closest
from mtf_imaging.training.checkpoints.weights_folder import write_weights
from mtf_imaging.training.prediction import NetworkBuilder

_LINEAR, _NNUNET = _RESAMPLINGS = "linear", "nnunet"
_AXES = {"R": "x", "L": "x", "A": "y", "P": "y", "S": "z", "I": "z"}
_CANONICAL = "RAS"
_FIELDS = ("intensities", "spacing", "resolution", "resampling", "sliding_window", "axes", "output", "flips")
_OF_DESCRIPTIONS = (  # fields of a `dataset.json`, most of which change nothing here
    *("channel_names", "modality", "labels", "regions_class_order", "label_names", "masks", "lesions", "rules"),
    *("file_ending", "name", "description", "reference", "licence", "license", "release", "tensorImageSize", "dataset"),
    *("training", "test", "numTraining", "numTest", "overwrite_image_reader_writer"),
)
_SIDE = 64  # voxels along an axis for which the network is built to find its variables


def trained_networks(path: Path) -> list[Path]:
    """Returns the networks in a file or a folder: those of all folds of a model of nnU-Net, otherwise the path itself.

    Raises:
      DataError: there is no such file.
    """
    if not path.exists():
        raise DataError(f"--network {path}: there is no such file. Fix: give the file of a network.")
    folds = checkpoints(path)
    return folds if len(folds) > 1 else [path]


def write_runs(networks: Sequence[Path], preprocessing: Path | None) -> Path:
    """Writes the folder of a run with the weights of a network; the folder is deleted when the process ends.

    Args:
      networks: the file of the network, or the folder of a SavedModel or of a model of nnU-Net; or several networks,
        which differ only in their weights.
      preprocessing: the JSON file that describes its images and labels; see `docs/guides/networks.md`. None for a model
        of nnU-Net, which describes them itself.

    Returns:
      The folder, which has the name of the network. If there are several, it has the folders `fold_0`, `fold_1`, ...

    Raises:
      ConfigError, DataError: a file is invalid, or they do not fit.
    """
    network = networks[0]
    if preprocessing is None and not is_nnunet(network):
        raise ConfigError(
            f"--network {network}: the images of this network are not known. Fix: give --preprocessing FILE, which "
            "describes them."
        )
    fields = nnunet_preprocessing(network) if preprocessing is None else read_object(preprocessing)
    where = str(preprocessing or network)
    description = from_fields(fields, where)
    facts = _facts(fields, description, where)
    axes = "".join(_AXES[direction] for direction in facts.orientation or _CANONICAL)
    parent = Path(tempfile.mkdtemp(prefix="mtf_imaging_"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    folder = parent / network.stem
    settings = {"path": str(network.resolve()), "axes": axes, "output": fields.get("output")}
    lines = ["include 'imported_network.gin'", *(f"imported.Network.{key} = {own!r}" for key, own in settings.items())]
    lines += [f"job.flips = {fields['flips']!r}"] if "flips" in fields else []
    task = Segmentation(network=Network(**settings)).for_data(description)
    sizes = _numbers(fields, "sliding_window", where) or [_SIDE] * 3
    program = NetworkBuilder(task=task, mesh_impl="stacked").program(sizes)
    values = {name: np.asarray(variable) for name, variable in program.variables.items()}
    for number, each in enumerate(networks):
        run = fold_folder(folder, number) if len(networks) > 1 else folder
        run.mkdir(parents=True)
        facts.save(run)
        (run / CONFIG).write_text("\n".join(lines) + "\n", encoding="utf-8")
        if number:  # the variables have the initial values of the first network, and heads of training are left out
            stored = load(each).values
            values = {name: np.reshape(stored[name], value.shape) for name, value in values.items()}
        write_weights(run, values, {"title": each.name})
    return folder


def _facts(fields: Mapping[str, Any], description: Description, where: str) -> Facts:
    """Returns the facts of a network in the fields of a preprocessing file."""
    for name in fields:
        # Other fields are notes of their authors, as in nnU-Net.
        if name not in (*_FIELDS, *_OF_DESCRIPTIONS) and (known := closest(name, _FIELDS, cutoff=0.75)):
            raise DataError(f"{where}: the field {name!r} is unknown. Fix: write {known!r}, or rename your own field.")
    if "intensities" not in fields:
        raise DataError(
            f"{where}: lacks intensities, the scaling of each channel in the training of the network. Fix: add, for "
            'instance, "intensities": ["window -160 240"] or ["z-score"]; use "none" if the values are not scaled.'
        )
    window = _numbers(fields, "sliding_window", where)
    spacing = fields.get("spacing")
    orientation = fields.get("axes", _CANONICAL)
    if not isinstance(orientation, str) or sorted(_AXES.get(each, "") for each in orientation) != ["x", "y", "z"]:
        raise DataError(
            f"{where}: axes is {orientation!r}, but needs a letter for each axis of the network's input: R or L, A or "
            'P, and S or I, the side of the patient to which it increases. Fix: for instance "axes": "LPS".'
        )
    resolution, resampling = str(fields.get("resolution", "any")), fields.get("resampling", _LINEAR)
    if resampling not in _RESAMPLINGS or (resampling == _NNUNET and not resolution.startswith("any")):
        raise DataError(
            f"{where}: resampling is {resampling!r} with the resolution {resolution}. Fix: use {_LINEAR!r}, or "
            f"{_NNUNET!r} with the resolution 'any'."
        )
    return Facts(
        VOLUMES,
        resolution,
        format_spacing(parse_spacing(spacing, may_keep=True)),
        description=as_fields(description),
        patch=window and format_grid(window),
        orientation=None if orientation == _CANONICAL else orientation,
        resampling=None if resampling == _LINEAR else resampling,
    )


def _numbers(fields: Mapping[str, Any], key: str, where: str) -> list[int] | None:
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3 or not all(type(n) is int and n > 0 for n in value):
        raise DataError(f'{where}: {key} is {value!r}. Fix: give voxels along x, y and z, as in "{key}": [64, 64, 32].')
    return value
