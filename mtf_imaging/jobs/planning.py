"""Plans a training job from the fingerprint of a data set: spacing, grid, network, layout and recipe."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from mtf_imaging.data.fingerprint import WORKER_BYTES, Fingerprint, read_fingerprint
from mtf_imaging.files.workers import default_workers
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.deciding import Alternative, fit, with_costs
from mtf_imaging.jobs.choices.fitting import Variant
from mtf_imaging.jobs.choices.network import NNUNET, choose_loss, choose_network
from mtf_imaging.jobs.choices.recipe import choose_augmentation, choose_crop, choose_intensities, choose_window
from mtf_imaging.jobs.searching import PlannedDevices, search_step
from mtf_imaging.jobs.steps.building import StepSettings, training_step
from mtf_imaging.jobs.steps.costs import Hosts
from mtf_imaging.kinds.all_kinds import check_volumes
from mtf_imaging.planner.cost.hardware import Hardware, find_hardware
from mtf_imaging.planner.cost.receptive_field import ReceptiveField
from mtf_imaging.planner.search.search import Found, Searched
from mtf_imaging.settings.planning import PlanSettings, TaskBuilder
from mtf_imaging.settings.setting import takes
from mtf_imaging.training.step import TrainingStep

_CHECKPOINTS = 50


@dataclasses.dataclass(frozen=True)
class JobPlan:
    """A planned training job. Each `Choice` has a value and the reason for it.

    Attributes:
      fingerprint: the data set, cropped as chosen.
      hardware: the kind of device.
      num_devices: number of devices.
      num_hosts: number of hosts.
      crop: whether images are cropped to their nonzero voxels.
      intensities: {channel: scheme} of channels that do not keep the scheme of the data set.
      spacing, grid, dtype, batch_size, layout, num_steps, checkpoint_every, learning_rate: the choices.
      kind: "whole volumes" or "patches".
      patch: the size of the patches; None for whole volumes.
      window: the window in HU of the CT channel; None without such a channel, or if the data set names its window.
      network: {keyword argument of the network: choice}.
      loss: {keyword argument of the task: choice}.
      augmentation: {parameter of `data.augmentation.Augmentation`: choice}.
      found: the layout with its costs.
      alternatives: the planned step with its costs, and the alternative of the other kind if it was considered.
    """

    fingerprint: Fingerprint
    hardware: Hardware
    num_devices: int
    num_hosts: int
    crop: Choice
    intensities: Choice
    spacing: Choice
    grid: Choice
    dtype: Choice
    batch_size: Choice
    layout: Choice
    kind: Choice
    patch: Choice | None
    num_steps: Choice
    checkpoint_every: Choice
    learning_rate: Choice
    window: Choice | None
    network: Mapping[str, Choice]
    loss: Mapping[str, Choice]
    augmentation: Mapping[str, Choice]
    found: Found
    alternatives: tuple[Alternative, ...]

    @property
    def receptive_field(self) -> ReceptiveField | None:
        """The part of a volume on which an output voxel depends; None if unknown."""
        return self.alternatives[0].receptive_field


@takes(PlanSettings)
def plan(own: PlanSettings) -> JobPlan:
    """Plans a training job for a data set and devices.

    The plan chooses the step with the finest spacing, then the most filters, then the largest batch that fits on the
    devices under some layout, by the estimates of `search`. If a volume fits only in turns, the plan chooses them. If
    there is no room for turns, it chooses the largest patches that fit instead. The levels of the network follow from
    the spacing and the size of the grid or patch. No device is used.

    Returns:
      The plan.

    Raises:
      DataError: a case is unusable.
      ConfigError: the hardware is unknown, an argument is invalid, or no step fits on the devices.
    """
    fix = "{kind} have no voxel size to plan; estimate the layouts of a network on {kind} with search."
    check_volumes(own.data_dir, fix, "data_dir")
    kind = find_hardware(own.hardware) if isinstance(own.hardware, str) else own.hardware
    if own.memory is not None:
        kind = dataclasses.replace(kind, memory=float(own.memory))
    workers = own.workers or default_workers(WORKER_BYTES)
    fingerprint = read_fingerprint(own.data_dir, own.fingerprint_file, own.spacing_table, workers, own.progress)
    options = own.num_hosts, own.progress, own.patches, own.offload_dir
    return plan_fingerprint(fingerprint, own.task, own.num_devices, kind, *options)


def plan_fingerprint(
    fingerprint: Fingerprint,
    task: TaskBuilder,
    num_devices: int,
    hardware: Hardware,
    num_hosts: int = 1,
    progress: bool = True,
    patches: str = "auto",
    offload_dir: str | None = None,
) -> JobPlan:
    """Does the same as `plan`, for a given fingerprint."""
    crop = choose_crop(fingerprint)
    if crop.value:
        fingerprint = fingerprint.cropped
    dtype, loss = _choose_dtype(hardware), choose_loss(fingerprint.description)
    devices = PlannedDevices(num_devices, hardware, num_hosts=num_hosts, offload_dir=offload_dir)

    def step_of(variant: Variant) -> TrainingStep:
        network = choose_network(variant.sizes, variant.spacing, variant.filters)
        built = task(fingerprint.description, _values(network), _values(loss))
        own = StepSettings(task=built, batch_size=variant.batch_size, dtype=dtype.value)
        return training_step(own, built, variant.sizes)

    def search(variant: Variant) -> Searched:
        # Turns replace coarser voxels and patches, not smaller batches.
        turns = variant.patch is None and variant.batch_size == 1
        return search_step(step_of(variant), devices, progress=False, may_take_turns=turns)

    with tqdm(desc="search", unit="step", file=sys.stderr, disable=not progress, leave=False) as bar:

        def note(text: str) -> None:
            bar.set_postfix_str(text, refresh=True)
            bar.update()

        decision = fit(fingerprint, search, hardware, num_devices, note, patches)
    fitted = decision.chosen
    sizes, spacing, steps = fitted.variant.sizes, fitted.spacing.value, fitted.num_steps
    return JobPlan(
        fingerprint=fingerprint,
        hardware=hardware,
        num_devices=num_devices,
        num_hosts=num_hosts,
        crop=crop,
        intensities=choose_intensities(fingerprint) if crop.value else Choice({}, crop.reason),
        spacing=fitted.spacing,
        grid=fitted.grid,
        dtype=dtype,
        batch_size=fitted.batch_size,
        layout=fitted.layout,
        kind=decision.kind,
        patch=fitted.patch,
        num_steps=steps,
        checkpoint_every=Choice(
            max(100, round(steps.value // _CHECKPOINTS, -2)), f"about {_CHECKPOINTS} checkpoints and evaluations"
        ),
        learning_rate=Choice(0.001, f"the default of Adam; the decay is that of {NNUNET}"),
        window=choose_window(fingerprint),
        network=choose_network(sizes, spacing, fitted.filters) | {"recompute": fitted.recompute},
        loss=loss,
        augmentation=choose_augmentation(fingerprint, sizes, spacing),
        found=fitted.found,
        alternatives=tuple(
            with_costs(one, step_of(one.variant), hardware, Hosts.of(num_hosts, "auto"))
            for one in (decision.chosen, decision.other)
            if one is not None
        ),
    )


def _values(choices: Mapping[str, Choice]) -> dict[str, Any]:
    return {name: choice.value for name, choice in choices.items()}


def _choose_dtype(hardware: Hardware) -> Choice:
    if hardware.flops > hardware.flops_float32:
        return Choice("bfloat16", f"faster than float32 on {hardware.name}, with half the memory for activations")
    return Choice("float32", f"bfloat16 is not faster on {hardware.name}")
