"""The decision between whole volumes and patches, and the costs of both."""

import dataclasses
import math
from collections.abc import Callable

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.body_sides import choose_sides
from mtf_imaging.jobs.choices.fitting import Failures, Fitted, Search, fit_whole, too_fine, too_large
from mtf_imaging.jobs.choices.patching import FEWEST_VOXELS, fit_patch
from mtf_imaging.jobs.choices.spacing import choose_grid, choose_spacing
from mtf_imaging.jobs.steps.costs import Hosts, WholeImage, image_cost, receptive_field_of
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.prediction import Prediction
from mtf_imaging.planner.cost.receptive_field import ReceptiveField
from mtf_imaging.training.step import TrainingStep

WHOLE, PATCHES = "whole volumes", "patches"
_ON_REQUEST = "as the setting patches demands"


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
    """Chooses between whole volumes and patches, both at the spacing of the data.

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
    spacing = choose_spacing(fingerprint)
    grid = choose_grid(fingerprint, spacing.value)
    whole, failures = fit_whole(fingerprint, spacing, grid, search, num_devices, note)
    if whole is not None and patches != "always":
        reason = "they fit at the spacing of the data, so the network sees all of them in full detail"
        return Decision(whole, None, Choice(WHOLE, reason))
    if patches == "never":
        raise too_large(failures, hardware, num_devices)
    patch, smallest = fit_patch(fingerprint, spacing, grid, search, hardware, note)
    if patch is None and whole is None:
        raise too_large(failures, hardware, num_devices, smallest)
    if patch is None:
        raise ConfigError(
            f"patches is 'always', but no patch of at least {FEWEST_VOXELS} voxels along each axis is smaller than the "
            f"volumes of {format_grid(grid.value)} and fits. Fix: plan whole volumes with patches 'auto' or 'never'.",
            ["patches"],
        )
    return Decision(patch, whole, Choice(PATCHES, _ON_REQUEST if whole else _why_patches(fingerprint, patch, failures)))


def _why_patches(fingerprint: Fingerprint, patch: Fitted, failures: Failures) -> str:
    """Returns the reason that whole volumes do not fit, with a hint if labels may need them."""
    share = math.prod(patch.variant.sizes) / math.prod(patch.grid.value)
    reason = f"whole volumes do not fit, not even in turns: {too_fine(failures)}; a patch has {100 * share:.2g}% of one"
    sides = choose_sides(fingerprint)
    if sides.value:
        reason += f". L{sides.reason[1:]}: an offload_dir with more space lets whole volumes fit"
    return reason


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
    cost = image_cost(step, image, layout, hardware, hosts, with_whole=fitted.patch is None)
    return Alternative(fitted, cost.sliding or cost.whole, cost.windows, field)
