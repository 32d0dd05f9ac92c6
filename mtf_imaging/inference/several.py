"""The inputs and outputs of a network that has one or several of them, by name."""

from collections.abc import Mapping
from typing import Any

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

IMAGE, TARGET = "image", "labels"


def named_inputs(values: Any) -> dict[str, Any]:
    """Returns the inputs of a network by name; a single one is called "image"."""
    if isinstance(values, Mapping) and len(values) > 1:
        return {**values}
    return {IMAGE: next(iter(values.values())) if isinstance(values, Mapping) else values}


def image_of(inputs: Mapping[str, Any]) -> Any:
    """Returns what a network takes: one input, or a dict of several."""
    return inputs if len(inputs) > 1 else inputs[IMAGE]


def named_outputs(values: Any) -> dict[str, Any]:
    """Returns values by the names of the outputs of a network; a single one is called "", those of a tuple "output_0".

    >>> named_outputs((1, 2)), named_outputs({"mask": 3}), named_outputs(4)
    ({'output_0': 1, 'output_1': 2}, {'mask': 3}, {'': 4})
    """
    if isinstance(values, tuple | list):
        return {f"output_{number}": value for number, value in enumerate(values)}
    return {**values} if isinstance(values, Mapping) else {"": values}


def output_name(values: Any, name: str) -> str:
    """Returns the name of an output in `named_outputs`. It may be called by its number, and a single one by any name.

    Raises:
      ConfigError: there is no such output.
    """
    outputs = named_outputs(values)
    if [*outputs] == [""]:
        return ""
    known = named_outputs([*outputs]) | dict(zip(outputs, outputs))
    if name not in known:
        given = f"one for '{name}'" if name else "a single one"
        raise ConfigError(
            f"the network has the outputs {', '.join(outputs)}, but the targets and losses include {given}."
            f"{did_you_mean(name, outputs)} Fix: give targets and losses as dicts by the names of the outputs."
        )
    return known[name]


def output_of(values: Any, name: str) -> Any:
    """Returns an output of a network by its name; see `output_name`."""
    return named_outputs(values)[output_name(values, name)]


def target_name(output: str) -> str:
    """Returns the name of the target of an output among the inputs of a loss.

    >>> target_name(""), target_name("mask")
    ('labels', 'labels_mask')
    """
    return f"{TARGET}_{output}" if output else TARGET
