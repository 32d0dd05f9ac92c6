"""The costs of a training step under a layout, and of predicting images with its network."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple, Self

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import Layout, parse_shape
from mtf_imaging.engine.program.program import Program
from mtf_imaging.engine.program.tracing import Traced, check, trace_only
from mtf_imaging.engine.turns.costs import TurnCosts
from mtf_imaging.errors import ConfigError, LayoutError, MtfImagingError, ShapeError
from mtf_imaging.jobs.steps.recomputation import recomputes_activations, with_recomputation
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan, make_plan
from mtf_imaging.planner.cost.prediction import (
    WINDOW_STEP,
    ImageCost,
    Prediction,
    array_bytes,
    window_bytes,
    window_count,
)
from mtf_imaging.planner.cost.receptive_field import ReceptiveField, receptive_field
from mtf_imaging.planner.cost.recipe import UNKNOWN_RECIPE, Recipe
from mtf_imaging.planner.cost.uneven import LIMIT, Unevenness, better_sizes, growing_halos
from mtf_imaging.planner.search.search import BATCH
from mtf_imaging.training.gradients import FORWARD
from mtf_imaging.training.step import TracedStep, TrainingStep
from mtf_imaging.training.task import task_inputs

_TRIES = 8  # the maximum number of sizes to try to find one that wastes less


class WholeImage(NamedTuple):
    """The images of the data, of which a step may compute patches.

    Attributes:
      sizes: voxels along each dimension; None if the step computes whole images.
      spacing: voxel size in mm along x, y and z; None if unknown.
      window_step: the distance between neighboring windows in a prediction, as a share of the patch size.
    """

    sizes: tuple[int, ...] | None = None
    spacing: tuple[float, float, float] | None = None
    window_step: float = WINDOW_STEP


class Hosts(NamedTuple):
    """The hosts of the planned devices, one device for each processor that computes at the same time.

    Attributes:
      number: number of hosts.
      mesh_impl: the mesh implementation, as in `make_plan`.
    """

    number: int
    mesh_impl: str

    @classmethod
    def of(cls, number: int, mesh_impl: str) -> Self:
        """Returns the hosts for settings of a job: "auto" is "collective" on several hosts, else "placement"."""
        if mesh_impl == "auto":
            mesh_impl = "collective" if number > 1 else "placement"
        return cls(number, mesh_impl)

    def devices(self, layout: Layout) -> list[str]:
        """Returns the names of the planned devices."""
        number = 1 if self.mesh_impl == "stacked" else layout.processors // layout.turns
        return [f"device:{number}" for number in range(number)]

    def plan(self, step: TracedStep, layout: Layout, turns: TurnCosts | None = None) -> Plan:
        """Returns the cost of a step; see `make_plan`."""
        return make_plan(step, layout, num_hosts=self.number, mesh_impl=self.mesh_impl, turns=turns)


def explain_step(
    step: TrainingStep,
    layout: Layout,
    hardware: Hardware | None = None,
    num_hosts: int = 1,
    mesh_impl: str = "auto",
    recipe: Recipe = UNKNOWN_RECIPE,
    image: WholeImage = WholeImage(),  # noqa: B008
    predict: bool = False,
) -> Explained:
    """Returns the cost of a training step under a layout.

    Args:
      step: the step.
      layout: the layout.
      hardware: the kind of device; None for an estimate without times.
      num_hosts: number of hosts; see `explain`.
      mesh_impl: the mesh implementation; see `explain`.
      recipe: the training length and the device price.
      image: the images of the data.
      predict: whether to add the cost of predicting an image; always for patches.

    Raises:
      LayoutError: the layout is illegal; the message lists all its faults.
      ShapeError: the network does not accept images of this size.
      ConfigError: `num_hosts` does not divide the number of devices, or a price is given without hardware.
    """
    if recipe.price_per_hour is not None and hardware is None:
        raise ConfigError(
            f"price_per_hour = {recipe.price_per_hour:g} needs hardware, because the cost follows from the step time "
            "of a kind of device. Fix: give hardware as well.",
            ["hardware"],
        )
    hosts = Hosts.of(num_hosts, mesh_impl)
    devices = hosts.devices(layout)
    try:
        traced = step.trace(layout, devices)
    except ShapeError as error:
        raise _with_faults_of_inputs(error, step, layout) from None
    repeated = check(traced.traced, layout)
    recomputes = recomputes_activations(step.task)
    turns = turn_costs(step, layout)
    other = None if turns else with_recomputation(step, not recomputes)
    plan = hosts.plan(traced, layout, turns)
    return Explained(
        plan,
        None if other is None else hosts.plan(other.trace(layout, devices), layout),
        recomputes,
        hardware,
        step.dtype,
        step.batch_size,
        repeated,
        _unevenness(step, traced, plan),
        _batch_bytes(step),
        recipe,
        receptive_field_of(step, image),
        image_cost(step, image, layout, hardware, hosts) if predict or image.sizes not in (None, step.sizes) else None,
    )


def turn_costs(step: TrainingStep, layout: Layout) -> TurnCosts | None:
    """Returns what the turns of a step keep and move, summed over its devices; None if no processors take turns.

    The step is lowered, because the values that pass between turns follow from its graph.
    """
    if not layout.sequential:
        return None
    every = [
        (costs, number) for program, number in step.build(layout, "stacked").calls if (costs := program.turn_costs)
    ]
    return TurnCosts(
        layout.turns,
        max(costs.inputs for costs, _ in every),
        max(costs.tensors for costs, _ in every),
        max(costs.reads for costs, _ in every),
        max(costs.writes for costs, _ in every),
        sum(costs.nodes for costs, _ in every),
        sum(costs.stages for costs, _ in every),
        sum(costs.waiting for costs, _ in every),
        sum(costs.written * number for costs, number in every),
        sum(costs.read * number for costs, number in every),
    )


def receptive_field_of(step: TrainingStep, image: WholeImage = WholeImage()) -> ReceptiveField | None:  # noqa: B008
    """Returns the receptive field of a step's network; None if unknown; see `receptive_field`."""
    try:
        field = receptive_field(step.task, volume_of(step), image.spacing)
    except MtfImagingError:  # the network accepts only its own size
        return None
    if field is None or image.sizes in (None, step.sizes):
        return field
    return dataclasses.replace(field, patch=field.image, image=dict(zip(field.image, image.sizes, strict=True)))


def image_cost(
    step: TrainingStep,
    image: WholeImage,
    layout: Layout,
    hardware: Hardware | None,
    hosts: Hosts,
    with_whole: bool = True,
) -> ImageCost:
    """Returns the costs of predicting an image with windows as large as a step's patches, and at once.

    Args:
      step: the step, on patches or on whole images.
      image: the whole images.
      layout: the layout of the step. Its batch rule distributes the windows over processors.
      hardware: the kind of device, or None.
      hosts: the hosts.
      with_whole: whether to compute the cost of the whole image at once, too.
    """
    sizes, alone = image.sizes or step.sizes, layout.restrict(lambda dim: dim != BATCH)  # one whole image at a time
    return ImageCost(
        step.sizes,
        sizes,
        image.window_step,
        predict_cost(step, layout, hardware, hosts, image) if sizes != step.sizes else None,
        predict_cost(step.resized(sizes), alone, hardware, hosts) if with_whole else None,
    )


def predict_cost(
    step: TrainingStep,
    layout: Layout,
    hardware: Hardware | None,
    hosts: Hosts,
    image: WholeImage = WholeImage(),  # noqa: B008
) -> Prediction | None:
    """Returns the cost of predicting an image; None if the network or the layout does not accept images of this size.

    Args:
      step: a step on images of the size to predict, or on patches of the size of a window.
      layout: the layout. Its batch rule distributes windows over processors.
      hardware: the kind of device, or None.
      hosts: the hosts.
      image: the image, if windows slide over it.
    """
    batch, window = (1, None) if image.sizes is None else (layout.slices_per_dimension.get(BATCH, 1), step.sizes)
    sizes = image.sizes or step.sizes
    try:
        inputs = task_inputs(step.task, batch, step.sizes, dtype=step.dtype, labels=False)
        traced = trace_only(step.task.predict, inputs, layout, hosts.devices(layout))
        check(traced, layout)
        step_of_pass = TracedStep(traced, dict.fromkeys(traced.needed, FORWARD), 1, 1)
        program = Program(step.task.predict, inputs, layout=layout, mesh_impl="stacked") if layout.sequential else None
        turns = program and program.turn_costs
        (_, *dims, (_, channels)), labels = parse_shape(next(iter(inputs.values()))[0]), _labels(traced)
        mapped = labels or 0 if len(dims) > 2 else 0
        files, held = array_bytes(sizes, channels, mapped, window) if mapped else (0, 0)
        if turns and files:
            turns = turns._replace(inputs=0)  # the input lies in a file
        plan = hosts.plan(step_of_pass, layout, turns)
    except MtfImagingError:
        return None
    passes = math.ceil(window_count(sizes, step.sizes, image.window_step) / batch)
    own = held + window_bytes(plan, sizes, mapped, batch * math.prod(window)) if window and mapped else 0
    return Prediction(plan, passes, hardware, step.dtype, labels, files + (turns.waiting if turns else 0), own)


def _labels(traced: Traced) -> int | None:
    """Returns the number of values that a network predicts for each voxel; None if it predicts no map."""
    image = next(op.outputs[0].shape.dims for op in traced.graph.operations if op.outputs)
    found = traced.outputs
    if not isinstance(found, mtf.Tensor) or found.shape.dims[:-1] != image[:-1]:
        return None
    return found.shape.dims[-1].size


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


def volume_of(step: TrainingStep) -> tuple[tuple[str, int], ...]:
    """Returns pairs (spatial dimension, voxels) of the images."""
    shape, _ = next(iter(step.inputs.values()))
    return parse_shape(shape)[1 : 1 + len(step.sizes)]
