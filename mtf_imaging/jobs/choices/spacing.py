"""The spacing and the grid of a plan.

The spacing follows nnU-Net: Isensee et al. 2021, "nnU-Net: a self-configuring method for deep learning-based biomedical
image segmentation", Nature Methods 18, 203-211.
"""

import numpy as np

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.listing.image_formats import is_picture_ending
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.data.sampling.sampling import Spacing, format_spacing, smallest_box
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.network import pad_to_levels

ANISOTROPY = 3  # the ratio of voxel sizes from which nnU-Net treats an axis separately
_PERCENTILE = 10
_COVERED = 0.99
_DIGITS = 3


def choose_spacing(fingerprint: Fingerprint) -> Choice:
    """Chooses the voxel size in mm: the median, or nnU-Net's rule for the coarsest axis of anisotropic data."""
    spacing = list(fingerprint.median_spacing)
    worst = max(range(len(spacing)), key=lambda axis: spacing[axis])
    if not _is_anisotropic(fingerprint, worst):
        return Choice(_rounded(spacing), "the median voxel size of the cases")
    others = [mm for axis, mm in enumerate(spacing) if axis != worst]
    sizes = [case.spacing[worst] for case in fingerprint.cases]
    fine = max(float(np.percentile(sizes, _PERCENTILE)), *others)
    name, median = AXIS_NAMES[worst], spacing[worst]
    spacing[worst] = fine
    return Choice(
        _rounded(spacing),
        f"the median voxel size of the cases, but the {_PERCENTILE}th percentile along {name}: the median of "
        f"{median:g} mm is more than {ANISOTROPY} times the size along the other axes, and would lose the detail of "
        "the cases with thinner slices (Isensee et al. 2021)",
    )


def _is_anisotropic(fingerprint: Fingerprint, worst: int) -> bool:
    """Returns whether an axis has both larger voxels and fewer of them than the others, by a factor of 3."""
    spacing, shape = fingerprint.median_spacing, fingerprint.median_shape
    others = [axis for axis in range(len(spacing)) if axis != worst]
    return spacing[worst] > ANISOTROPY * max(spacing[axis] for axis in others) and shape[worst] * ANISOTROPY < min(
        shape[axis] for axis in others
    )


def choose_grid(fingerprint: Fingerprint, spacing: Spacing) -> Choice:
    """Chooses the number of voxels along x, y and z at a spacing.

    The box covers 99% of the fields of view along each axis, and all labeled voxels. It is larger by one voxel at each
    end, because `convert` shifts the box by up to a voxel. It is padded as `pad_to_levels` describes.
    """
    extents = np.array([case.extent_mm for case in fingerprint.cases])
    most = np.quantile(extents, _COVERED, axis=0, method="higher")
    labeled = np.max([case.labeled_mm for case in fingerprint.cases], axis=0)
    margin = 2 * np.array(spacing)
    wanted = np.minimum(extents.max(axis=0), np.maximum(most, labeled + margin))
    x, y, z = map(float, wanted)
    box = smallest_box([((1, 1, 1), (x, y, z))], spacing, multiple=1)
    if is_flat(fingerprint):
        box = (*box[:2], 1)
    grid = pad_to_levels(box, spacing)
    what = f"the smallest box of {format_spacing(spacing)} mm that covers"
    cropped = int((extents > wanted + 1e-3).any(axis=1).sum())
    whole = "every case" if not cropped else f"all labels, and all but the margins of {cropped} large case(s)"
    added = [f"{axis} {size - own}" for axis, own, size in zip(AXIS_NAMES, box, grid, strict=True) if size > own]
    padding = f", and {', '.join(added)} more voxels, so that more levels have even sizes" if added else ""
    flat = "; the images have one plane" if is_flat(fingerprint) else ""
    return Choice(grid, f"{what} {whole}{padding}{flat}")


def is_flat(fingerprint: Fingerprint) -> bool:
    """Returns whether the images are 2D pictures, stored as volumes of one plane."""
    return is_picture_ending(fingerprint.description.file_ending)


def _rounded(spacing: list[float]) -> Spacing:
    x, y, z = (round(float(mm), _DIGITS) for mm in spacing)
    return x, y, z
