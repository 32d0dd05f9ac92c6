"""The intensity window of the CT channel of a plan."""

import math

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.intensities import PERCENTAGES, WINDOW
from mtf_imaging.data.modality import is_ct
from mtf_imaging.data.window import DEFAULT_WINDOW
from mtf_imaging.jobs.choices.choice import Choice
from mtf_imaging.jobs.choices.network import NNUNET

_ROUNDED_TO = 5  # HU


def choose_window(fingerprint: Fingerprint) -> Choice | None:
    """Chooses the window in HU: the range of the labeled voxels, rounded outward to 5 HU.

    Returns:
      The choice; None if the data set has no CT channel, or if the data set itself defines the window of this channel.
    """
    description = fingerprint.description
    for channel, (name, scheme) in enumerate(zip(description.channels, description.intensities, strict=True)):
        if is_ct(name) and scheme.kind == WINDOW and scheme.window == DEFAULT_WINDOW:
            low, high = fingerprint.foreground_percentiles(channel)
            if not low < high:
                return Choice(DEFAULT_WINDOW, f"HU, the default, because all labeled voxels have {low:g} HU")
            window = (
                float(math.floor(low / _ROUNDED_TO) * _ROUNDED_TO),
                float(math.ceil(high / _ROUNDED_TO) * _ROUNDED_TO),
            )
            first, last = PERCENTAGES
            return Choice(
                window,
                f"HU: percentiles {first:g} and {last:g} of the labeled voxels, {low:.4g} and {high:.4g} HU, as in "
                f"{NNUNET}, rounded outward to {_ROUNDED_TO} HU",
            )
    return None
