"""The interfaces for reading weights of other programs, by the names of variables in their checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class Conversion(Protocol):
    """The conversion of a checkpoint's arrays to a variable.

    Attributes:
      shapes: the names of the arrays and their shapes, {name: shape}.
    """

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def convert(self, *arrays: np.ndarray) -> np.ndarray:
        """Computes the variable from the arrays, in this order."""
        ...


class NameTable(Protocol):
    """The variable names of a network in a checkpoint.

    Attributes:
      title: the name of the network.
      names: {name in this package: name in the checkpoint} for copied variables.
      shapes: {name in this package: shape} for all variables.
      conversions: {name in this package: conversion} for converted variables. A table may lack this attribute.
      settings: the settings of a backbone that computes the same features, {name: value}.
      network_settings: the settings of a network around the backbone, {"detection.RetinaNet.classes": value}. A table
        may lack this attribute.
      notes: further requirements, in sentences.
    """

    @property
    def title(self) -> str: ...

    @property
    def names(self) -> Mapping[str, str]: ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def notes(self) -> Sequence[str]: ...


class WeightFormat(Protocol):
    """The names of variables in the checkpoints of another program.

    Attributes:
      name: the name of the format.
      title: the source of such checkpoints, with an example of a variable name.
    """

    name: str
    title: str

    def matches(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Returns whether the variables of a checkpoint, {name: shape}, have the names of this format."""
        ...

    def table(self, shapes: Mapping[str, tuple[int, ...]]) -> NameTable:
        """Returns the table of a checkpoint with the variables {name: shape}.

        Raises:
          CheckpointError: the checkpoint belongs to another network.
        """
        ...
