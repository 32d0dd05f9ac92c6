"""The modality of a channel: CT in Hounsfield units, or any other."""

import re

AIR_HU, MAX_HU = -1024, 32767  # the lowest and the highest HU in images
CT = "CT"  # in DICOM's spelling
_CT = "ct"
# {channel name: DICOM modality that it implies}; most names, such as "arterial phase", do not imply one.
_STATED = {
    "MR": re.compile(r"t[12](?!\d)|(mri?|flair|dwi|adc|swi)(?![a-z])|.*\b(mri?|flair)\b"),
    "PT": re.compile(r"(pet|suv)(?![a-z])"),
}


def is_ct(channel: str) -> bool:
    """Returns whether a channel contains Hounsfield units, according to its name as in nnU-Net.

    >>> is_ct("CT"), is_ct("T1w")
    (True, False)
    """
    return channel.casefold() == _CT


def stated_modality(channel: str) -> str | None:
    """Returns the modality that a channel name implies, in DICOM's spelling, or None if it does not imply one.

    >>> [stated_modality(name) for name in ("CT", "T1w", "FLAIR", "PET", "arterial phase")]
    ['CT', 'MR', 'MR', 'PT', None]
    """
    if is_ct(channel):
        return CT
    return next((modality for modality, names in _STATED.items() if names.match(channel.casefold())), None)


def content_of(low: float, high: float) -> str:
    """Guesses from the extreme values of a channel what they are."""
    if low <= -900:
        return "HU of a CT"
    if high - low <= 20:
        return "normalized values"
    return "8-bit values" if (low, high) == (0, 255) else "no air in HU, as in MR"


def value_beyond(channel: str) -> int:
    """Returns the value of the voxels beyond the field of view: air in CTs, 0 in other images."""
    return AIR_HU if is_ct(channel) else 0
