"""Imports the weights of a Keras model, by the names of its layers."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import CheckpointError, ConfigError
from mtf_imaging.spelling import closest, did_you_mean
from mtf_imaging.training.checkpoints.slots import owner
from mtf_imaging.training.checkpoints.weights_folder import write_weights, writing_folder
from mtf_imaging.training.keras.comparison import largest_difference
from mtf_imaging.training.keras.layers import convert, is_from_keras, is_model, layers_with_weights, loose_weights

_logger = logging.getLogger(__name__)


def import_weights(
    model: Any,
    program: Program | None = None,
    *,
    names: Mapping[str, str | None] | None = None,
    output_dir: str | Path | None = None,
    partial: bool = False,
    verify: bool | Callable[[Any], Any] = True,
) -> dict[str, np.ndarray]:
    """Converts the weights of a Keras model, and sets a program's variables or writes a folder for training.

    A Keras layer `encoder/conv2d` sets the variables of the layer of `mi.layers` with the same name: `mi.layers.Conv`
    with the name `conv2d` in `mi.layers.scope("encoder")`. These layers are known: Conv1D to Conv3D, their transposed
    convolutions, DepthwiseConv2D (`mi.layers.Conv` with as many groups as channels), SeparableConv2D, Dense,
    BatchNormalization, LayerNormalization and GroupNormalization. Layers without weights are ignored. A layer of a
    class that derives from one of these is refused, because it may compute something else.

    With a program, the model and the program then compute the same random inputs, of the sizes of the program. If an
    output differs by more than 1e-4 of its largest value (0.05 of it if the inputs are bfloat16 or float16), the
    program keeps its previous weights. There is no comparison if `partial` is true or `names` leaves out a layer.

    The result does not depend on a layout. If several processes have joined, all of them make the same call.

    Args:
      model: a model of Keras 2 or 3 that has weights, with the channels as the last dimension.
      program: the program whose variables to set. The weights must then fit its variables.
      names: {name in Keras: name in this package} of layers whose names differ. None as a name leaves a layer out. The
        name of a nested model stands for all of its layers.
      output_dir: the folder to write, for the setting `initial_weights`. Weights that the folder already contains are
          replaced.
      partial: whether variables of the program that the model does not set may keep their values.
      verify: whether to compare the outputs of the model and of the program; or a function that computes the outputs of
        the program from those of the model, such as `keras.ops.softmax`. The comparison needs the memory for the
        model on one device.

    Returns:
      The values of the variables by name.

    Raises:
      CheckpointError: layers are unknown, have options or weights that the layers here lack, or do not fit the
        program. The error lists all of them. Or the outputs differ.
      ConfigError: `model` is something else, `names` has a name that the model lacks, the outputs cannot
        be compared, or the folder contains other files.
    """
    if not is_model(type(model)):
        raise ConfigError(f"{model!r:.100} is not a Keras model. Fix: load a file with keras.models.load_model.")
    is_compared = bool(verify) and program is not None and not partial and None not in (names or {}).values()
    values, faults = _convert(model, dict(names or {}), is_compared)
    if program is not None:
        faults += _faults(program, values, partial)
    title = f"Keras model '{model.name}'"
    if faults:
        raise CheckpointError(
            f"{title}: {len(faults)} of its weights and layers cannot be imported:\n"
            + "\n".join(f"  {fault}" for fault in faults)
            + "\nFix: give layers the same names and sizes, map other names with names={'name in Keras': 'name here'}, "
            "replace layers of other classes by those of Keras, or leave layers out with names={'name in Keras': None} "
            "and partial=True."
        )
    if program is not None:
        step, before = program.step.numpy(), {name: each.numpy() for name, each in program.variables.items()}
        _assign(program, values)
        if is_compared:
            kept = before
            try:
                difference = largest_difference(model, program, verify if callable(verify) else lambda outputs: outputs)
                _logger.info("%s: the outputs of the program differ by %.1g of their largest value", title, difference)
                kept = before | values
            finally:  # the call counts as a step, and may update moving statistics
                program.step.assign(step)
                _assign(program, kept)
    if output_dir is not None:
        with writing_folder(Path(output_dir)):
            write_weights(output_dir, values, {"title": title, "format": "keras_model"})
    _logger.info("%s: imported %d variables", title, len(values))
    return values


def _assign(program: Program, values: Mapping[str, np.ndarray]) -> None:
    for name, value in values.items():
        variable = program.variables[name]
        variable.assign(value.astype(variable.dtype.as_numpy_dtype))


def _convert(model: Any, names: dict[str, str | None], is_compared: bool) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns the values of variables by name, and the faults of the model."""
    layers = dict(layers_with_weights(model, only_keras=not is_compared))
    if not layers:
        raise CheckpointError(
            f"Keras model '{model.name}': it has no weights. Fix: build it first, for instance with "
            "model.build(input_shape)."
        )
    known = {*layers, *(name[:place] for name in layers for place in range(len(name)) if name[place] == "/")}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"names: Keras model '{model.name}' has no layer '{name}' with weights.{did_you_mean(name, known)} "
                f"Fix: use one of {', '.join(layers)}.",
                ["names"],
            )
    values: dict[str, np.ndarray] = {}
    faults = [f"the weight '{name}' belongs to no layer" for name in loose_weights(model)]
    if not (is_compared or is_from_keras(type(model))):
        faults.append(
            f"the model is a {type(model).__name__}, which may compute something else than its layers; with a program "
            "and all layers, its outputs are compared"
        )
    sources = dict[str, str]()
    for name, layer in layers.items():
        own = _own_name(name, names)
        if own is None:
            continue
        if own in sources:
            faults.append(f"'{name}' and '{sources[own]}' both have the name '{own}' here")
            continue
        try:
            values |= {f"{own}/{key}": value for key, value in convert(layer).items()}
            sources[own] = name
        except ValueError as error:
            faults.append(f"'{name}' {error}")
    return values, faults


def _own_name(name: str, names: Mapping[str, str | None]) -> str | None:
    """Returns the name of a layer in this package; None to leave it out."""
    prefix, rest = name, ""
    while prefix:
        if prefix in names:
            own = names[prefix]
            return None if own is None else f"{own}{rest}".lstrip("/")
        prefix, slash, last = prefix.rpartition("/")
        rest = f"{slash}{last}{rest}"
    return name


def _faults(program: Program, values: Mapping[str, np.ndarray], partial: bool) -> list[str]:
    """Returns the differences between the values and a program's variables."""
    shapes = {name: tuple(variable.shape.as_list()) for name, variable in program.variables.items()}
    own = [name for name in shapes if owner(name, shapes) is None]  # without the slots of optimizers
    faults = []
    for name, value in values.items():
        if name not in shapes:
            faults.append(f"'{name}' {list(value.shape)} is not a variable of the program{_hint(name, own, values)}")
        elif shapes[name] != value.shape:
            faults.append(f"'{name}' has shape {list(shapes[name])} in the program, but {list(value.shape)} in Keras")
    if not partial:
        faults += [f"no layer sets '{name}' {list(shapes[name])} of the program" for name in own if name not in values]
    return faults


def _hint(name: str, own: Iterable[str], values: Mapping[str, np.ndarray]) -> str:
    match = closest(name, [each for each in own if each not in values])
    return f"; the closest one is '{match}'" if match else ""
