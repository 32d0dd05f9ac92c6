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
from mtf_imaging.jobs.choices.body_sides import choose_sides
from mtf_imaging.jobs.choices.network import NNUNET
from mtf_imaging.jobs.choices.spacing import ANISOTROPY

_NNUNET_STEPS = 250_000
_NNUNET_VOXELS = 2 * 128**3  # voxels of a usual step of nnU-Net
_FEWEST_STEPS = 4_000
_ANGLE, _ANGLE_IN_PLANE, _ANGLE_2D = 30.0, 180.0, 15.0
_OBLONG = 1.5
_ROUNDED_TO = 5  # HU
_STRIPPED = 0.75  # the share of the nonzero box below which nnU-Net computes z-scores of nonzero voxels
_Z_SCORES = Z_SCORE, NONZERO_Z_SCORE


def choose_steps(num_cases: int, batch_size: int, volume: Grid, sizes: Grid) -> Choice:
    """Chooses the number of training steps.

    Args:
      num_cases: the number of cases.
      batch_size: volumes or patches in a step.
      volume: voxels of a volume along x, y and z.
      sizes: the same of the network's input, which is a volume or a patch.
    """
    voxels = batch_size * math.prod(sizes)
    equal = round(_NNUNET_STEPS * _NNUNET_VOXELS / voxels, -2)
    steps = int(min(max(equal, _FEWEST_STEPS), _NNUNET_STEPS))
    seen = f"each voxel is seen {steps * voxels / num_cases / math.prod(volume):,.0f} times on average"
    if steps == _NNUNET_STEPS:
        return Choice(steps, f"as in {NNUNET}; {seen}")
    if steps > equal:
        return Choice(steps, f"the fewest steps of a plan; {seen}")
    return Choice(steps, f"with the voxels of {_NNUNET_STEPS:,} steps on 2 patches of 128^3 voxels ({NNUNET}); {seen}")


def choose_augmentation(fingerprint: Fingerprint, grid: Grid, spacing: Spacing) -> dict[str, Choice]:
    """Chooses the augmentation, {parameter of `Augmentation`: choice}; see docs/evidence/plan.md."""
    angles, why = _rotation(grid, spacing)
    choices = {
        "flips": _flips(fingerprint, grid),
        "warp": Choice(0.36, f"{NNUNET} rotates a fifth of the samples and zooms a fifth, independently"),
        "rotation": Choice(angles, why),
        "zoom": Choice(0.4, f"from 1 / 1.4 to 1.4, as in {NNUNET}"),
        "blur": Choice(0.1, f"{NNUNET} blurs half of the channels in a fifth of the samples"),
        "low_resolution": Choice(0.125, f"{NNUNET} reduces half of the channels in a quarter of the samples"),
    }
    if isinstance(angles, tuple):
        within = tuple(name for name, angle in zip(AXIS_NAMES, angles, strict=True) if not angle)
        choices["low_resolution_axes"] = Choice(within, f"the axes of the plane that is rotated, as in {NNUNET}")
    if any(intensity.kind != NONE for intensity in fingerprint.description.intensities):
        always = f"all samples change, as much as those of {NNUNET} on average, where few change"
        noise = f"a tenth of the samples, as in {NNUNET}"
        choices["gamma"] = Choice(0.3, always)
        choices["contrast"] = Choice(0.15, always)
        choices["multiscale_noise"] = Choice(0.02 if _is_windowed(fingerprint) else 0.1, noise)
        choices["multiscale_noise_scales"] = Choice((1,), noise)
        choices["multiscale_noise_probability"] = Choice(0.1, noise)
    return choices


def _flips(fingerprint: Fingerprint, grid: Grid) -> Choice:
    axes = tuple(name for name, size in zip(AXIS_NAMES, grid, strict=True) if size > 1)
    sides = choose_sides(fingerprint)
    if sides.value:
        chosen = tuple(axis for axis in axes if axis != "x")
        return Choice(chosen, f"not along x, which would swap left and right: {sides.reason}")
    return Choice(axes, f"{sides.reason}, so mirrored anatomy is a plausible patient ({NNUNET})")


def _rotation(grid: Grid, spacing: Spacing) -> tuple[float | tuple[float, ...], str]:
    if min(grid) == 1:
        plane = sorted(grid)[1:]
        if plane[1] > _OBLONG * plane[0]:
            return (0.0, 0.0, _ANGLE_2D), f"degrees within an oblong plane, as in {NNUNET}"
        return (0.0, 0.0, _ANGLE_IN_PLANE), f"degrees within the plane, as in {NNUNET}"
    worst = max(range(len(spacing)), key=lambda axis: spacing[axis])
    if max(grid) > ANISOTROPY * grid[worst]:
        angles = tuple(_ANGLE_IN_PLANE if axis == worst else 0.0 for axis in range(len(spacing)))
        return angles, (
            f"degrees, only about {AXIS_NAMES[worst]}, which has long and few voxels: other rotations would shear the "
            f"volume ({NNUNET})"
        )
    return _ANGLE, f"degrees about each axis, as in {NNUNET}"


def _is_windowed(fingerprint: Fingerprint) -> bool:
    return all(intensity.kind in (WINDOW, RGB, RESCALE) for intensity in fingerprint.description.intensities)


def choose_crop(fingerprint: Fingerprint) -> Choice:
    """Chooses whether images are cropped to the box of their nonzero voxels, for skull-stripped images."""
    share = fingerprint.nonzero_share
    has_scores = any(intensity.kind in _Z_SCORES for intensity in fingerprint.description.intensities)
    where = f"the box of the nonzero voxels has {share:.0%} of the median case"
    if has_scores and share < _STRIPPED:
        return Choice(True, f"{where}, less than {_STRIPPED:.0%}, so the background was removed ({NNUNET})")
    return Choice(False, f"{where}, {f'at least {_STRIPPED:.0%}' if has_scores else 'but no channel has a z-score'}")


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
