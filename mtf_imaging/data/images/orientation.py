"""Infers the orientation of a CT from the spine when its header lacks one."""

import numpy as np

_BONE_HU = 250
_BODY_HU = -300
# A fraction of the depth of the body. In a CT and in phantoms, the mean position of bone was 0.16 to 0.23 of the depth
# behind that of the body.
_CLEARLY = 0.08


class SpineSearch:
    """Finds the spine in a CT, slab by slab, to determine whether the second axis points to the back.

    Arrays without geometry follow one of two conventions. In NIfTI, x points to the right and y to the front. In DICOM,
    x points to the left and y to the back. Most of the bone in an abdomen is the spine, which lies at the back.
    """

    def __init__(self) -> None:
        self._body: np.ndarray | int = 0
        self._bone: np.ndarray | int = 0

    def add(self, hu: np.ndarray) -> None:
        """Adds a slab `[x, y, planes]`, with x and y in the axial plane."""
        self._body = self._body + _rows_above(hu, _BODY_HU)
        self._bone = self._bone + _rows_above(hu, _BONE_HU)

    def y_points_back(self) -> bool:
        """Returns True only if bone is clearly nearer to the high end of y."""
        body, bone = np.asarray(self._body), np.asarray(self._bone)
        if not bone.any():
            return False
        rows = np.arange(len(bone))
        depth = np.ptp(np.flatnonzero(body)) + 1
        return bool(np.average(rows, weights=bone) - np.average(rows, weights=body) > _CLEARLY * depth)


def y_points_back(hu: np.ndarray) -> bool:
    """Returns whether the second axis of a CT `[x, y, z]` points to the back rather than to the front."""
    search = SpineSearch()
    search.add(hu)
    return search.y_points_back()


def _rows_above(hu: np.ndarray, level: int) -> np.ndarray:
    """Counts the voxels above a level in each row `[y]`, plane by plane to save memory."""
    return sum(np.count_nonzero(hu[:, :, z] > level, axis=0) for z in range(hu.shape[2]))
