"""The widest network and the largest batch of whole volumes that fit on the devices."""

import dataclasses
from collections.abc import Callable

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.data.sampling.sampling import Spacing, format_spacing
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.network import FILTERS, MOST, NNUNET, batch_sizes
from mtf_imaging.jobs.choices.recipe import choose_steps
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.search.search import Found, Searched


@dataclasses.dataclass(frozen=True)
class Variant:
    """One training step that a plan considers.

    Attributes:
      spacing: voxel size in mm along x, y and z.
      grid: voxels along x, y and z.
      filters: filters of the first level of the network.
      batch_size: volumes or patches in a step.
      patch: voxels of a patch along x, y and z; None for whole volumes.
    """

    spacing: Spacing
    grid: Grid
    filters: int
    batch_size: int
    patch: Grid | None = None

    @property
    def sizes(self) -> Grid:
        """The voxels of the network's input: the patch if there is one, else the grid."""
        return self.grid if self.patch is None else self.patch


@dataclasses.dataclass(frozen=True)
class Fitted:
    """The step that fits on the devices.

    Attributes:
      spacing, grid, batch_size, num_steps: the choices.
      filters: filters of the first level of the network.
      found: the layout with its costs.
      patch: the size of the patches; None for whole volumes.
    """

    spacing: Choice
    grid: Choice
    filters: int
    batch_size: Choice
    num_steps: Choice
    found: Found
    patch: Choice | None = None

    @property
    def layout(self) -> Choice:
        """The layout."""
        devices, turns = self.found.layout.processors, self.found.plan.turns
        if turns is not None:
            reason = (
                f"a volume does not fit at once, so a device computes {turns.turns} slabs in turn. The others wait in "
                f"{format_bytes(turns.waiting)} of offload_dir, or of host memory if there is a GPU; a step writes "
                f"{format_bytes(turns.written)} and reads {format_bytes(turns.read)}"
            )
            return Choice(self.found.layout, reason)
        alone = f"one device computes the whole {'volume' if self.patch is None else 'batch'}"
        return Choice(self.found.layout, alone if devices == 1 else f"the fastest for {devices} devices")

    @property
    def recompute(self) -> Choice:
        """Whether activations are recomputed in the backward pass."""
        needed = "activations do not fit otherwise; this costs one more forward pass"
        return Choice(self.found.recompute, needed if self.found.recompute else "all activations fit")

    @property
    def variant(self) -> Variant:
        """The training step."""
        patch = None if self.patch is None else self.patch.value
        return Variant(self.spacing.value, self.grid.value, self.filters, self.batch_size.value, patch)


Search = Callable[[Variant], Searched]
Failures = list[tuple[Variant, int]]  # steps that do not fit, with their bytes per device under the best layout


def fit_whole(
    fingerprint: Fingerprint,
    spacing: Choice,
    grid: Choice,
    search: Search,
    num_devices: int,
    note: Callable[[str], None],
) -> tuple[Fitted | None, Failures]:
    """Returns the step on whole volumes with the widest network that fits, and the steps that do not fit.

    Args:
      fingerprint: the data set.
      spacing, grid: the voxel size, and the voxels of the volumes.
      search: a function that ranks the layouts of a step.
      num_devices: number of devices.
      note: a function that is called with a line about each step that is tried.

    Raises:
      ConfigError: no layout keeps all devices busy.
    """
    failures: Failures = []
    for filters in FILTERS:
        variant = Variant(spacing.value, grid.value, filters, 1)
        note(f"{format_spacing(spacing.value)} mm, {format_grid(grid.value)}, {filters} filters")
        searched = search(variant)
        if searched.best is not None:
            found, batch = _largest_batch(searched.best, variant, len(fingerprint.cases), search, note)
            steps = choose_steps(len(fingerprint.cases), batch.value, variant.grid, variant.sizes)
            return Fitted(spacing, grid, filters, batch, steps, found), failures
        if not searched.found:
            raise _idle(searched, variant, num_devices)
        failures.append((variant, min(found.plan.memory for found in searched.found)))
    return None, failures


def _largest_batch(
    alone: Found, variant: Variant, num_cases: int, search: Search, note: Callable[[str], None]
) -> tuple[Found, Choice]:
    """Returns the layout and the size of the largest batch that fits without recomputation."""
    most = batch_sizes(num_cases)[0]
    if most > 1 and alone.layout.sequential:
        return alone, Choice(1, "even one volume fits only in turns")
    if most > 1 and alone.recompute:
        return alone, Choice(1, "even one volume fits only with recomputed activations")
    limit = f"the most for {num_cases} cases: 5% of them, but at least 2, and at most {MOST} ({NNUNET})"
    for size in batch_sizes(num_cases)[:-1]:
        note(f"batch of {size}")
        best = search(dataclasses.replace(variant, batch_size=size)).best
        if best is not None and not best.recompute:
            return best, Choice(size, limit)
        limit = "a larger batch does not fit"
    return alone, Choice(1, limit if most > 1 else "there is one case")


def too_fine(failures: Failures) -> str:
    """Returns how much memory whole volumes need with the widest and the narrowest network."""
    (variant, most), (narrow, least) = failures[0], failures[-1]
    return (
        f"a step on one volume of {format_grid(variant.grid)} voxels needs {format_bytes(most)} per device, and "
        f"{format_bytes(least)} with {narrow.filters} filters"
    )


def _idle(searched: Searched, variant: Variant, num_devices: int) -> ConfigError:
    reason = next(iter(searched.skipped.values()), "there is no such layout")
    return ConfigError(
        f"no layout keeps {num_devices} devices busy with one volume of {format_grid(variant.grid)}: {reason}. "
        "Fix: use fewer devices.",
        ["num_devices"],
    )


def too_large(
    failures: Failures, hardware: Hardware, num_devices: int, patch: tuple[Variant, int] | None = None
) -> ConfigError:
    """Returns the error that reports that no step fits.

    Args:
      failures: the steps on whole volumes that do not fit.
      hardware: the kind of device.
      num_devices: number of devices.
      patch: the smallest patch that was tried, and its bytes per device.
    """
    smaller = ""
    if patch is not None:
        smaller = f" Even patches of {format_grid(patch[0].sizes)} need {format_bytes(patch[1])}."
    return ConfigError(
        f"{too_fine(failures)}, but {num_devices} x {hardware.name} have {format_bytes(int(hardware.usable_memory))} "
        f"each ({hardware.usable:.0%} of {format_bytes(int(hardware.memory))}), and there is too little space for "
        f"turns.{smaller} Fix: use more devices, devices with more memory, or an offload_dir with more space.",
        ["num_devices", "hardware", "memory", "offload_dir"],
    )
