"""Estimates the cost of a layout without using any device."""

import copy
import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

from mtf_imaging.data.sampling.patch_sizes import check_patch, parse_patch
from mtf_imaging.data.sampling.sampling import parse_spacing
from mtf_imaging.engine.layout import MESH_IMPLS, Layout, parse_shape
from mtf_imaging.engine.program.tracing import check, trace_only
from mtf_imaging.errors import ConfigError, LayoutError, MtfImagingError, ShapeError
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import Hardware, find_hardware
from mtf_imaging.planner.cost.plan import Plan, make_plan
from mtf_imaging.planner.cost.prediction import WINDOW_STEP, PatchCost, Prediction, window_count
from mtf_imaging.planner.cost.receptive_field import ReceptiveField, receptive_field
from mtf_imaging.planner.cost.recipe import UNKNOWN_RECIPE, Recipe
from mtf_imaging.planner.cost.uneven import LIMIT, Unevenness, better_sizes, growing_halos
from mtf_imaging.planner.render.picture_boxes import LayoutPicture
from mtf_imaging.planner.search.search import BATCH
from mtf_imaging.settings.planning import ExplainSettings, PlannedStepSettings
from mtf_imaging.settings.setting import check_choice, check_count, takes
from mtf_imaging.settings.values import check_price, parse_resolution
from mtf_imaging.training.gradients import FORWARD
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import TracedStep, TrainingStep
from mtf_imaging.training.task import Task, task_inputs

_TRIES = 8  # the maximum number of sizes to try to find one that wastes less


@takes(ExplainSettings)
def explain(own: ExplainSettings) -> Explained:
    """Returns the cost of a training step under a layout: memory, exchanges, start-up and, for known hardware, time.

    No device is used, and no weights or activations are allocated. `report` formats the result as text.

    Raises:
      LayoutError: the layout is illegal; the message lists all its faults.
      ShapeError: the network does not accept images of this size.
      ConfigError: an argument is invalid.
    """
    kind = find_hardware(own.hardware) if isinstance(own.hardware, str) else own.hardware
    recipe = planned_recipe(own.num_steps, own.price_per_hour)
    spacing = parse_spacing(own.spacing)
    image = parse_resolution(own.resolution)
    return explain_step(planned_step(own), own.layout, kind, own.num_hosts, own.mesh_impl, recipe, spacing, image)


def planned_step(own: PlannedStepSettings) -> TrainingStep:
    """Returns the training step that the settings of `explain`, `search` or `bench` describe."""
    sizes = parse_resolution(own.resolution)
    if own.patch is not None:
        image, sizes = sizes, parse_patch(own.patch)
        check_patch(sizes, image)
    return TrainingStep(
        own.task,
        own.optimizer or Adam(),
        sizes,
        own.batch_size,
        own.micro_batches,
        own.dtype,
        getattr(own, "seed", 0),
        own.frozen,
        own.average_decay,
    )


def planned_recipe(num_steps: int | None = None, price_per_hour: float | None = None) -> Recipe:
    """Returns the training length and device price in the settings of `explain` or `bench`.

    Raises:
      ConfigError: an argument is invalid.
    """
    if num_steps is not None:
        check_count("num_steps", num_steps)
    check_price(price_per_hour)
    return Recipe(num_steps, price_per_hour)


def resolve_mesh_impl(mesh_impl: str, num_hosts: int) -> str:
    """Returns the mesh implementation to plan for: "auto" is "collective" on several hosts, else "placement".

    Raises:
      ConfigError: an argument is invalid.
    """
    check_count("num_hosts", num_hosts)
    check_choice("mesh_impl", mesh_impl, MESH_IMPLS)
    if mesh_impl == "auto":
        return "collective" if num_hosts > 1 else "placement"
    return mesh_impl


def explain_step(
    step: TrainingStep,
    layout: Layout,
    hardware: Hardware | None = None,
    num_hosts: int = 1,
    mesh_impl: str = "auto",
    recipe: Recipe = UNKNOWN_RECIPE,
    spacing: tuple[float, float, float] | None = None,
    image: tuple[int, ...] | None = None,
    window_step: float = WINDOW_STEP,
) -> Explained:
    """Returns the cost of a training step under a layout.

    Args:
      step: the step.
      layout: the layout.
      hardware: the kind of device; None for an estimate without times.
      num_hosts: number of hosts; see `explain`.
      mesh_impl: the mesh implementation; see `explain`.
      recipe: the training length and the device price.
      spacing: voxel size in mm along x, y and z; None if unknown.
      image: voxels of the images if the step computes patches of them; default: the step computes whole images.
      window_step: the distance between neighboring windows in a prediction, as a share of the patch size.

    Raises:
      LayoutError: the layout is illegal; the message lists all its faults.
      ShapeError: the network does not accept images of this size.
      ConfigError: `num_hosts` does not divide the number of devices, a price is given without hardware, or another
        argument is invalid.
    """
    if recipe.price_per_hour is not None and hardware is None:
        raise ConfigError(
            f"price_per_hour = {recipe.price_per_hour:g} needs hardware, because the cost follows from the step time "
            "of a kind of device. Fix: give hardware as well.",
            ["hardware"],
        )
    mesh_impl = resolve_mesh_impl(mesh_impl, num_hosts)
    devices = [f"device:{number}" for number in range(1 if mesh_impl == "stacked" else layout.processors)]
    try:
        traced = step.trace(layout, devices)
    except ShapeError as error:
        raise _with_faults_of_inputs(error, step, layout) from None
    repeated = check(traced.traced, layout)
    recomputes = recomputes_activations(step.task)
    other = with_recomputation(step, not recomputes)
    on: dict[str, Any] = {"num_hosts": num_hosts, "mesh_impl": mesh_impl}
    plan = make_plan(traced, layout, **on)
    other_plan = None if other is None else make_plan(other.trace(layout, devices), layout, **on)
    return Explained(
        plan,
        other_plan,
        recomputes,
        hardware,
        step.dtype,
        step.batch_size,
        repeated,
        _unevenness(step, traced, plan),
        _batch_bytes(step),
        recipe,
        receptive_field_of(step, spacing, image),
        None if image in (None, step.sizes) else patch_cost(step, image, layout, hardware, window_step, **on),
    )


def receptive_field_of(
    step: TrainingStep, spacing: tuple[float, float, float] | None = None, image: tuple[int, ...] | None = None
) -> ReceptiveField | None:
    """Returns the receptive field of a step's network; None if unknown; see `receptive_field`.

    Args:
      step: the step.
      spacing: voxel size in mm; None if unknown.
      image: voxels of the images if the step computes patches of them.
    """
    try:
        field = receptive_field(step.task, volume_of(step), spacing)
    except MtfImagingError:  # the network accepts only its own size
        return None
    if field is None or image in (None, step.sizes):
        return field
    return dataclasses.replace(field, patch=field.image, image=dict(zip(field.image, image, strict=True)))


def patch_cost(
    step: TrainingStep,
    image: tuple[int, ...],
    layout: Layout,
    hardware: Hardware | None,
    window_step: float = WINDOW_STEP,
    with_whole: bool = True,
    **on: Any,
) -> PatchCost:
    """Returns the costs of predicting an image with windows as large as a step's patches, and at once.

    Args:
      step: the step on patches.
      image: voxels of the images.
      layout: the layout of the step. Its batch rule distributes the windows over processors.
      hardware: the kind of device, or None.
      window_step: the distance between neighboring windows, as a share of the patch size.
      with_whole: whether to compute the cost of the whole image at once, too.
      **on: the number of hosts and the mesh implementation, as in `make_plan`.
    """
    together = layout.slices_per_dimension.get(BATCH, 1)
    passes = math.ceil(window_count(image, step.sizes, window_step) / together)
    return PatchCost(
        step.sizes,
        image,
        window_step,
        predict_cost(step, layout, hardware, together, passes, **on),
        predict_cost(step.resized(image), without_batch(layout), hardware, **on) if with_whole else None,
    )


def without_batch(layout: Layout) -> Layout:
    """Returns the layout for predicting one whole image at a time."""
    return layout.restrict(lambda dim: dim != BATCH)


def predict_cost(
    step: TrainingStep, layout: Layout, hardware: Hardware | None, batch: int = 1, passes: int = 1, **on: Any
) -> Prediction | None:
    """Returns the cost of forward passes; None if the network or the layout does not accept images of this size.

    Args:
      step: a step on images with the size to predict.
      layout: the layout.
      hardware: the kind of device, or None.
      batch: the number of images in a pass.
      passes: the number of passes.
      **on: the number of hosts and the mesh implementation, as in `make_plan`.
    """
    devices = [f"device:{number}" for number in range(1 if on.get("mesh_impl") == "stacked" else layout.processors)]
    try:
        inputs = task_inputs(step.task, batch, step.sizes, dtype=step.dtype, labels=False)
        traced = trace_only(step.task.predict, inputs, layout, devices)
        check(traced, layout)
        plan = make_plan(TracedStep(traced, dict.fromkeys(traced.needed, FORWARD), 1, 1), layout, **on)
    except MtfImagingError:
        return None
    return Prediction(plan, passes, hardware, step.dtype)


def _batch_bytes(step: TrainingStep) -> int:
    """Returns the input bytes of a whole batch."""
    sizes = ((math.prod(size for _, size in parse_shape(shape)), dtype) for shape, dtype in step.inputs.values())
    return sum(size * dtype.size for size, dtype in sizes)


def _unevenness(step: TrainingStep, traced: TracedStep, plan: Plan) -> Unevenness:
    image = dict(parse_shape(next(iter(step.part_inputs.values()))[0]))
    better = _better_sizes(step, plan, image) if plan.wasted > LIMIT else {}
    forward = [op for op, phase in traced.phases.items() if phase == FORWARD]
    return Unevenness(image, growing_halos(forward, plan.layout, image), better)


def _better_sizes(step: TrainingStep, plan: Plan, image: Mapping[str, int]) -> Mapping[str, int]:
    """Returns the nearest image sizes at which a step wastes little work; {} if none of the tried sizes does."""
    spatial = [name for name, _ in volume_of(step)]
    for sizes in itertools.islice(better_sizes(plan, image), _TRIES):
        batch = sizes.get(BATCH, image.get(BATCH, 1)) * step.micro_batches
        resized = dataclasses.replace(
            step, sizes=tuple(sizes.get(name, image[name]) for name in spatial), batch_size=batch
        )
        try:
            traced = resized.trace(plan.layout)
            check(traced.traced, plan.layout)
        except MtfImagingError:  # the network does not accept this size
            continue
        if make_plan(traced, plan.layout).wasted <= LIMIT:
            return sizes
    return {}


def _with_faults_of_inputs(error: ShapeError, step: TrainingStep, layout: Layout) -> ShapeError:
    """Adds the faults of the layout that concern the inputs, so that one message lists all faults."""
    try:
        check(trace_only(lambda **tensors: tensors, step.inputs), layout)
    except LayoutError as faults:
        return ShapeError(f"{error}\n{faults}")
    return error


def recomputes_activations(task: Task) -> bool:
    """Returns whether a task's network or its backbone recomputes activations in the backward pass."""
    return bool(getattr(_recomputing_part(task), "recompute", False))


def recompute_setting(task: Task) -> str | None:
    """Returns the gin parameter that turns recomputation on, such as "UNet3D.recompute"; None if there is none."""
    part = _recomputing_part(task)
    return None if part is None else f"{type(part).__name__}.recompute"


def with_recomputation(step: TrainingStep, recompute: bool) -> TrainingStep | None:
    """Returns the step with recomputation of activations on or off; None if the network has no such option."""
    part = _recomputing_part(step.task)
    if part is None:
        return None
    task: Any = copy.copy(step.task)
    replaced = dataclasses.replace(part, recompute=recompute)
    task.network = replaced if part is task.network else dataclasses.replace(task.network, backbone=replaced)
    return dataclasses.replace(step, task=task)


def _recomputing_part(task: Task) -> Any:
    """Returns a task's network or its backbone, whichever has a `recompute` setting; None if neither has one."""
    network = getattr(task, "network", None)
    for part in (network, getattr(network, "backbone", None)):
        if dataclasses.is_dataclass(network) and dataclasses.is_dataclass(part) and hasattr(part, "recompute"):
            return part
    return None


def volume_of(step: TrainingStep) -> tuple[tuple[str, int], ...]:
    """Returns pairs (spatial dimension, voxels) of the images."""
    shape, _ = next(iter(step.inputs.values()))
    return parse_shape(shape)[1 : 1 + len(step.sizes)]


def picture_of(explained: Explained, volume: tuple[tuple[str, int], ...]) -> LayoutPicture:
    """Returns the data for a layout picture."""
    plan, hardware = explained.plan, explained.hardware

    def parts(of: Plan | None) -> tuple[tuple[str, int], ...]:
        if of is None:
            return ()
        return (("weights", of.weights), ("optimizer", of.state), ("activations at the peak", of.peak.nbytes))

    shape = "".join(f",{name}:{size}" for name, size in volume)
    halos = [op for op in plan.ops if op.phase == "forward" and any(map(sum, op.halo.values()))]
    # If the stem has a stride, no output has the full resolution, and only the stem reads the whole image.
    full = [op.halo for op in halos if shape in f",{op.whole}"] or [op.halo for op in halos[:1]]
    return LayoutPicture(
        volume=volume,
        layout=plan.layout,
        halo=max(full, key=lambda halo: sum(map(sum, halo.values())), default={}),
        memory=parts(explained.kept or plan),
        memory_recomputed=parts(explained.recomputed),
        device_memory=int(hardware.memory) if hardware else None,
        device_name=hardware.name if hardware else "device",
    )
