"""Resolves --hardware: a known name, or a gin file that binds `hardware`."""

import inspect

import gin

from mtf_imaging.errors import ConfigError
from mtf_imaging.planner.cost.hardware import Hardware, find_hardware

_own_hardware = gin.external_configurable(Hardware, "hardware", module="mtf_imaging")


def hardware_of(name: str | None) -> Hardware | None:
    """Returns the hardware that --hardware names, or None if the flag is not given.

    Args:
      name: a known name, or a gin file that is already bound.

    Raises:
      ConfigError: the file does not bind all required fields.
    """
    if name is None or not name.endswith(".gin"):
        return name and find_hardware(name)
    bound = gin.get_bindings("mtf_imaging.hardware")
    needed = [p.name for p in inspect.signature(Hardware).parameters.values() if p.default is p.empty]
    missing = [f"hardware.{field}" for field in needed if field not in bound]
    if missing:
        raise ConfigError(
            f"--hardware {name}: does not bind {', '.join(missing)}. Fix: add a line {missing[0]} = VALUE."
        )
    return _own_hardware()
