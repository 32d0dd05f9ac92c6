"""The modality of a channel: CT in Hounsfield units, or any other."""

AIR_HU, MAX_HU = -1024, 32767  # the lowest and the highest HU of images
_CT = "ct"


def is_ct(channel: str) -> bool:
    """Returns whether a channel holds Hounsfield units, which its name states as in nnU-Net.

    >>> is_ct("CT"), is_ct("T1w")
    (True, False)
    """
    return channel.casefold() == _CT


def value_beyond(channel: str) -> int:
    """Returns the value of the voxels beyond the field of view: air in a CT, 0 in other images."""
    return AIR_HU if is_ct(channel) else 0
