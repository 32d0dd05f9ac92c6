"""Warns about voxels that a sampling crops from a volume."""

import logging
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid, Region, whole_region
from mtf_imaging.data.sampling.regions import ALONG_Z, moved, overlap, region_shape
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.engine.layout.regions import absolute

_FIX = "Fix: increase the resolution, or choose a coarser spacing"
_SETTINGS = {"settings": ("resolution", "spacing")}
_PLANES = 32  # planes of labels to count at a time
_log = logging.getLogger(__name__)


class CroppedLabels:
    """Counts the mask voxels that a sampling crops; in LiTS, liver and lesion voxels.

    Args:
      geometry: geometry of the volume.
      sampling: resolution and spacing of the network's input.
      description: the masks.
      crop: the region of the volume that is resampled; None for the whole volume.

    Attributes:
      is_possible: whether any voxel of the volume is cropped.
    """

    def __init__(
        self, geometry: Geometry, sampling: AnySampling, description: Description = LITS, crop: Region | None = None
    ) -> None:
        crop = crop or whole_region(geometry.shape)
        self._box = sampling.choose(region_shape(crop), geometry.spacing)
        self._kept = absolute(_kept(region_shape(crop), geometry, self._box), crop)
        self._description = description
        self._total, self._cropped = (dict.fromkeys(description.masks, 0) for _ in range(2))
        self.is_possible = region_shape(self._kept) != geometry.shape

    def add(self, region: Region, labels: np.ndarray) -> None:
        """Adds the labels `[x, y, z]` in a region of the volume."""
        kept = tuple(map(overlap, region, self._kept))
        inside = labels[moved(kept, region)]
        for name in self._description.masks:
            total = np.count_nonzero(self._description.mask(name, labels))
            self._total[name] += total
            self._cropped[name] += total - np.count_nonzero(self._description.mask(name, inside))

    def warn(self, path: Path) -> None:
        """Logs a warning if mask voxels are cropped; `path` is the path of the labels."""
        lost = [f"{count} of {self._total[name]} {name} voxels" for name, count in self._cropped.items() if count]
        if lost:
            what = " and ".join([", ".join(lost[:-1]), lost[-1]] if len(lost) > 1 else lost)
            _log.warning(
                "%s: %s lie outside the box %s and are cropped. %s.", path, what, self._box, _FIX, extra=_SETTINGS
            )


def warn_of_cropped_labels(path: Path, labels: np.ndarray, cropped: CroppedLabels) -> None:
    """Logs a warning if mask voxels are cropped.

    Args:
      path: path of the labels.
      labels: `[x, y, z]`, an array or `CompactLabels`, which is read in slabs.
      cropped: the counts of cropped voxels.
    """
    if cropped.is_possible:
        for slab in ALONG_Z.parts(whole_region(labels.shape), _PLANES):
            cropped.add(slab, labels[slab])
        cropped.warn(path)


def warn_of_cropped_volume(path: Path, geometry: Geometry, sampling: AnySampling) -> None:
    """Logs a warning if the box does not cover a volume; voxels outside the box are predicted as background."""
    sampling = sampling.choose(geometry.shape, geometry.spacing)
    cut = []
    inside = _kept(geometry.shape, geometry, sampling)
    for name, n, mm, kept in zip(AXIS_NAMES, geometry.shape, geometry.spacing, inside, strict=True):
        if kept.stop - kept.start < n:
            ends = f"the first {kept.start * mm:.0f} and last {(n - kept.stop) * mm:.0f} of {n * mm:.0f} mm"
            cut.append(f"{ends} along {name}")
    if cut:
        what = f"the volume is larger than the box {sampling}; {', '.join(cut)} are not segmented and become background"
        _log.warning("%s: %s. %s, in training too.", path, what, _FIX, extra=_SETTINGS)


def _kept(shape: Grid, geometry: Geometry, sampling: Sampling) -> Region:
    """Returns the voxels of a volume, or of a part with some shape, that the box covers."""
    spans = sampling.spans(shape, geometry.spacing)
    return tuple(span.inverse(n).inside(size) for span, n, size in zip(spans, shape, sampling.grid, strict=True))
