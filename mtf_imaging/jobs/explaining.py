"""Estimates the cost of a layout without using any device."""

from mtf_imaging.data.sampling.patch_sizes import check_patch, parse_patch
from mtf_imaging.data.sampling.sampling import parse_spacing
from mtf_imaging.jobs.steps.building import training_step
from mtf_imaging.jobs.steps.costs import WholeImage, explain_step
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import find_hardware
from mtf_imaging.planner.cost.plan import Plan
from mtf_imaging.planner.cost.recipe import Recipe
from mtf_imaging.planner.render.picture_boxes import LayoutPicture
from mtf_imaging.settings.planning import ExplainSettings, PlannedStepSettings
from mtf_imaging.settings.setting import takes
from mtf_imaging.settings.values import parse_resolution
from mtf_imaging.training.step import TrainingStep


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
    recipe = Recipe(own.num_steps, own.price_per_hour)
    image = WholeImage(parse_resolution(own.resolution), parse_spacing(own.spacing))
    return explain_step(planned_step(own), own.layout, kind, own.num_hosts, own.mesh_impl, recipe, image, own.predict)


def planned_step(own: PlannedStepSettings) -> TrainingStep:
    """Returns the training step that the settings of `explain`, `search` or `bench` describe."""
    sizes = parse_resolution(own.resolution)
    if own.patch is not None:
        image, sizes = sizes, parse_patch(own.patch)
        check_patch(sizes, image)
    return training_step(own, own.task, sizes)


def picture_of(explained: Explained, volume: tuple[tuple[str, int], ...]) -> LayoutPicture:
    """Returns the data for a layout picture."""
    plan, hardware = explained.plan, explained.hardware

    def parts(of: Plan | None) -> tuple[tuple[str, int], ...]:
        if of is None:
            return ()
        return (("weights", of.weights), ("optimizer", of.state), ("activations at the peak", of.temporary))

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
