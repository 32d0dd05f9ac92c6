"""Checks that an image has the modality that its channel requires."""

from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.modality import CT, is_ct, stated_modality
from mtf_imaging.errors import DataError

_OTHER = "OT"  # the modality of files converted by programs that did not know it
_NAMES = {"CT": "a CT", "MR": "a magnetic resonance image", "PT": "a PET"}


def check_modality(stored: Stored, channel: str) -> None:
    """Checks the modality that a file states, which only DICOM does, against the name of its channel.

    A channel whose name does not state a modality, such as "arterial phase", accepts any image.

    Raises:
      DataError: the modalities differ.
    """
    wanted, found = stated_modality(channel), stored.modality
    if wanted is None or found is None or found == wanted:
        return
    if found == _OTHER:
        warn_once(
            f"{stored.path}: its modality is {_OTHER} (other), not {wanted}; it is read as {_NAMES[wanted]}, channel "
            f"'{channel}'."
        )
        return
    fix = (
        "if its values are HU, convert the series to NIfTI; if the data set is not of CTs, name its channels in a "
        "dataset.json"
        if is_ct(channel)
        else f"if the channel is {CT if found == CT else 'another one'}, name it in dataset.json"
    )
    shown = _NAMES.get(found, f"an image of modality {found}")
    raise DataError(
        f"{stored.path}: the header states the modality {found}, {shown}, but the channel '{channel}' needs "
        f"{_NAMES[wanted]} (modality {wanted}). Fix: give {_NAMES[wanted]}; {fix}."
    )
