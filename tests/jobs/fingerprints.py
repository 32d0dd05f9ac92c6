"""Fingerprints of cases of any size and spacing, without their files."""

import math

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.fingerprint import FOREGROUND_PERCENTAGES, CaseFingerprint, Fingerprint, Foreground
from mtf_imaging.data.intensities.statistics import ChannelStatistics

ORGANS = Description(("CT",), {"spleen": 1, "duct": 2}, {"spleen": (1,), "duct": (2,)})
REGIONS = Description(
    ("T1", "FLAIR"), {"edema": 1, "core": 2}, {"whole": (1, 2), "core": (2,)}, region_order=(1, 2), ignore=3
)
SMALL = (40, 40, 40)


def fingerprint(*cases, description=ORGANS, nonzero=None):
    """Returns the fingerprint of cases (shape, spacing), with 90%, 9% and 1% of the voxels in the labels 0, 1 and 2.

    `nonzero` is the box of the nonzero voxels of each case; None for the whole image.
    """
    statistics = ChannelStatistics(0, 1, 0, 1, -1, 1, -2, 2)
    percentiles = np.interp(FOREGROUND_PERCENTAGES, (0, 0.5, 50, 99.5, 100), (-90, -31, 50, 121, 300))
    foreground = Foreground(50, 20, tuple(percentiles))
    made = []
    for number, (shape, spacing) in enumerate(cases):
        volume = math.prod(shape)
        voxels = {0: volume * 90 // 100, 1: volume * 9 // 100, 2: volume // 100}
        channels = len(description.channels)
        half = tuple((n // 4, n - n // 4) for n in shape)
        whole = tuple((0, n) for n in shape)
        made.append(
            CaseFingerprint(
                str(number),
                shape,
                spacing,
                "RAS",
                voxels,
                {},
                half,
                nonzero or whole,
                (statistics,) * channels,
                (foreground,) * channels,
                {},
            )
        )
    return Fingerprint(description, tuple(made))
