"""Converts stored numbers to HU, or to values of other modalities, slab by slab.

Values are repaired with a warning if the correct value is known, and refused otherwise. Faults are counted over all
slabs of a file, so warnings and errors about them follow after the last slab.
"""

from pathlib import Path
from typing import Protocol

import numpy as np

from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.modality import AIR_HU, MAX_HU
from mtf_imaging.files.reading import Fault

_NO_AIR_HU = -200  # below fat; a CT without lower values contains no air
_WHOLE = 1e-3  # bound on the rounding error that scaling adds to integers
_LEAST_SPAN = 20  # HU; the noise in any CT spans more, whereas a normalized image spans only a few units
_LOWEST_WRAPPED = -4096  # padding of CTs is as low as -3024 HU


class Repair(Protocol):
    """Converts the stored numbers of one channel to values, and counts their faults.

    Attributes:
      dtype: type of the values.
    """

    dtype: np.dtype

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """Converts a slab of stored numbers to values, a new array of the same shape; counts its faults."""

    def check(self) -> None:
        """Warns about the repairs of all slabs; raises Fault if the file as a whole cannot be used."""


class HounsfieldRepair:
    """Converts stored numbers to the HU of a CT, int16, at least -1024.

    NaN becomes air, and values out of range become the nearest bound. Negative HU that were stored as unsigned 16, 32
    or 64-bit numbers are read as signed, even if the file stores these numbers in a wider type. Each of these repairs
    logs a warning, and so does an image with a single value. Fractional HU, from resampling, are rounded without a
    warning.

    Args:
      stored: the stored numbers of the CT.
    """

    dtype = np.dtype(np.int16)

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        is_integer = stored.dtype.kind in "iu" and not stored.is_scaled
        self._bits_fit = is_integer and stored.dtype.itemsize == 2
        self._may_wrap = is_integer and stored.dtype.itemsize > 2
        self._num_nan = self._num_below = self._num_above = self._num_fractions = 0
        self._num_wrapped, self._wrapped_bits = 0, 16
        self._everything, self._fractions = (np.inf, -np.inf), (np.inf, -np.inf)  # lowest and highest value so far
        self._bounds = (np.inf, -np.inf)  # bounds of the HU

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the HU of stored numbers; see `Repair`."""
        if self._bits_fit:
            hu = self._bits(numbers)
        else:
            hu = self._converted(self._unwrapped(numbers) if self._may_wrap else self._stored.scaled(numbers))
        self._bounds = _widened(self._bounds, hu)
        return hu

    def check(self) -> None:
        """Warns about repairs.

        Raises:
          Fault: all voxels are NaN, most voxels are above the range of HU, or the image was normalized. An image
            counts as normalized if its fractional values span less than the noise of any CT.
        """
        path, size = self._stored.path, self._stored.size
        # If there are many fractions, other values are ignored, because normalized images can be padded with integers.
        low, high = self._fractions if self._num_fractions > size // 10 else self._everything
        if self._num_fractions and high - low < _LEAST_SPAN:
            what = f"fractional values range from {low:.3g} to {high:.3g}, but a CT in HU spans hundreds of integers"
            raise Fault(f"{what}; the image was probably normalized", "give the original CT")
        if self._num_wrapped:
            what = f"{self._num_wrapped} of {size} unsigned {self._wrapped_bits}-bit voxels are above {MAX_HU}"
            warn_once(f"{path}: {what}; they are read as negative HU.")
        if self._num_nan == size:
            raise Fault(f"all {size} voxels are NaN")
        if self._num_above > size // 2:
            what = f"{self._num_above} of {size} voxels are above {MAX_HU}, so this is not a CT in HU"
            raise Fault(what, "give a CT in HU")
        for count, what, bound in (
            (self._num_nan, "NaN", AIR_HU),
            (self._num_below, f"below {AIR_HU} HU", AIR_HU),
            (self._num_above, f"above {MAX_HU} HU", MAX_HU),
        ):
            if count:
                warn_once(f"{path}: {count} of {size} voxels are {what}; replaced by {bound} HU.")
        lowest, highest = self._bounds
        if lowest == highest:
            _warn_of_constant(path, f"{lowest:g} HU")
        if lowest > _NO_AIR_HU:
            what = f"the lowest value is {lowest:g} HU, but air is about -1000 HU; values are read unchanged"
            fix = "Check whether the conversion from DICOM dropped the rescale intercept, or whether air was masked"
            warn_once(f"{path}: {what}. {fix}.")

    def _converted(self, values: np.ndarray) -> np.ndarray:
        """Converts values of any type to HU."""
        slab = values.astype(np.float64)  # unsigned types cannot represent -1024
        nan = np.isnan(slab)
        self._num_nan += np.count_nonzero(nan)
        slab[nan] = AIR_HU
        self._num_below += np.count_nonzero(slab < AIR_HU)
        self._num_above += np.count_nonzero(slab > MAX_HU)
        np.clip(slab, AIR_HU, MAX_HU, out=slab)
        whole = np.rint(slab)
        hu = whole.astype(np.int16)
        if self._fractions[1] - self._fractions[0] < _LEAST_SPAN:  # wide range of fractions: a CT
            self._everything = _widened(self._everything, slab[~nan] if nan.any() else slab)
            is_fraction = np.abs(np.subtract(slab, whole, out=whole), out=whole) > _WHOLE
            self._num_fractions += np.count_nonzero(is_fraction)
            self._fractions = _widened(self._fractions, slab[is_fraction])
        return hu

    def _unwrapped(self, numbers: np.ndarray) -> np.ndarray:
        """Undoes the overflow of 32 or 64-bit integers: 4294966272 becomes -1024, and so does 64512."""
        native = numbers.astype(numbers.dtype.newbyteorder("="))
        signed = native.view(f"i{native.dtype.itemsize}")
        values = signed.astype(np.int64)
        if native.dtype.kind == "u":
            self._count_wrapped(np.count_nonzero(signed < 0), 8 * native.dtype.itemsize)
        for bits in (16, 32):
            wrapped = (values >= (1 << bits) + _LOWEST_WRAPPED) & (values < 1 << bits)
            if wrapped.any():
                self._count_wrapped(np.count_nonzero(wrapped), bits)
                values[wrapped] -= 1 << bits
        return values

    def _count_wrapped(self, count: int, bits: int) -> None:
        if count:
            self._num_wrapped += count
            self._wrapped_bits = bits

    def _bits(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the HU of 16-bit integers; unsigned integers above 32767 are negative HU."""
        if numbers.dtype.kind == "u":
            self._count_wrapped(np.count_nonzero(numbers > MAX_HU), 16)
        hu = numbers.astype(numbers.dtype.newbyteorder("=")).view(np.int16)
        self._num_below += np.count_nonzero(hu < AIR_HU)
        return np.maximum(hu, AIR_HU, out=hu)


class FiniteRepair:
    """Converts stored numbers to float32 values of a channel that is not a CT; NaN and infinite voxels become 0.

    Args:
      stored: the stored numbers of the channel.
      channel: name of the channel, for messages.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, stored: Stored, channel: str) -> None:
        self._stored, self._channel = stored, channel
        self._num_faults = 0
        self._bounds = (np.inf, -np.inf)

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the values of stored numbers; see `Repair`."""
        with np.errstate(over="ignore"):  # numbers beyond float32 become infinite
            values = self._stored.scaled(numbers).astype(np.float32)
        fault = ~np.isfinite(values)
        self._num_faults += np.count_nonzero(fault)
        values[fault] = 0
        self._bounds = _widened(self._bounds, values)
        return values

    def check(self) -> None:
        """Warns about repairs.

        Raises:
          Fault: no voxel is finite.
        """
        path, size, count = self._stored.path, self._stored.size, self._num_faults
        if count == size:
            raise Fault(f"all {size} voxels of {self._channel} are NaN or infinite")
        if count:
            warn_once(f"{path}: {count} of {size} voxels of {self._channel} are NaN or infinite; replaced by 0.")
        lowest, highest = self._bounds
        if lowest == highest:
            _warn_of_constant(path, f"{self._channel} is {lowest:g}")


def _warn_of_constant(path: Path, value: str) -> None:
    what = f"this image is constant: {value} in every voxel, so it shows nothing"
    warn_once(f"{path}: {what}. Check whether its conversion failed.")


def _widened(bounds: tuple[float, float], values: np.ndarray) -> tuple[float, float]:
    low, high = bounds
    return (min(low, values.min()), max(high, values.max())) if values.size else bounds
