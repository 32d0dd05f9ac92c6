"""Say what a box in mm crops away of a volume, by the name of its file."""

import logging
from pathlib import Path

import numpy as np

from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.data.sampling.sampling import Sampling

_FIX = "Fix: a larger resolution, or a coarser spacing"
_SETTINGS = {"settings": ("resolution", "spacing")}
_log = logging.getLogger(__name__)


def warn_of_cropped_labels(path: Path, labels: np.ndarray, geometry: Geometry, sampling: Sampling) -> None:
    """Warns where the sampling crops liver or lesion away.

    Args:
      path: file of the labels.
      labels: `[x, y, z]`; as everywhere, lesions count as liver, too.
      geometry: of their volume.
      sampling: the voxels that a network works on.
    """
    kept = labels[_kept(geometry, sampling)]
    if kept.size == labels.size:
        return
    lost = []
    for name, label in (("liver", 1), ("lesion", 2)):
        total = np.count_nonzero(labels >= label)
        cropped = total - np.count_nonzero(kept >= label)
        if cropped:
            lost.append(f"{cropped} of {total} {name} voxels")
    if lost:
        _log.warning(
            "%s: %s lie outside of the box %s and are cropped away. %s.",
            path,
            " and ".join(lost),
            sampling,
            _FIX,
            extra=_SETTINGS,
        )


def warn_of_cropped_volume(path: Path, geometry: Geometry, sampling: Sampling) -> None:
    """Warns where a prediction cannot cover a volume, for what lies outside is background, whatever it shows."""
    cut = []
    for name, n, mm, kept in zip(AXIS_NAMES, geometry.shape, geometry.spacing, _kept(geometry, sampling), strict=True):
        if kept.stop - kept.start < n:
            cut.append(f"{kept.start * mm:.0f} and {(n - kept.stop) * mm:.0f} of {n * mm:.0f} mm along {name}")
    if cut:
        _log.warning(
            "%s: larger than the box %s; background without a look are the first and last %s. %s, in training, too.",
            path,
            sampling,
            ", ".join(cut),
            _FIX,
            extra=_SETTINGS,
        )


def _kept(geometry: Geometry, sampling: Sampling) -> tuple[slice, slice, slice]:
    """The voxels of a volume that the box covers."""
    spans = sampling.spans(geometry.shape, geometry.spacing)
    return tuple(
        span.inverse(n).inside(size) for span, n, size in zip(spans, geometry.shape, sampling.grid, strict=True)
    )
