"""The finest spacing, the widest network and the largest batch of whole volumes that fit on the devices."""

import dataclasses
import math
from collections.abc import Callable

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.data.sampling.sampling import Spacing, format_spacing
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.network import FILTERS, MOST, NNUNET, SMALL_BATCH, batch_sizes, is_large_batch
from mtf_imaging.jobs.choices.recipe import choose_steps
from mtf_imaging.jobs.choices.spacing import COARSEST, choose_grid, choose_spacing, coarser, is_flat
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.search.search import Found, Searched

_LONGEST_HOURS = 24  # limit for training with a batch of more than 5% of the cases


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
Failures = list[tuple[Spacing, Variant, int]]  # spacing, step, bytes per device under the best layout


def fit_whole(
    fingerprint: Fingerprint, search: Search, hardware: Hardware, num_devices: int, note: Callable[[str], None]
) -> tuple[Fitted | None, Failures]:
    """Returns the first step that fits, from the finest spacing and widest network down, and the failed ones.

    Args:
      fingerprint: the data set.
      search: a function that ranks the layouts of a step.
      hardware: the kind of device, for the available memory.
      num_devices: number of devices.
      note: a function that is called with a line about each step that is tried.

    Returns:
      The step, or None if no step fits at up to four times the first spacing; and the steps that do not fit.

    Raises:
      ConfigError: no layout keeps all devices busy.
    """
    available = hardware.usable_memory
    first = choose_spacing(fingerprint)
    grids = {spacing: choose_grid(fingerprint, spacing) for spacing in _spacings(first.value, is_flat(fingerprint))}
    variants = [
        (spacing, Variant(spacing, grid.value, filters, 1)) for spacing, grid in grids.items() for filters in FILTERS
    ]
    failures: Failures = []
    for spacing, variant in variants:
        is_last = (spacing, variant) == variants[-1]  # its memory is in the error message
        if _certainly_too_large(variant, failures, available) and not is_last:
            continue
        note(f"{format_spacing(spacing)} mm, {format_grid(variant.grid)}, {variant.filters} filters")
        searched = search(variant)
        if searched.best is not None:
            found, batch = _largest_batch(searched.best, variant, len(fingerprint.cases), search, note)
            reason = first.reason
            if spacing != first.value:
                too_fine = _too_fine(failures, available)
                reason = f"coarser than {format_spacing(first.value)} mm ({reason}): there, {too_fine}"
            steps = choose_steps(len(fingerprint.cases), batch.value)
            fitted = Fitted(Choice(spacing, reason), grids[spacing], variant.filters, batch, steps, found)
            return fitted, failures
        if not searched.found:
            raise _idle(searched, variant, num_devices)
        failures.append((spacing, variant, min(found.plan.memory for found in searched.found)))
    return None, failures


def _spacings(first: Spacing, flat: bool) -> list[Spacing]:
    """Returns the spacings to try, from the first to the coarsest."""
    spacings, spacing = [], first
    while all(mm <= COARSEST * least for mm, least in zip(spacing, first, strict=True)):
        spacings.append(spacing)
        spacing = coarser(spacing, flat)
    return spacings


def _certainly_too_large(variant: Variant, failures: Failures, available: float) -> bool:
    """Returns whether a step would not fit even if its weights and halos shrank with the volume."""
    volume = math.prod(variant.grid)
    return any(
        other.filters == variant.filters and memory * volume / math.prod(other.grid) > available
        for _, other, memory in failures
    )


def _largest_batch(
    alone: Found, variant: Variant, num_cases: int, search: Search, note: Callable[[str], None]
) -> tuple[Found, Choice]:
    """Returns the layout and the size of the largest batch that fits without recomputation.

    A batch of more than 5% of the cases also needs a training of at most `_LONGEST_HOURS`, because it takes longer: for
    few cases, a plan has the same number of steps for all batch sizes.
    """
    most = batch_sizes(num_cases)[0]
    if most > 1 and alone.layout.sequential:
        return alone, Choice(1, "even one volume fits only in turns")
    if most > 1 and alone.recompute:
        return alone, Choice(1, "even one volume fits only with recomputed activations")
    least = f"at least 2, or {SMALL_BATCH} from {2 * SMALL_BATCH} cases on"
    limit = f"the most for {num_cases} cases: 5% of them ({NNUNET}), but {least}, and at most {MOST}"
    for size in batch_sizes(num_cases)[:-1]:
        note(f"batch of {size}")
        best = search(dataclasses.replace(variant, batch_size=size)).best
        if best is None or best.recompute:
            limit = "a larger batch does not fit"
        elif is_large_batch(size, num_cases) and _hours(best, num_cases, size) > _LONGEST_HOURS:
            limit = (
                f"a batch of {size} would train for {_hours(best, num_cases, size):.0f} hours, an estimate; batches of "
                f"more than 5% of the cases may take {_LONGEST_HOURS}"
            )
        else:
            return best, Choice(size, limit)
    larger = f"{limit}; a whole volume has more voxels than a batch of patches"
    return alone, Choice(1, larger if most > 1 else "there is one case")


def _hours(found: Found, num_cases: int, batch_size: int) -> float:
    """Returns the duration of a whole training in hours."""
    return found.time.total * choose_steps(num_cases, batch_size).value / 3600


def _too_fine(failures: Failures, available: float) -> str:
    """Returns the reason that the grid of the first spacing is not used."""
    _, variant, memory = failures[0]
    return (
        f"a step on {format_grid(variant.grid)} voxels needs {format_bytes(memory)} per device, but "
        f"{format_bytes(int(available))} are available"
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
    available = hardware.usable_memory
    (finest, largest, most), (coarse, smallest, least) = failures[0], failures[-1]
    needs = f"{format_bytes(most)} per device at {format_spacing(finest)} mm ({format_grid(largest.grid)})"
    if len(failures) > 1:
        needs += (
            f", and still {format_bytes(least)} at {format_spacing(coarse)} mm ({format_grid(smallest.grid)}, "
            f"{smallest.filters} filters)"
        )
    smaller = ""
    if patch is not None:
        smaller = f" Even patches of {format_grid(patch[0].sizes)} need {format_bytes(patch[1])}."
    return ConfigError(
        f"no layout of {num_devices} x {hardware.name} holds a training step of one volume: it needs {needs}, but "
        f"{format_bytes(int(available))} are available ({hardware.usable:.0%} of "
        f"{format_bytes(int(hardware.memory))}). Coarser spacings than {COARSEST:g} times the first are not planned."
        f"{smaller} "
        "Fix: use more devices, or devices with more memory.",
        ["num_devices", "hardware", "memory"],
    )
