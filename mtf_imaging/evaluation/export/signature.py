"""The signatures of an exported network: its inputs and outputs."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from mtf_imaging.engine.meshes.portable import ensure_shape, is_portable

DEFAULT = "serving_default"  # the signature that TensorFlow's tools use by default


class Field(NamedTuple):
    """An input or an output.

    Attributes:
      name: its name in the signature.
      dtype: its dtype.
      shape: its sizes; None for a size that may differ between calls.
      dims: the names of the dimensions.
      meaning: its meaning, a sentence.
    """

    name: str
    dtype: tf.DType
    shape: tuple[int | None, ...]
    dims: tuple[str, ...]
    meaning: str

    @property
    def spec(self) -> tf.TensorSpec:
        return tf.TensorSpec(self.shape, self.dtype, name=self.name)

    @property
    def sizes(self) -> str:
        """The dimensions with their sizes, such as "x: 64, y: any"."""
        sizes = zip(self.dims, self.shape, strict=True)
        return ", ".join(f"{dim}: {'any' if size is None else size}" for dim, size in sizes)

    def __str__(self) -> str:
        """Formats the field for messages, such as "image: float32 [x: 64, y: 64, z: 64]"."""
        return f"{self.name}: {self.dtype.name} [{self.sizes}]"

    def as_json(self) -> dict:
        """Returns the field as JSON values."""
        return {
            "dtype": self.dtype.name,
            "dims": list(self.dims),
            "shape": list(self.shape),
            "meaning": self.meaning,
        }


class Signature(NamedTuple):
    """A function of an exported network.

    Attributes:
      name: its name in the SavedModel.
      meaning: the result that it computes, a sentence.
      inputs, outputs: its inputs and outputs.
      compute: a function of the inputs, Tensors by name, that returns the outputs, Tensors by name.
    """

    name: str
    meaning: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    compute: Callable[..., dict[str, tf.Tensor]]

    def function(self) -> tf.types.experimental.ConcreteFunction:
        """Returns the function to save."""

        def call(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            arguments = {field.name: _with_checked_shape(field, inputs[field.name]) for field in self.inputs}
            results = self.compute(**arguments)
            return {
                field.name: ensure_shape(tf.cast(results[field.name], field.dtype), field.shape)
                for field in self.outputs
            }

        specs = {field.name: field.spec for field in self.inputs}
        return tf.function(call, autograph=False).get_concrete_function(**specs)

    def as_json(self) -> dict:
        """Returns the signature as JSON values."""
        return {
            "meaning": self.meaning,
            "inputs": {field.name: field.as_json() for field in self.inputs},
            "outputs": {field.name: field.as_json() for field in self.outputs},
        }


def checked(x: tf.Tensor, condition: tf.Tensor, message: str, value: tf.Tensor) -> tf.Tensor:
    """Returns a tensor; if a condition is false when the model runs, raises an error with a message and a value.

    Other formats have no such checks.
    """
    if is_portable():
        return x
    with tf.control_dependencies([tf.debugging.Assert(condition, [message, value])]):
        return tf.identity(x)


def _with_checked_shape(field: Field, x: tf.Tensor) -> tf.Tensor:
    """Returns an input, after checking that its shape in a call matches its field."""
    if is_portable():  # other formats check the shapes of arguments
        return x
    # Calls do not check the shapes of arguments, and TensorFlow removes checks that the declared shapes imply. It keeps
    # the checks of a placeholder with a default, whose name is part of the error.
    x = tf.compat.v1.placeholder_with_default(x, shape=None, name=f"input_{field.name}")
    x = tf.ensure_shape(x, field.shape)
    sizes = tf.shape(x)
    return checked(x, tf.reduce_all(sizes > 0), f"the model needs {field}, but a size is 0:", sizes)


def grid_name(sizes: tuple[int, ...]) -> str:
    """Returns the name of the signature for images of one size.

    >>> grid_name((96, 96, 64))
    'grid_96x96x64'
    """
    return f"grid_{'x'.join(map(str, sizes))}"


def with_default(by_size: dict[tuple[int, ...], Signature]) -> list[Signature]:
    """Returns the signatures of all sizes, and the largest one as the default.

    Args:
      by_size: a signature for each size, in ascending order.
    """
    largest = [*by_size.values()][-1]._replace(name=DEFAULT)
    return [largest, *by_size.values()] if len(by_size) > 1 else [largest]


class ExportedKind(Protocol):
    """The signatures of a network for one kind of image, with the facts for the card."""

    def signatures(self) -> list[Signature]:
        """Returns all signatures, the default one first."""

    def facts(self) -> dict[str, Any]:
        """Returns the facts about the data, JSON values by name."""

    def notes(self) -> list[str]:
        """Returns sentences about the input."""

    def files(self) -> dict[str, bytes]:
        """Returns the contents of additional files for the model folder, by name."""
        return {}
