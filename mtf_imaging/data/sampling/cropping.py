"""Warns about voxels of a volume that the box of a sampling crops."""

import collections
import logging
from pathlib import Path

import numpy as np

from mtf_imaging.data.cases.description import LITS, Description
from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import AXIS_NAMES, Region, whole_region
from mtf_imaging.data.sampling.regions import ALONG_Z
from mtf_imaging.data.sampling.sampling import Sampling

_FIX = "Fix: increase the resolution, or choose a coarser spacing"
_SETTINGS = {"settings": ("resolution", "spacing")}
_PLANES = 32  # planes of labels to count at a time
_log = logging.getLogger(__name__)


def warn_of_cropped_labels(
    path: Path, labels: np.ndarray, geometry: Geometry, sampling: AnySampling, description: Description = LITS
) -> None:
    """Logs a warning if the sampling crops voxels of a mask, in LiTS liver or lesion.

    Args:
      path: path of the labels.
      labels: `[x, y, z]`, an array or `CompactLabels`, which is read in slabs.
      geometry: geometry of the volume.
      sampling: resolution and spacing of the network's input.
      description: the masks.
    """
    kept = _kept(geometry, sampling.choose(geometry.shape, geometry.spacing))
    everything = whole_region(labels.shape)
    if kept == everything:
        return
    total, inside = (_count(labels, region, description) for region in (everything, kept))
    lost = [
        f"{total[name] - inside[name]} of {total[name]} {name} voxels"
        for name in description.masks
        if inside[name] < total[name]
    ]
    if lost:
        _log.warning(
            "%s: %s lie outside the box %s and are cropped. %s.",
            path,
            " and ".join([", ".join(lost[:-1]), lost[-1]] if len(lost) > 1 else lost),
            sampling,
            _FIX,
            extra=_SETTINGS,
        )


def warn_of_cropped_volume(path: Path, geometry: Geometry, sampling: AnySampling) -> None:
    """Logs a warning if the box does not cover a volume; voxels outside the box are predicted as background."""
    sampling = sampling.choose(geometry.shape, geometry.spacing)
    cut = []
    for name, n, mm, kept in zip(AXIS_NAMES, geometry.shape, geometry.spacing, _kept(geometry, sampling), strict=True):
        if kept.stop - kept.start < n:
            cut.append(
                f"the first {kept.start * mm:.0f} and last {(n - kept.stop) * mm:.0f} of {n * mm:.0f} mm along {name}"
            )
    if cut:
        _log.warning(
            "%s: the volume is larger than the box %s; %s are not segmented and become background. "
            "%s, in training too.",
            path,
            sampling,
            ", ".join(cut),
            _FIX,
            extra=_SETTINGS,
        )


def _kept(geometry: Geometry, sampling: Sampling) -> tuple[slice, slice, slice]:
    """Returns the voxels of a volume that the box covers, as one Python slice per axis."""
    spans = sampling.spans(geometry.shape, geometry.spacing)
    return tuple(
        span.inverse(n).inside(size) for span, n, size in zip(spans, geometry.shape, sampling.grid, strict=True)
    )


def _count(labels: np.ndarray, region: Region, description: Description) -> collections.Counter[str]:
    """Returns the number of voxels of each mask in a region."""
    counts = collections.Counter()
    for slab in ALONG_Z.parts(region, _PLANES):
        part = labels[slab]
        counts.update({name: int(np.count_nonzero(description.mask(name, part))) for name in description.masks})
    return counts
