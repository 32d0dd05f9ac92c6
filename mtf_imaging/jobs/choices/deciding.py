"""The decision between whole volumes and patches, and the costs of both."""

import dataclasses
import math
from collections.abc import Callable

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.sampling.grid import AXIS_NAMES, format_grid
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.fitting import Fitted, Search, fit_whole, too_large
from mtf_imaging.jobs.choices.network import NNUNET
from mtf_imaging.jobs.choices.patching import FEWEST_VOXELS, fit_patch
from mtf_imaging.jobs.choices.spacing import COARSEST, choose_grid, choose_spacing
from mtf_imaging.jobs.steps.costs import Hosts, WholeImage, patch_cost, predict_cost, receptive_field_of, without_batch
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.prediction import Prediction
from mtf_imaging.planner.cost.receptive_field import ReceptiveField
from mtf_imaging.training.step import TrainingStep

WHOLE, PATCHES = "whole volumes", "patches"
LOSS = 2  # patches are preferred to whole volumes with voxels this many times larger than the data's
_ON_REQUEST = "as the setting patches demands"
_LOW_RESOLUTION = 0.25  # the share of the volume below which nnU-Net also plans a network at low resolution


@dataclasses.dataclass(frozen=True)
class Decision:
    """A step on whole volumes or on patches.

    Attributes:
      chosen: the step.
      other: the step of the other kind; None if it does not fit, or if it was not considered.
      kind: `WHOLE` or `PATCHES`, and the reason.
    """

    chosen: Fitted
    other: Fitted | None
    kind: Choice


def fit(
    fingerprint: Fingerprint,
    search: Search,
    hardware: Hardware,
    num_devices: int,
    note: Callable[[str], None],
    patches: str = "auto",
) -> Decision:
    """Chooses between whole volumes and patches.

    Whole volumes at the first spacing are best. If they do not fit, whole volumes with larger voxels are compared with
    the largest patches at the first spacing.

    Args:
      fingerprint: the data set.
      search: a function that ranks the layouts of a step.
      hardware: the kind of device.
      num_devices: number of devices.
      note: a function that is called with a line about each step that is tried.
      patches: "auto", "always" or "never".

    Raises:
      ConfigError: no step fits, or no layout keeps all devices busy.
    """
    whole, failures = fit_whole(fingerprint, search, hardware, num_devices, note)
    first = choose_spacing(fingerprint)
    if whole is not None and patches == "never":
        return Decision(whole, None, Choice(WHOLE, _ON_REQUEST))
    if whole is not None and whole.spacing.value == first.value and patches == "auto":
        reason = "they fit at the spacing of the data, so the network sees all of them in full detail"
        return Decision(whole, None, Choice(WHOLE, reason))
    if patches == "never":
        raise too_large(failures, hardware, num_devices)
    grid = choose_grid(fingerprint, first.value)
    patch, smallest = fit_patch(fingerprint, first, grid, search, hardware, note)
    if patch is not None:
        return _choose(whole, patch, is_on_request=patches == "always")
    if whole is None:
        raise too_large(failures, hardware, num_devices, smallest)
    if patches == "always":
        raise ConfigError(
            f"patches is 'always', but no patch of at least {FEWEST_VOXELS} voxels along each axis is smaller than the "
            f"volumes of {format_grid(grid.value)} and fits. Fix: plan whole volumes with patches 'auto' or 'never'.",
            ["patches"],
        )
    return Decision(whole, None, Choice(WHOLE, "patches at the spacing of the data do not fit"))


def _choose(whole: Fitted | None, patch: Fitted, is_on_request: bool) -> Decision:
    """Chooses between a step on whole volumes, which may not exist, and a step on patches."""
    if is_on_request:
        return Decision(patch, whole, Choice(PATCHES, _ON_REQUEST))
    if whole is None:
        reason = f"whole volumes do not fit, even with voxels {COARSEST:g} times as large as those of the data"
        return Decision(patch, None, Choice(PATCHES, reason))
    reason, is_too_coarse = _compare(whole, patch)
    if is_too_coarse:
        return Decision(patch, whole, Choice(PATCHES, reason))
    return Decision(whole, patch, Choice(WHOLE, reason))


def _compare(whole: Fitted, patch: Fitted) -> tuple[str, bool]:
    """Returns the reason for a decision, and whether the whole volumes are too coarse."""
    coarse, fine = whole.spacing.value, patch.spacing.value
    ratios = {name: much / mm for name, much, mm in zip(AXIS_NAMES, coarse, fine, strict=True)}
    axis, worst = max(ratios.items(), key=lambda item: item[1])
    share = math.prod(patch.variant.sizes) / math.prod(patch.grid.value)
    with_voxels = (
        f"with voxels of {format_spacing(coarse)} mm, {worst:.3g} times as long along {axis} as at the spacing of the "
        f"data, {format_spacing(fine)} mm; {LOSS} times is the limit"
    )
    if worst <= LOSS:
        reason = f"they fit {with_voxels}, so the network sees whole volumes instead of {100 * share:.2g}% of them"
        return reason, False
    both = ""
    if share < _LOW_RESOLUTION:
        both = (
            f". A patch of {format_grid(patch.variant.sizes)} has {100 * share:.2g}% of a volume; below "
            f"{_LOW_RESOLUTION:.0%}, nnU-Net also plans a network on whole volumes at low resolution (3d_lowres, "
            f"{NNUNET}), as patches = 'never' does here. Compare both if labels depend on distant structures"
        )
    return f"whole volumes fit only {with_voxels}, and patches keep the detail{both}", True


@dataclasses.dataclass(frozen=True)
class Alternative:
    """A step that fits, with its costs.

    Attributes:
      fitted: the choices.
      prediction: the cost of predicting one volume, with windows as large as the patch; None if unknown.
      windows: the number of windows; 1 for whole volumes.
      receptive_field: the voxels on which an output voxel depends; None if unknown.
    """

    fitted: Fitted
    prediction: Prediction | None
    windows: int
    receptive_field: ReceptiveField | None

    @property
    def seconds(self) -> float:
        """The seconds of a training step."""
        return self.fitted.found.time.total

    @property
    def hours(self) -> float:
        """The hours of all training steps."""
        return self.seconds * self.fitted.num_steps.value / 3600


def with_costs(fitted: Fitted, step: TrainingStep, hardware: Hardware, hosts: Hosts) -> Alternative:
    """Returns a step with its costs.

    Args:
      fitted: the choices.
      step: the training step.
      hardware: the kind of device.
      hosts: the hosts.
    """
    layout, image = fitted.layout.value, WholeImage(fitted.grid.value, fitted.spacing.value)
    field = receptive_field_of(step, image)
    if fitted.patch is None:
        return Alternative(fitted, predict_cost(step, without_batch(layout), hardware, hosts), 1, field)
    cost = patch_cost(step, image, layout, hardware, hosts, with_whole=False)
    return Alternative(fitted, cost.sliding, cost.windows, field)
