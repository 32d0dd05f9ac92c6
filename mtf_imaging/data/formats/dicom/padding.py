"""Pixels outside the image of a DICOM file, for example around the circle of a reconstruction."""

import dataclasses

import numpy as np

from mtf_imaging.data.modality import CT, value_beyond

_TISSUE_HU = (-1000, 2000)  # values between air and metal


@dataclasses.dataclass(frozen=True)
class Padding:
    """The stored numbers of padding.

    Attributes:
      lowest, highest: the range of these numbers.
      is_raw: whether they need bits outside the stored bits of the file. Decoders clear these bits.
    """

    lowest: int
    highest: int
    is_raw: bool

    def mask(self, numbers: np.ndarray) -> np.ndarray:
        """Returns a mask of the stored numbers that are padding; the numbers include all bits if `is_raw`."""
        return (numbers >= self.lowest) & (numbers <= self.highest)


def read_padding(header: object, dtype: np.dtype) -> Padding | None:
    """Returns the padding of a file, or None if its header states none.

    Args:
      header: a header with BitsStored, and perhaps PixelPaddingValue and PixelPaddingRangeLimit.
      dtype: type of the stored numbers.
    """
    first = _number(header, "PixelPaddingValue", dtype)
    if first is None:
        return None
    limit = _number(header, "PixelPaddingRangeLimit", dtype)
    ends = sorted((first, first if limit is None else limit))
    bits = int(header.get("BitsStored") or 8 * dtype.itemsize)
    stored = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)
    return Padding(*ends, is_raw=ends[0] < stored[0] or ends[1] > stored[1])


def padding_value(modality: str) -> int:
    """Returns the value of padding: air in a CT, 0 in images of other modalities."""
    return value_beyond(modality or CT)


def is_tissue(hu: float) -> bool:
    """Returns whether a HU value can occur in a patient and is therefore a doubtful choice for padding."""
    return _TISSUE_HU[0] < hu < _TISSUE_HU[1]


def _number(header: object, tag: str, dtype: np.dtype) -> int | None:
    """Returns a stored number of the header in the type of the pixels.

    Files often state a wrong type for this number, for example -2000 as the unsigned 63536, and some encodings state no
    type. Only the bits are certain.
    """
    value = header.get(tag)
    if value is None or value == "":
        return None
    if isinstance(value, bytes):  # pydicom does not know its type
        order = "little" if header.original_encoding[1] in (True, None) else "big"
        value = int.from_bytes(value[: dtype.itemsize], order)
    bits = 8 * dtype.itemsize
    number = int(value) % (1 << bits)
    return number - (1 << bits) if dtype.kind == "i" and number >= 1 << (bits - 1) else number
