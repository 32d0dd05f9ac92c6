"""The steps, the learning rate, the augmentation and the intensity window of a plan."""

import math

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.intensities.schemes import NONE, NONZERO_Z_SCORE, RESCALE, RGB, WINDOW, Z_SCORE
from mtf_imaging.data.intensities.statistics import PERCENTAGES
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW
from mtf_imaging.data.modality import is_ct
from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid
from mtf_imaging.data.sampling.sampling import Spacing
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.network import NNUNET
from mtf_imaging.jobs.choices.sides import sides_of
from mtf_imaging.jobs.choices.spacing import ANISOTROPY

_PASSES = 300
_FEWEST_STEPS, _MOST_STEPS = 4_000, 60_000
_ANGLE = 15.0
_ROUNDED_TO = 5  # HU
_STRIPPED = 0.75  # the share of the nonzero box below which nnU-Net computes z-scores of nonzero voxels
_Z_SCORES = Z_SCORE, NONZERO_Z_SCORE


def choose_steps(num_cases: int, batch_size: int, patches: int = 1) -> Choice:
    """Chooses the number of training steps.

    Args:
      num_cases: the number of cases.
      batch_size: volumes or patches in a step.
      patches: the number of patches that together have as many voxels as a volume; 1 for whole volumes.
    """
    steps = round(_PASSES * num_cases * patches / batch_size, -2)
    chosen = int(min(max(steps, _FEWEST_STEPS), _MOST_STEPS))
    times = chosen * batch_size / num_cases / patches
    passes = f"{num_cases} cases in batches of {batch_size} are seen {times:.0f} times each"
    if patches > 1:
        voxels = (
            f"patches, of which {patches} have the voxels of a case; each voxel is seen {times:.0f} times on average"
        )
        passes = f"{num_cases} cases in batches of {batch_size} {voxels}"
    if chosen == steps:
        return Choice(chosen, passes)
    bound = "fewest" if chosen == _FEWEST_STEPS else "most"
    return Choice(chosen, f"the {bound} steps of a plan, instead of {_PASSES} passes over the cases; {passes}")


def choose_augmentation(fingerprint: Fingerprint, grid: Grid, spacing: Spacing) -> dict[str, Choice]:
    """Chooses the augmentation, {parameter of `Augmentation`: choice}."""
    angles, why = _rotation(grid, spacing)
    choices = {
        "flips": _flips(fingerprint, grid),
        "warp": Choice(0.5, "half of the samples are warped; the others stay as sharp as the images"),
        "rotation": Choice(angles, why),
        "zoom": Choice(0.2, "patients differ in size"),
    }
    if any(intensity.kind != NONE for intensity in fingerprint.description.intensities):
        what = "scanners and protocols differ" if _is_windowed(fingerprint) else "intensities have no absolute scale"
        choices["gamma"] = Choice(0.3, what)
        choices["contrast"] = Choice(0.15, what)
        choices["brightness"] = Choice(0.1, what)
    return choices


def _flips(fingerprint: Fingerprint, grid: Grid) -> Choice:
    axes = tuple(name for name, size in zip(AXIS_NAMES, grid, strict=True) if size > 1)
    names = (*fingerprint.description.labels, *fingerprint.description.masks)
    sides = sides_of(names)
    if sides:
        chosen = tuple(axis for axis in axes if axis != "x")
        return Choice(chosen, f"not along x, which would swap left and right: {', '.join(sides)}")
    return Choice(axes, f"no label names a side, so mirrored anatomy is a plausible patient ({NNUNET})")


def _rotation(grid: Grid, spacing: Spacing) -> tuple[float | tuple[float, ...], str]:
    if min(grid) == 1:
        return (0.0, 0.0, _ANGLE), "degrees within the plane"
    if max(spacing) > ANISOTROPY * min(spacing):
        worst = max(range(len(spacing)), key=lambda axis: spacing[axis])
        angles = tuple(_ANGLE if axis == worst else 0.0 for axis in range(len(spacing)))
        return angles, (
            f"degrees, only about {AXIS_NAMES[worst]}: the voxels are more than {ANISOTROPY} times longer along it, so "
            f"other rotations would shear the volume ({NNUNET})"
        )
    return _ANGLE, "degrees about each axis"


def _is_windowed(fingerprint: Fingerprint) -> bool:
    return all(intensity.kind in (WINDOW, RGB, RESCALE) for intensity in fingerprint.description.intensities)


def choose_crop(fingerprint: Fingerprint) -> Choice:
    """Chooses whether images are cropped to the box of their nonzero voxels, for skull-stripped images."""
    share = fingerprint.nonzero_share
    if not any(intensity.kind in _Z_SCORES for intensity in fingerprint.description.intensities):
        return Choice(False, "no channel has a z-score, so 0 is a value like others")
    where = f"the box of the nonzero voxels has {share:.0%} of the median case"
    if share < _STRIPPED:
        return Choice(True, f"{where}, less than {_STRIPPED:.0%}, so the background was removed ({NNUNET})")
    return Choice(False, f"{where}, at least {_STRIPPED:.0%}")


def choose_intensities(fingerprint: Fingerprint) -> Choice:
    """Chooses the intensity schemes of cropped images, {channel: scheme}; channels that keep theirs are left out."""
    description = fingerprint.description
    kinds = zip(description.channels, description.intensities, strict=True)
    masked = {name: NONZERO_Z_SCORE for name, intensity in kinds if intensity.kind == Z_SCORE}
    return Choice(masked, f"0 is no measured value where the background was removed ({NNUNET})")


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
