"""Warnings about voxel values, and label names for messages."""

import functools
import logging
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import BACKGROUND, LITS_RULES, Description

_log = logging.getLogger(__name__)


def warn_of_empty(path: Path, description: Description) -> None:
    """Warns that all voxels of a mask have the background or ignore label."""
    image = "CT" if description.rules == LITS_RULES else "image"
    what = f"this mask has no voxel of {any_label(description)}; it is used anyway"
    warn_once(f"{path}: {what}. Check that it belongs to this {image}.")


def any_labeled(labels: np.ndarray, description: Description) -> bool:
    """Returns whether any voxel has a label other than the background and the ignore label."""
    if description.ignore is None:
        return bool(labels.any())
    return bool(np.any((labels != BACKGROUND) & (labels != description.ignore)))


def any_label(description: Description) -> str:
    """Returns the names of all labels for messages, for example "liver or lesion"."""
    *others, last = description.labels
    return f"{', '.join(others)} or {last}" if others else last


@functools.cache
def warn_once(message: str, settings: tuple[str, ...] = ()) -> None:
    """Logs a warning once per message, even if a file is read several times.

    Args:
      message: the warning.
      settings: names of the keyword arguments in its fix; see `MtfImagingError`.
    """
    _log.warning(message, extra={"settings": settings})
