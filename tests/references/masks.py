"""Pairs of masks for the comparison of scores."""

import numpy as np
from scipy import ndimage

SPACING = (0.7, 1.3, 2.5)
SHAPE = (15, 12, 9)


def blobs(seed, shift=(0, 0, 0)):
    """Returns a mask of smooth shapes, bool `[x, y, z]`, that does not touch the border."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(SHAPE), 1.5)
    mask = np.zeros(SHAPE, bool)
    inner = (slice(2, -2),) * 3
    mask[inner] = noise[inner] > 0.02
    return np.roll(mask, shift, (0, 1, 2))


# Different shapes, a shift along every axis, one mask within the other, equal masks, and masks without a common voxel.
CUBE, CORNER = np.zeros(SHAPE, bool), np.zeros(SHAPE, bool)
CUBE[3:11, 3:9, 2:7] = True
CORNER[5:8, 4:7, 3:5] = True
FAR = np.zeros(SHAPE, bool)
FAR[12:14, 9:11, 7:8] = True
PAIRS = {
    **{f"shapes {seed}": (blobs(seed), blobs(seed + 100)) for seed in range(6)},
    "shifted": (blobs(1), blobs(1, (1, -1, 1))),
    "within": (CORNER, CUBE),
    "equal": (CUBE, CUBE),
    "apart": (CORNER, FAR),
}
