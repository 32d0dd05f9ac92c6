"""Converts stored numbers to HU, to values of other modalities, or to labels.

Values are repaired with a warning if the correct value is known, and refused otherwise. They are read and checked in
slabs along the last stored axis, so the result is the only large array.
"""

import functools
import logging
from pathlib import Path

import numpy as np

from mtf_imaging.data.cases.description import BACKGROUND, LITS, LITS_RULES, Description
from mtf_imaging.data.modality import AIR_HU
from mtf_imaging.data.nifti.stored_values import StoredValues
from mtf_imaging.errors import DataError

NUM_CLASSES = 3  # 0 background, 1 liver, 2 lesion
_MAX_HU = 32767
_NO_AIR_HU = -200  # above fat; a CT without lower values shows no air, neither around the patient nor inside
_WHOLE = 1e-3  # bound on the rounding error that scaling adds to integers
_LEAST_SPAN = 20  # HU; the noise of any CT spans more, and a normalized image spans only a few units
_SHOWN = 5  # surplus labels in a message
_log = logging.getLogger(__name__)


def hounsfield(stored: StoredValues) -> np.ndarray:
    """Returns the HU of a CT, int16 `[i, j, k]`, at least -1024.

    NaN becomes air, and values out of range become the nearest bound. Negative HU that were stored as unsigned 16-bit
    numbers are read as signed. Each of these repairs logs a warning. Fractions of HU, from resampling, are rounded
    without a warning.

    Raises:
      DataError: all voxels are NaN, most voxels are above the range of HU, or the image was normalized. An image counts
        as normalized if its fractional values span less than the noise of any CT.
    """
    path, size = stored.path, stored.size
    hu = np.empty(stored.shape, np.int16, order="F")
    bits_fit = stored.dtype.kind in "iu" and stored.dtype.itemsize == 2 and not stored.is_scaled
    num_nan, num_below, num_above = _copy_16_bits(stored, hu) if bits_fit else _convert(stored, hu)
    if num_nan == size:
        raise DataError(f"{path}: all {size} voxels are NaN. Fix: fetch the file again.")
    if num_above > size // 2:
        raise DataError(
            f"{path}: {num_above} of {size} voxels are above {_MAX_HU}, so this is not a CT in HU. "
            "Fix: give a CT in HU."
        )
    for count, what, bound in (
        (num_nan, "NaN", AIR_HU),
        (num_below, f"below {AIR_HU} HU", AIR_HU),
        (num_above, f"above {_MAX_HU} HU", _MAX_HU),
    ):
        if count:
            warn_once(f"{path}: {count} of {size} voxels are {what}; replaced by {bound} HU.")
    lowest = int(hu.min())
    if lowest > _NO_AIR_HU:
        warn_once(
            f"{path}: the lowest value is {lowest} HU, but air is about -1000 HU; values are read unchanged. "
            "Check whether the conversion from DICOM dropped the rescale intercept (often -1024), or whether "
            "the background was masked."
        )
    return hu


def finite_values(stored: StoredValues, channel: str) -> np.ndarray:
    """Returns the values of a channel that is not a CT, float32 `[i, j, k]`.

    NaN and infinite voxels become 0, with a warning.

    Args:
      stored: the stored numbers of the channel.
      channel: name of the channel, for messages.

    Raises:
      DataError: no voxel is finite.
    """
    values = np.empty(stored.shape, np.float32, order="F")
    num_faults = 0
    for at, slab in stored.slabs():
        here = values[..., at]
        with np.errstate(over="ignore"):  # numbers beyond float32 become infinite
            here[...] = slab
        fault = ~np.isfinite(here)
        num_faults += np.count_nonzero(fault)
        here[fault] = 0
    what = f"{stored.path}: {'all' if num_faults == stored.size else num_faults}"
    if num_faults == stored.size:
        raise DataError(f"{what} {stored.size} voxels of {channel} are NaN or infinite. Fix: fetch the file again.")
    if num_faults:
        warn_once(f"{what} of {stored.size} voxels of {channel} are NaN or infinite; replaced by 0.")
    return values


def labels(stored: StoredValues, description: Description = LITS) -> np.ndarray:
    """Returns labels, uint8 `[i, j, k]`; integers stored as floats are accepted, with a warning.

    Args:
      stored: the stored numbers of a segmentation.
      description: the permitted labels.

    Raises:
      DataError: there are labels that the description lacks.
    """
    path = stored.path
    result = np.empty(stored.shape, np.uint8, order="F")
    is_permitted = np.zeros(256, bool)
    is_permitted[list(_names(description))] = True
    num_consecutive = int(is_permitted.argmin())
    low, high = np.inf, -np.inf
    surplus: set[float] = set()
    as_floats = False
    for at, slab in stored.slabs():
        if slab.dtype.kind == "f":
            as_floats = True
            finite = np.isfinite(slab).all()
            whole = np.rint(slab)
            if not finite or np.abs(slab - whole).max() > _WHOLE:
                what = "not integers" if finite else "NaN or infinite"
                raise DataError(f"{path}: some labels are {what}. Fix: store {_listed(description)}.")
            slab = whole
        low, high = min(low, slab.min()), max(high, slab.max())
        here = result[..., at]
        if low >= 0 and high < len(is_permitted):
            here[...] = slab
            if high < num_consecutive or is_permitted[here].all():
                continue
        surplus.update(np.setdiff1d(slab, list(_names(description))).tolist())
    if surplus:
        _refuse_labels(path, surplus, (low, high), description)
    if as_floats:
        what = f"{stored.dtype} with a scale" if stored.is_scaled else str(stored.dtype)
        warn_once(f"{path}: labels are stored as {what}; they are read as integers.")
    return result


def _refuse_labels(path: Path, surplus: set[float], bounds: tuple[float, float], description: Description) -> None:
    if description.rules == LITS_RULES:
        raise DataError(
            f"{path}: labels range from {bounds[0]:.0f} to {bounds[1]:.0f}, not from 0 to {NUM_CLASSES - 1}. "
            f"Fix: map them to {_listed(description)}."
        )
    shown = ", ".join(f"{label:.0f}" for label in sorted(surplus)[:_SHOWN])
    more = f" and {len(surplus) - _SHOWN} more" if len(surplus) > _SHOWN else ""
    raise DataError(
        f"{path}: has labels that dataset.json lacks: {shown}{more}. The labels of dataset.json are "
        f"{_listed(description)}. Fix: add the labels to dataset.json, or map them to these labels."
    )


def _names(description: Description) -> dict[int, str]:
    """Returns the names of all permitted labels by their values."""
    names = {BACKGROUND: "background", **{value: name for name, value in description.labels.items()}}
    return names if description.ignore is None else names | {description.ignore: "ignore"}


def _listed(description: Description) -> str:
    return ", ".join(f"{value} {name}" for value, name in _names(description).items())


def _convert(stored: StoredValues, hu: np.ndarray) -> tuple[int, int, int]:
    """Fills `hu` from numbers of any type; returns the numbers of NaN, too low and too high voxels."""
    num_nan = num_below = num_above = num_fractions = 0
    everything, fractions = (np.inf, -np.inf), (np.inf, -np.inf)  # lowest and highest
    for at, slab in stored.slabs():
        slab = slab.astype(np.float64)  # unsigned types cannot represent -1024
        nan = np.isnan(slab)
        num_nan += np.count_nonzero(nan)
        slab[nan] = AIR_HU
        num_below += np.count_nonzero(slab < AIR_HU)
        num_above += np.count_nonzero(slab > _MAX_HU)
        np.clip(slab, AIR_HU, _MAX_HU, out=slab)
        hu[..., at] = whole = np.rint(slab)
        if fractions[1] - fractions[0] < _LEAST_SPAN:  # a wider range of fractions proves a CT
            everything = _widened(everything, slab[~nan] if nan.any() else slab)
            is_fraction = np.abs(np.subtract(slab, whole, out=whole), out=whole) > _WHOLE
            num_fractions += np.count_nonzero(is_fraction)
            fractions = _widened(fractions, slab[is_fraction])
    # If there are many fractions, other values are ignored, because normalized images can be padded with integers.
    low, high = fractions if num_fractions > stored.size // 10 else everything
    if num_fractions and high - low < _LEAST_SPAN:
        raise DataError(
            f"{stored.path}: fractional values range from {low:.3g} to {high:.3g}, but a CT in HU spans hundreds of "
            "integers; the image was probably normalized. Fix: give the original CT."
        )
    return num_nan, num_below, num_above


def _widened(bounds: tuple[float, float], values: np.ndarray) -> tuple[float, float]:
    low, high = bounds
    return (min(low, values.min()), max(high, values.max())) if values.size else bounds


def _copy_16_bits(stored: StoredValues, hu: np.ndarray) -> tuple[int, int, int]:
    """Fills `hu` from 16-bit integers, like `_convert`; unsigned integers above 32767 are negative HU."""
    num_wrapped = num_below = 0
    for at, slab in stored.raw_slabs():
        if slab.dtype.kind == "u":
            num_wrapped += np.count_nonzero(slab > _MAX_HU)
        here = hu[..., at]
        here[...] = slab.astype(slab.dtype.newbyteorder("=")).view(np.int16)
        num_below += np.count_nonzero(here < AIR_HU)
        np.maximum(here, AIR_HU, out=here)
    if num_wrapped:
        warn_once(
            f"{stored.path}: {num_wrapped} of {stored.size} unsigned 16-bit voxels are above {_MAX_HU}; they are read "
            "as negative HU."
        )
    return 0, num_below, 0


def warn_if_empty(path: Path, labels: np.ndarray, description: Description = LITS) -> None:
    """Warns if a mask has no voxel of any label but the background and the ignore label.

    Args:
      path: path of the mask's file.
      labels: `[x, y, z]`.
      description: the labels.
    """
    if not any_labeled(labels, description):
        what = "CT" if description.rules == LITS_RULES else "image"
        warn_once(
            f"{path}: this mask has no voxel of {any_label(description)}; it is used anyway. "
            f"Check that it belongs to this {what}."
        )


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
    """Logs a warning, once per message even if a file is read several times.

    Args:
      message: the warning.
      settings: names of the keyword arguments in its fix; see `MtfImagingError`.
    """
    _log.warning(message, extra={"settings": settings})
