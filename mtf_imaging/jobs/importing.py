"""Imports the weights of another program, using a table of its variable names."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.errors import CheckpointError
from mtf_imaging.plain_text import some
from mtf_imaging.settings.data import ImportWeightsSettings
from mtf_imaging.settings.setting import check_choice, takes
from mtf_imaging.training.checkpoints.name_tables import Conversion, NameTable
from mtf_imaging.training.checkpoints.weight_files.all_files import WeightFile, open_weights
from mtf_imaging.training.checkpoints.weights_folder import write_weights, writing_folder

_SHOWN = 3
_SLOTS = "/.OPTIMIZER_SLOT/"
_OBJECT = "/.ATTRIBUTES/VARIABLE_VALUE"


@dataclasses.dataclass(frozen=True)
class ImportedWeights:
    """Weights that `import_weights` wrote.

    Attributes:
      title: the network name.
      file_format: the format name.
      checkpoint: the path of the checkpoint.
      num_variables: number of variables.
      num_values: number of values in all variables.
      settings: the settings with which a backbone computes the same features, {name: value}.
      network_settings: the settings of a network around the backbone, {"detection.RetinaNet.classes": value}.
      notes: other conditions, as sentences.
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
    network_settings: dict[str, Any]
    notes: tuple[str, ...]
    slots: tuple[str, ...]
    others: tuple[str, ...]


@takes(ImportWeightsSettings)
def import_weights(own: ImportWeightsSettings) -> ImportedWeights:
    """Reads network weights from another program's file, and writes them as initial weights for training.

    The folder can be used as `initial_weights` of `train`. It has this package's checkpoint format, and the
    result does not depend on a layout. Weights that the folder contains already are replaced.

    Raises:
      CheckpointError: the checkpoint is missing or damaged, or has other names or shapes than the format.
      ConfigError: the format is unknown, or the folder contains other files.
    """
    if own.file_format is not None:
        check_choice("file_format", own.file_format, [one.name for one in own.formats])
    file = open_weights(own.checkpoint)
    path, shapes = file.path, file.shapes
    named = [one for one in own.formats if own.file_format in (None, one.name)]
    chosen = next((one for one in named if own.file_format or one.matches(shapes)), None)
    if chosen is None or not chosen.matches(shapes):
        titles = "; ".join(one.title for one in own.formats)
        what = f"this format: {chosen.title}" if chosen else f"a known format: {titles}"
        raise CheckpointError(
            f"{path}: this checkpoint has the variables {some(map(repr, shapes))}, which are not names of "
            f"{what}. Fix: use a checkpoint of one of these programs.",
            settings=["checkpoint", "file_format"],
        )
    try:
        table = chosen.table(shapes)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}", settings=["checkpoint"]) from None
    _check_table(path, table, shapes)
    network_settings = dict(getattr(table, "network_settings", {}))
    with writing_folder(Path(own.output_dir)):
        values = _read(file, table)
        facts: dict[str, Any] = {"title": table.title, "format": chosen.name, "checkpoint": str(own.checkpoint)}
        facts |= {"settings": dict(table.settings), "network_settings": network_settings, "notes": list(table.notes)}
        write_weights(own.output_dir, values, facts)
    used = {own for conversion in _conversions(table).values() for own in conversion.shapes}
    slots, others = _unused(shapes, used)
    return ImportedWeights(
        title=table.title,
        file_format=chosen.name,
        checkpoint=path,
        num_variables=len(values),
        num_values=sum(value.size for value in values.values()),
        settings=dict(table.settings),
        network_settings=network_settings,
        notes=tuple(table.notes),
        slots=slots,
        others=others,
    )


@dataclasses.dataclass(frozen=True)
class _Copy:
    """The conversion for a variable that is copied unchanged."""

    shapes: Mapping[str, tuple[int, ...]]

    def convert(self, *arrays: np.ndarray) -> np.ndarray:
        """Returns the only array."""
        return arrays[0]


def _conversions(table: NameTable) -> dict[str, Conversion]:
    """Returns the conversion from file arrays for each variable of a table."""
    conversions: dict[str, Conversion] = {name: _Copy({own: table.shapes[name]}) for name, own in table.names.items()}
    return conversions | dict(getattr(table, "conversions", {}))


def _check_table(path: str, table: NameTable, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Checks that the file has all arrays of a table, with their shapes."""
    faults = []
    for name, conversion in _conversions(table).items():
        for own, wanted in conversion.shapes.items():
            if own not in shapes:
                faults.append(f"'{own}' is missing, which is '{name}' {list(table.shapes[name])}")
            elif shapes[own] != wanted:
                is_copied = wanted == table.shapes[name]
                what = f"'{name}' has {list(wanted)}" if is_copied else f"'{name}' needs {list(wanted)}"
                faults.append(f"'{own}' has shape {list(shapes[own])}, but {what}")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise CheckpointError(
            f"{path}: by its blocks, this checkpoint is {table.title}, but {'; '.join(faults[:_SHOWN])}{more}. "
            "Fix: use a complete checkpoint of a network without changes.",
            settings=["checkpoint"],
        )


def _read(file: WeightFile, table: NameTable) -> dict[str, np.ndarray]:
    """Returns the values of variables by name in this package."""
    values = {}
    for name, conversion in _conversions(table).items():
        arrays = [_read_finite(file, own) for own in conversion.shapes]
        values[name] = np.ascontiguousarray(conversion.convert(*arrays), np.float32)
    return values


def _read_finite(file: WeightFile, name: str) -> np.ndarray:
    stored = file.read(name)
    if not np.can_cast(stored.dtype, np.float64):
        raise CheckpointError(
            f"{file.path}: '{name}' has the dtype {stored.dtype}, not one of real numbers. Fix: store it as float32.",
            settings=["checkpoint"],
        )
    value = stored.astype(np.float64)
    if not np.isfinite(value).all():
        raise CheckpointError(
            f"{file.path}: '{name}' is not finite. Fix: use an earlier checkpoint of the same training.",
            settings=["checkpoint"],
        )
    return value


def _unused(shapes: Mapping[str, Any], used: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of optimizer slots and of other unused variables."""
    rest = [name for name in shapes if name not in used]
    variables = {name.removesuffix(_OBJECT) for name in shapes}
    slots = tuple(name for name in rest if _SLOTS in name or name.rpartition("/")[0] in variables)
    return slots, tuple(name for name in rest if name not in slots)
