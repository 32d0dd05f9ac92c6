"""The positions and simple shapes from which synthetic patients are painted.

Positions are in mm in a patient frame: x points to the right, y to the front and z to the head. Organs are ellipsoids
and tubes, in coordinates that a smooth random field deforms, so every patient and every organ is different.
"""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.data.sampling.sampling import whole_field
from mtf_imaging.data.sampling.slabs import linear_slabs


@dataclass
class Scene:
    """The state of a patient during painting.

    Attributes:
      rng: the random number generator of the patient.
      straight: `[3, x, y, z]` float32, position of each voxel in mm.
      points: `[3, x, y, z]` float32, positions in deformed patient coordinates, in which organs are simple shapes.
      labels: `[x, y, z]` uint8, the labels painted so far.
    """

    rng: np.random.Generator
    straight: np.ndarray
    points: np.ndarray
    labels: np.ndarray

    def ellipsoid(self, center, radii) -> np.ndarray:
        """Returns the squared distance `[x, y, z]` from `center` in units of `radii`, below 1 inside the ellipsoid."""
        offsets = (self.points - column(center)) / column(radii)
        return np.einsum("cxyz,cxyz->xyz", offsets, offsets)

    def organ(self, center, radii, wobble=0.08) -> np.ndarray:
        """Returns the mask of an ellipsoid with randomly varied radii."""
        radii = np.multiply(radii, self.rng.uniform(1 - wobble, 1 + wobble, 3))
        near = self._box(np.subtract(center, radii), np.add(center, radii))
        offsets = (self._points_at(near) - _column(center)) / _column(radii)
        return self._mask(near, np.einsum("cn,cn->n", offsets, offsets) < 1)

    def tube(self, start, end, radius) -> np.ndarray:
        """Returns the mask of a cylinder with round ends from `start` to `end`."""
        near = self._box(np.minimum(start, end) - radius, np.maximum(start, end) + radius)
        offsets, along = self._points_at(near) - _column(start), _column(np.subtract(end, start))
        t = np.clip((offsets * along).sum(0) / (along * along).sum(), 0, 1)
        offsets -= t * along
        return self._mask(near, np.einsum("cn,cn->n", offsets, offsets) < radius**2)

    def _box(self, low, high) -> np.ndarray:
        """Returns the flat indices of the voxels in a box; shapes are much smaller than the volume."""
        inside = np.ones(self.labels.shape, bool)
        for axis, least, most in zip(self.points, low, high, strict=True):
            inside &= (axis >= np.float32(least - 1e-3)) & (axis <= np.float32(most + 1e-3))
        return np.flatnonzero(inside)

    def _points_at(self, voxels: np.ndarray) -> np.ndarray:
        return self.points.reshape(3, -1)[:, voxels]

    def _mask(self, voxels: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Returns a mask that has `values` at flat indices and is False elsewhere."""
        mask = np.zeros(self.labels.shape, bool)
        mask.flat[voxels[values]] = True
        return mask


def voxel_positions(shape: tuple[int, int, int], spacing: tuple[float, float, float]) -> np.ndarray:
    """Returns the positions of voxels in mm, float32 `[3, x, y, z]`, with the origin in the middle of the volume."""
    centers = (np.arange(n, dtype=np.float32) + 0.5 - n / 2 for n in shape)
    positions = np.stack(np.meshgrid(*centers, indexing="ij"))
    positions *= column(spacing)
    return positions


def smooth_field(rng: np.random.Generator, shape: tuple[int, int, int], knots: int) -> np.ndarray:
    """Returns a smooth random field, float32 `[*shape]`, from `knots`^3 random values in -1..1."""
    field = rng.uniform(-1, 1, (knots, knots, knots)).astype(np.float32)
    # Cubic interpolation to four times the knots, then linear interpolation: it looks as smooth as cubic
    # interpolation alone, and is ten times as fast.
    field = ndimage.zoom(field, 4, order=3, mode="nearest", grid_mode=True)
    result = np.empty(shape, np.float32)
    spans = whole_field(field.shape, shape)
    for slab, values in linear_slabs(field.__getitem__, field.shape, spans, whole_region(shape)):
        result[slab] = values
    return result


def column(values) -> np.ndarray:
    """Returns three values as float32 `[3, 1, 1, 1]`, to broadcast over positions."""
    return np.asarray(values, np.float32).reshape(3, 1, 1, 1)


def _column(values) -> np.ndarray:
    """Returns three values as float32 `[3, 1]`, to broadcast over flat positions."""
    return column(values).reshape(3, 1)
