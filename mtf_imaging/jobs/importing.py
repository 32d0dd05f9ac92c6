"""Imports the weights of a TensorFlow checkpoint from another program, by a table of names."""

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import CheckpointError, ConfigError, reason
from mtf_imaging.files import lock
from mtf_imaging.files.literal import literal_prefix
from mtf_imaging.files.partial import is_partial
from mtf_imaging.settings.data import ImportWeightsSettings
from mtf_imaging.settings.setting import check_choice, takes
from mtf_imaging.training.checkpoints.weight_formats import NameTable
from mtf_imaging.training.checkpoints.weights_folder import FACTS, write_weights

_SHOWN = 3
_ENDINGS = (".index", ".meta")
_SLOTS = "/.OPTIMIZER_SLOT/"
_OWN = re.compile(rf"{re.escape(lock.NAME)}|{re.escape(FACTS)}|checkpoint|ckpt-0[._].*")  # files that this job writes
_OBJECT = "/.ATTRIBUTES/VARIABLE_VALUE"


@dataclasses.dataclass(frozen=True)
class ImportedWeights:
    """Weights that `import_weights` wrote.

    Attributes:
      title: the name of the network.
      file_format: the name of the format.
      checkpoint: the path of the checkpoint.
      num_variables: number of variables.
      num_values: number of values in all variables.
      settings: the settings of a network that computes the same features, {name: value}.
      notes: what else must agree, in sentences.
      slots: variables of the checkpoint that belong to an optimizer or are moving averages of weights. Like `others`,
        they are not imported.
      others: all other variables of the checkpoint, such as those of a classifier.
    """

    title: str
    file_format: str
    checkpoint: str
    num_variables: int
    num_values: int
    settings: dict[str, Any]
    notes: tuple[str, ...]
    slots: tuple[str, ...]
    others: tuple[str, ...]


@takes(ImportWeightsSettings)
def import_weights(own: ImportWeightsSettings) -> ImportedWeights:
    """Reads the weights of a network from a TensorFlow checkpoint, and writes them for training to start from.

    The folder can be used as `initial_weights` of `train`. It has the format of a checkpoint of this package, and the
    result does not depend on a layout. Weights that the folder contains already are replaced.

    Raises:
      CheckpointError: the checkpoint is missing or damaged, or has other names or shapes than the format.
      ConfigError: the format is unknown, or the folder contains other files.
    """
    if own.file_format is not None:
        check_choice("file_format", own.file_format, [one.name for one in own.formats])
    path = _find_checkpoint(own.checkpoint)
    shapes = _shapes(path)
    named = [one for one in own.formats if own.file_format in (None, one.name)]
    chosen = next((one for one in named if own.file_format or one.matches(shapes)), None)
    if chosen is None or not chosen.matches(shapes):
        titles = "; ".join(one.title for one in own.formats)
        what = f"this format: {chosen.title}" if chosen else f"a known format: {titles}"
        raise CheckpointError(
            f"{path}: this checkpoint has the variables {_examples(shapes)}, which are not names of "
            f"{what}. Fix: use a checkpoint of one of these programs.",
            settings=["checkpoint", "file_format"],
        )
    try:
        table = chosen.table(shapes)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}", settings=["checkpoint"]) from None
    _check_table(path, table, shapes)
    with _folder_of_weights(Path(own.output_dir)):
        values = _read(path, table.names)
        facts: dict[str, Any] = {"title": table.title, "format": chosen.name, "checkpoint": str(own.checkpoint)}
        facts |= {"settings": dict(table.settings), "notes": list(table.notes)}
        write_weights(own.output_dir, values, facts)
    slots, others = _unused(shapes, set(table.names.values()))
    return ImportedWeights(
        title=table.title,
        file_format=chosen.name,
        checkpoint=path,
        num_variables=len(values),
        num_values=sum(value.size for value in values.values()),
        settings=dict(table.settings),
        notes=tuple(table.notes),
        slots=slots,
        others=others,
    )


def _find_checkpoint(checkpoint: str | Path) -> str:
    """Returns the path that TensorFlow's reader takes."""
    path = Path(checkpoint)
    if path.is_dir():
        with literal_prefix(path / "any") as prefix:
            folder = os.path.dirname(prefix)
            last = tf.train.latest_checkpoint(folder)
        if last:
            return f"{path}{last.removeprefix(folder)}" if last.startswith(folder) else str(last)
        indexes = sorted(path.glob("*.index"))
        if len(indexes) == 1:
            return str(indexes[0].with_suffix(""))
        found = f"{len(indexes)} checkpoints" if indexes else "no checkpoint"
        raise CheckpointError(
            f"{path}: this folder holds {found}. Fix: give the path of a checkpoint, such as "
            f"{indexes[-1].with_suffix('') if indexes else path / 'model.ckpt-112603'}.",
            settings=["checkpoint"],
        )
    name = str(checkpoint)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    name = name.partition(".data-")[0]
    # TensorFlow's first format of checkpoints is a single file.
    if Path(f"{name}.index").is_file() or Path(name).is_file():
        return name
    raise CheckpointError(
        f"{checkpoint}: there is no such checkpoint: neither {name}.index nor {name} is a file. "
        "Fix: give the path of a TensorFlow checkpoint without the endings .index and .data-00000-of-00001.",
        settings=["checkpoint"],
    )


def _shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the variables of a checkpoint."""
    try:
        with literal_prefix(path) as prefix:
            shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    except (tf.errors.OpError, RuntimeError, IndexError, ValueError) as error:
        raise CheckpointError(
            f"{path}: this file is not a TensorFlow checkpoint, or is damaged: {reason(error)}. "
            "Fix: download or copy all of its files again.",
            settings=["checkpoint"],
        ) from error
    return {name: tuple(shape) for name, shape in sorted(shapes.items())}


def _check_table(path: str, table: NameTable, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Checks that the checkpoint has all variables of a table, with their shapes."""
    faults = []
    for name, own in table.names.items():
        wanted = table.shapes[name]
        if own not in shapes:
            faults.append(f"'{own}' is missing, which is '{name}' {list(wanted)}")
        elif shapes[own] != wanted:
            faults.append(f"'{own}' has shape {list(shapes[own])}, but '{name}' has {list(wanted)}")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise CheckpointError(
            f"{path}: by its blocks, this checkpoint is {table.title}, but {'; '.join(faults[:_SHOWN])}{more}. "
            "Fix: use a complete checkpoint of a network without changes.",
            settings=["checkpoint"],
        )


def _read(path: str, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Returns the values of variables by their names in this package; `names` has those in the checkpoint."""
    with literal_prefix(path) as prefix:
        reader = tf.train.load_checkpoint(prefix)
        return {name: _read_variable(reader, path, own) for name, own in names.items()}


def _read_variable(reader: Any, path: str, name: str) -> np.ndarray:
    try:
        value = np.asarray(reader.get_tensor(name))
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise CheckpointError(
            f"{path}: '{name}' cannot be read: {reason(error)}. Fix: download or copy all of its files again.",
            settings=["checkpoint"],
        ) from error
    if not np.isfinite(value.astype(np.float64)).all():
        raise CheckpointError(
            f"{path}: '{name}' is not finite. Fix: use an earlier checkpoint of the same training.",
            settings=["checkpoint"],
        )
    return value.astype(np.float32)


def _unused(shapes: Mapping[str, Any], used: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of the slots of optimizers, and of the other variables that are not used."""
    rest = [name for name in shapes if name not in used]
    variables = {name.removesuffix(_OBJECT) for name in shapes}
    slots = tuple(name for name in rest if _SLOTS in name or name.rpartition("/")[0] in variables)
    return slots, tuple(name for name in rest if name not in slots)


@contextlib.contextmanager
def _folder_of_weights(folder: Path) -> Iterator[None]:
    """Locks the output folder, which must be missing, be empty, or hold imported weights."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file, not a folder. Fix: give a new folder as output_dir.", ["output_dir"])
    others = sorted(p.name for p in folder.glob("*") if not is_partial(p) and not _OWN.fullmatch(p.name))
    if others:
        raise ConfigError(
            f"{folder}: contains {others[0]}, so it is not a folder of imported weights. "
            "Fix: give a new or empty folder as output_dir.",
            ["output_dir"],
        )
    with lock.held(folder):
        yield


def _examples(names: Mapping[str, Any]) -> str:
    more = ", ..." if len(names) > _SHOWN else ""
    return f"{', '.join(repr(name) for name in [*names][:_SHOWN])}{more}"
