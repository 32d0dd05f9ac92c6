"""The layout "auto": the layout that the planner ranks first for the available devices."""

import dataclasses
import logging

import tensorflow as tf

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes.devices import default_devices
from mtf_imaging.engine.meshes.group import Group
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.searching import PlannedDevices, search_step, search_turns
from mtf_imaging.jobs.steps.recomputation import recomputes_activations
from mtf_imaging.planner.bench.machine import Machine, kernels_of_step
from mtf_imaging.planner.cost.hardware import HARDWARE, Hardware
from mtf_imaging.planner.render.recipe_text import format_seconds
from mtf_imaging.settings.step import Devices
from mtf_imaging.training.step import TrainingStep

_logger = logging.getLogger(__name__)
# Assumed between processes without a known kind of GPU.
_LINK, _LATENCY = 1e9, 2e-4  # bytes per second; seconds
_SAMPLES = 3


def choose_layout(step: TrainingStep, devices: Devices, group: Group, offload_dir: str | None = None) -> Layout:
    """Returns the layout with the shortest predicted step, with one processor for each process or device.

    If no such layout fits, the processors of each device take turns. Process 0 searches, and all processes get its
    result.

    Args:
      step: the training step.
      devices: the settings of the devices.
      group: the processes.
      offload_dir: the folder in which the slices of processors wait for their turn; None for the default of `Program`.

    Raises:
      ConfigError: there is no layout for this number of devices.
    """
    words = group.first(lambda: _choose(step, devices, group, offload_dir))
    return Layout.parse(*words, offload_dir)


def _choose(step: TrainingStep, devices: Devices, group: Group, offload_dir: str | None) -> tuple[str, str, str]:
    num, hardware = _num_devices(devices, group), _hardware(step, group)
    mesh_impl = "collective" if group.num > 1 else "placement"
    planned = PlannedDevices(num, hardware, None, group.num_hosts, mesh_impl, offload_dir)
    searched = search_step(step, planned, progress=False, may_take_turns=False)
    recompute = recomputes_activations(step.task)
    ranked = [found for found in searched.found if found.recompute == recompute]
    if not ranked:
        raise ConfigError(
            f"no layout keeps {num} devices busy: {next(iter(searched.skipped.values()), '')}. Fix: use fewer "
            "devices, or a higher resolution.",
            ["resolution"],
        )
    found = ranked[0] if ranked[0].fits else search_turns(step, planned)[0] or ranked[0]
    chosen, turns = found.layout, found.plan.turns
    memory = "" if found.fits else "; it may need more memory than a device has"
    waiting = f", in {turns.turns} turns; {format_bytes(turns.waiting)} wait" if turns else ""
    why = f"{format_seconds(found.time.total)} per step on {num} x {hardware.name} as predicted{waiting}{memory}"
    _logger.info("layout 'auto' is '%s' on mesh '%s': %s", chosen.rules_string, chosen.mesh_string, why)
    return chosen.mesh_string, chosen.rules_string, ",".join(chosen.sequential)


def _num_devices(devices: Devices, group: Group) -> int:
    """Returns the number of devices, each of which can compute one processor."""
    if group.num > 1 or devices.mesh_impl == "stacked":
        return group.num
    available = default_devices()
    has_gpus = any("GPU" in device.upper() for device in available)
    # Logical CPUs share the cores of this machine, so they are used only on request.
    return len(available) if has_gpus or devices.mesh_impl == "placement" else 1


def _hardware(step: TrainingStep, group: Group) -> Hardware:
    """Returns the kind of the first device: a known GPU, or the measured rates of this machine."""
    gpus = tf.config.list_physical_devices("GPU")
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "").lower() if gpus else ""
    # The longest matching name, because "l4" is a part of "l40s".
    known = max((kind for kind in HARDWARE if kind.replace("rtx", "rtx ") in name), key=len, default=None)
    if known is not None:
        return HARDWARE[known]
    machine = Machine(kernels_of_step(step.trace()), step.dtype)
    for _ in range(_SAMPLES):
        machine.sample()
    measured = machine.hardware()
    if group.num == 1:
        return measured
    link, latency = min(measured.link, _LINK), max(measured.latency, _LATENCY)
    return dataclasses.replace(measured, memory=measured.memory / group.num, link=link, latency=latency)
