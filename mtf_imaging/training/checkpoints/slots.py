"""The slots in a checkpoint: the optimizer state of each weight, and the averages of the weights."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.training.averages import AVERAGE, average_name
from mtf_imaging.training.optimizers.optimizer import FACTOR

_logger = logging.getLogger(__name__)
_SEPARATORS = ("/", "_slot_")  # between the names of a variable and its slot; Adafactor uses the second


def owner(name: str, names: Collection[str]) -> str | None:
    """Returns the variable among `names` that a slot belongs to; None if `name` is not a slot."""
    owners = (name.rpartition(separator)[0] for separator in _SEPARATORS)
    return next((each for each in owners if each in names), None)


class SlotChanges(NamedTuple):
    """The slots that a run lacks or no longer needs, because other weights are frozen or averaged than before.

    Attributes:
      begun: slots of the program that the checkpoint lacks. They begin at zero, and averages begin at the weights.
      dropped: slots of the checkpoint that the program lacks.
    """

    begun: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @classmethod
    def between(cls, saved: Collection[str], own: Collection[str]) -> "SlotChanges":
        """Returns the slots that may differ between the variables of a checkpoint and a program.

        A frozen weight has no slots. So either all slots of a weight are added or dropped, or none of them, and other
        weights have slots on both sides. All other differences come from another optimizer.

        Args:
          saved: the variable names in the checkpoint.
          own: the variable names in the program.
        """
        return cls(_added(saved, own), _added(own, saved))

    def apply(self, variables: Mapping[str, tf.Variable]) -> None:
        """Sets the slots that the checkpoint lacks, after it was restored, and logs the changes."""
        for name in self.begun:
            weight = name.removesuffix(f"/{AVERAGE}")
            is_average = name == average_name(weight)
            variables[name].assign(variables[weight] if is_average else np.zeros(variables[name].shape))
        _log(self.begun, "begin at the weights", "are no longer frozen; their slots begin at zero")
        _log(self.dropped, "are dropped", "are now frozen; their slots are dropped")


def _log(names: Sequence[str], averages: str, slots: str) -> None:
    """Logs the changes to averages and optimizer slots."""
    of_averages = [name for name in names if name.rpartition("/")[2] == AVERAGE]
    of_optimizer = [name for name in names if name not in (*of_averages, FACTOR)]
    if of_averages:
        _logger.info("%d averages of weights, such as '%s', %s", len(of_averages), of_averages[0], averages)
    if of_optimizer:
        _logger.info("weights with %d slots, such as '%s', %s", len(of_optimizer), of_optimizer[0], slots)


def _added(before: Collection[str], after: Collection[str]) -> tuple[str, ...]:
    """Returns the slots of weights that had no slots before, and the averages of weights that had no average before.

    The factor of the learning rate, which a callback sets before the first step, may also be new.
    """
    had, have = _weights_with_slots(before), _weights_with_slots(after)
    added = [FACTOR] if FACTOR in {*after} - {*before} else []
    for name in sorted({*after} - {*before}):
        weight = owner(name, after)
        if weight is not None and weight in before:
            is_same_optimizer = bool(had & have)
            if name == average_name(weight) or (is_same_optimizer and weight not in had):
                added.append(name)
    return tuple(added)


def _weights_with_slots(names: Collection[str]) -> set[str]:
    """Returns the variables that have optimizer slots."""
    owners = {name: owner(name, names) for name in names}
    return {weight for name, weight in owners.items() if weight is not None and name != average_name(weight)}
