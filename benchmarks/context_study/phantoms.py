"""Paints long, slim bodies whose labels need context from far away, or no context at all.

A body is a tube along x with small structures near its far end. In `marker` and `side`, the label of a structure is
only visible 110 to 140 mm away, near the other end. In `texture`, it is visible within the structure, but only at full
resolution. With voxels of 1 mm, these phantoms show what patches and lower resolutions lose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.phantom.file_formats import NNUNET
from mtf_imaging.data.phantom.kinds import Kind, Patient

SHAPE = (192, 24, 24)
DISTANCE_MM = (110.0, 140.0)  # between a structure and the sign that determines its label
_TISSUE, _STRUCTURE, _SIGN = 400.0, 200.0, 400.0  # intensity of the body, contrast of structures, contrast of far signs
_NOISE = 40.0
_SIGN_RADII = (10.0, 5.0, 6.0)  # voxels along x, y and z
_RADII = (2.0, 2.8)  # radius of the small structures
_AT = (14.0, 40.0)  # position of the far sign along x
_CENTER = (119.0, 131.0)  # distance from the sign to the middle of the structures
_SPREAD = 8.0  # extent of the structures around their middle, which keeps all distances within DISTANCE_MM


@dataclass
class Body:
    """The state of a body during painting.

    Attributes:
      rng: the random number generator of the patient.
      image: `[x, y, z]` float32, painted so far, without noise.
      labels: `[x, y, z]` uint8, painted so far.
    """

    rng: np.random.Generator
    image: np.ndarray
    labels: np.ndarray

    def ellipsoid(self, center: Sequence[float], radii: Sequence[float]) -> np.ndarray:
        """Returns the mask of an ellipsoid; center and radii are in voxels."""
        axes = np.ogrid[tuple(slice(0, n) for n in SHAPE)]
        return sum(((axis - c) / r) ** 2 for axis, c, r in zip(axes, center, radii, strict=True)) < 1

    def ball(self, center: Sequence[float], radius: float) -> np.ndarray:
        """Returns the mask of a ball; center and radius are in voxels."""
        return self.ellipsoid(center, (radius,) * 3)


def paint_body(rng: np.random.Generator, structures: Callable[[Body], None]) -> tuple[np.ndarray, np.ndarray]:
    """Paints one body.

    Args:
      rng: the random number generator of the patient.
      structures: a function that paints the structures and their labels.

    Returns:
      The image with noise, float32 `[*SHAPE]`, and the labels, uint8 `[*SHAPE]`.
    """
    body = Body(rng, np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.uint8))
    _, y, z = np.ogrid[tuple(slice(0, n) for n in SHAPE)]
    radius = rng.uniform(11.0, 11.8)
    tube = ((y - 11.5) ** 2 + (z - 11.5) ** 2 < radius**2) & np.ones(SHAPE, bool)
    body.image[tube] = _TISSUE
    body.image += tube * ndimage.gaussian_filter(rng.standard_normal(SHAPE, np.float32), 3) * 300  # uneven tissue
    structures(body)
    noise = rng.standard_normal(SHAPE, np.float32) * np.float32(_NOISE)
    return ndimage.gaussian_filter(body.image, 0.4) + noise, body.labels


def marker(body: Body) -> None:
    """Paints equal structures, whose label follows from a far marker: 1 if it is bright, 2 if it is dark."""
    rng = body.rng
    is_bright = bool(rng.random() < 0.5)
    at = rng.uniform(*_AT)
    blob = body.ellipsoid((at, *rng.uniform(9, 14, 2)), _SIGN_RADII)
    body.image[blob] += _SIGN if is_bright else -_SIGN
    middle = at + rng.uniform(*_CENTER)
    for number in range(rng.integers(4, 7)):
        lane = np.array([6.5, 11.5, 16.5])[[number % 3, (number + number // 3) % 3]]
        center = (middle + rng.uniform(-_SPREAD, _SPREAD), *(lane + rng.uniform(-1.5, 1.5, 2)))
        _add(body, body.ball(center, rng.uniform(*_RADII)), 1 if is_bright else 2)


def side(body: Body) -> None:
    """Paints pairs of equal structures on the left and right; only a far sign distinguishes the sides.

    Label 1 is the side of the sign. Patients are mirrored at random along y.
    """
    rng = body.rng
    is_mirrored = bool(rng.random() < 0.5)
    y = rng.uniform(5.0, 6.5)
    start, end = rng.uniform(3, 6), rng.uniform(44, 48)
    center = ((start + end) / 2, 23 - y if is_mirrored else y, rng.uniform(10.5, 12.5))
    body.image[body.ellipsoid(center, ((end - start) / 2, 4.5, 7.0))] += _SIGN
    middle = end + rng.uniform(*_CENTER)
    for number in rng.permutation(6)[: rng.integers(4, 7)]:
        x, z = middle + (number % 2 - 0.5) * _SPREAD, 6 + 5.5 * (number // 2)
        for label, is_low in ((1, not is_mirrored), (2, is_mirrored)):
            y = rng.uniform(5.5, 7.0)
            center = (x + rng.uniform(-3, 3), y if is_low else 23 - y, z + rng.uniform(-1, 1))
            _add(body, body.ball(center, rng.uniform(*_RADII)), label)


def _add(body: Body, mask: np.ndarray, label: int, contrast: float | np.ndarray = _STRUCTURE) -> None:
    """Paints a structure, except on top of another one."""
    body.image += np.where(mask & (body.labels == 0), contrast, 0).astype(np.float32)
    body.labels[mask & (body.labels == 0)] = label


def texture(body: Body) -> None:
    """Paints structures anywhere, all with the same mean: label 1 alternates from voxel to voxel, label 2 is smooth."""
    rng = body.rng
    alternating = np.float32((np.indices(SHAPE).sum(0) % 2) * 2 - 1)
    middles = np.linspace(16, 176, 9) + rng.uniform(-5, 5, 9)
    for number, x in enumerate(rng.permutation(middles)):
        center = (x, *rng.uniform(7, 16, 2))
        label = 1 + number % 2
        _add(body, body.ball(center, rng.uniform(3.0, 4.5)), label, _STRUCTURE + 200 * alternating * (label == 1))


def _kind(structures: Callable[[Body], None], first: str, second: str) -> Kind:
    """Returns bodies with these structures, whose voxels measure 1 mm, and the names of their two labels."""

    def paint(rng: np.random.Generator) -> Patient:
        image, labels = paint_body(rng, structures)
        return Patient((np.clip(np.rint(image), -1000, 3000).astype(np.int16),), labels, (1.0, 1.0, 1.0))

    description = Description(channels=("MR",), labels={first: 1, second: 2}, masks={first: (1,), second: (2,)})
    return Kind("body", description, (NNUNET,), paint)


PHANTOMS = {
    "marker": _kind(marker, "with_bright_marker", "with_dark_marker"),
    "side": _kind(side, "sign_side", "other_side"),
    "texture": _kind(texture, "alternating", "smooth"),
}
