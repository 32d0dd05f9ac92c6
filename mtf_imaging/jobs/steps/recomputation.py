"""Recomputation of activations in the backward pass, as an option of a task's network."""

import copy
import dataclasses
from typing import Any

from mtf_imaging.training.step import TrainingStep
from mtf_imaging.training.task import Task


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
