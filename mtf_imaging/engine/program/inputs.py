"""The inputs of a program: their shapes and dtypes, and the conversion of the values that a caller passes."""

import contextlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import format_shape, parse_shape
from mtf_imaging.engine.ops.precision import INTEGERS, rank
from mtf_imaging.errors import DataError, ShapeError

# A shape such as "batch:1,x:12,channels:3", with dtype float32, or a pair (shape, dtype).
Spec = str | tuple[str, tf.DType]

_FIX = (
    "Fix: renumber the labels to these values. If the value marks voxels that do not count, make it the label that the "
    "task ignores (ignore, ignore_label)."
)


class Input:
    """The name, shape and dtype of an input.

    Args:
      name: name of the input.
      spec: a shape such as "batch:1,x:12,channels:3", with dtype float32, or a pair (shape, dtype).

    Raises:
      ShapeError: the dtype is unknown or not numeric.
    """

    def __init__(self, name: str, spec: Spec) -> None:
        string, dtype = spec if isinstance(spec, (tuple, list)) else (spec, tf.float32)
        self.name = name
        self.shape = mtf.Shape([mtf.Dimension(d, n) for d, n in parse_shape(string, what=f"shape of input '{name}'")])
        try:
            self.dtype = tf.as_dtype(dtype)
            self._numpy_dtype = np.dtype(self.dtype.as_numpy_dtype)
        except TypeError:
            self._numpy_dtype = np.dtype(object)
        if rank(self._numpy_dtype) is None:
            raise ShapeError(
                f"input '{name}' cannot have dtype {dtype!r}. Fix: choose a dtype of numbers, such as 'float32'."
            )
        self.spec = tf.TensorSpec(self.shape.to_integer_list, self.dtype, name=name)

    def convert(self, value: object, region: tuple[slice, ...] | None = None) -> tf.Tensor:
        """Converts a value of the input to a tensor on the CPU.

        Values of another dtype are cast from bool to integers, from integers to floats, from floats to complex numbers,
        and within one of these kinds, but not in the opposite direction. A cast to floats may round. Integers are cast
        to a narrower dtype only if it can represent all of them.

        Args:
          value: a `tf.Tensor`, a `tf.Variable`, an array, or Python numbers in lists or tuples.
          region: the region of the whole tensor that the value covers, or None for the whole tensor.

        Raises:
          ShapeError: the value has the wrong shape, or a dtype whose cast could change its values.
        """
        sizes = self.shape.to_integer_list if region is None else [part.stop - part.start for part in region]
        with tf.device("CPU:0"):  # a whole tensor may not fit on a device, even if its slices do
            array = self._array(value)
            if list(array.shape) != sizes:
                dims = format_shape((d.name, size) for d, size in zip(self.shape.dims, sizes))
                raise ShapeError(f"input '{self.name}' must have shape [{dims}], not {list(array.shape)}")
            self._check_cast(array)
            if isinstance(array, tf.Tensor):
                return tf.cast(array, self.dtype)
            return tf.convert_to_tensor(array.astype(self._numpy_dtype, copy=False))

    def check_labels(self, tensor: tf.Tensor, values: frozenset[int], region: tuple[slice, ...]) -> None:
        """Checks that labels have only the given values.

        Args:
          tensor: the labels; the values of a symbolic tensor cannot be checked.
          values: the values.
          region: the region of the whole tensor that the labels cover.

        Raises:
          DataError: they do not. The message contains the first other value and its position in the whole tensor.
        """
        if tf.is_symbolic_tensor(tensor):
            return
        labels, first = tensor.numpy(), min(values, default=0)
        last = next(value for value in range(first, first + len(values) + 1) if value + 1 not in values)
        # Two passes without temporary arrays, in almost all batches.
        if not labels.size or (labels.min() >= first and labels.max() <= last):
            return
        others = sorted(value for value in values if value > last)
        wrong = (labels < first) | (labels > last)
        for value in others:  # a pass for each takes a tenth of the time of np.isin
            wrong &= labels != value
        if not wrong.any():
            return
        at = np.unravel_index(np.argmax(wrong), labels.shape)
        place = ", ".join(f"{dim.name} {part.start + i}" for dim, part, i in zip(self.shape.dims, region, at))
        raise DataError(
            f"input '{self.name}' contains {labels[at]} at {place}, but its values must be "
            f"{', '.join([f'{first}..{last}', *map(str, others)])}. "
            f"{_FIX}"
        )

    def _array(self, value: object) -> np.ndarray | tf.Tensor:
        """Converts a value to an array or a tensor of its own dtype; a list gets NumPy's default dtype."""
        if isinstance(value, np.ma.MaskedArray):
            raise self._unusable("a masked array", "pass value.filled(x), with a number x for the masked elements")
        kind = type(value).__name__
        try:
            array = tf.convert_to_tensor(value) if isinstance(value, tf.Tensor | tf.Variable) else np.asarray(value)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise self._unusable(f"of type {kind}: {error}", "pass an array of numbers") from None
        if rank(_dtype(array)) is None:
            raise self._unusable(f"of type {kind} with dtype {_dtype(array)}", "pass an array of numbers")
        return array

    def _unusable(self, what: str, fix: str) -> ShapeError:
        return ShapeError(f"input '{self.name}' must be an array of {self.dtype.name}, not {what}. Fix: {fix}.")

    def _check_cast(self, array: np.ndarray | tf.Tensor) -> None:
        """Checks that a cast to the input's dtype does not change values, except by rounding floats."""
        source, target = _dtype(array), self._numpy_dtype
        if source == target:
            return
        head = f"input '{self.name}' must have dtype {target.name}, not {source.name}"
        fix = f"Fix: convert the values before the call, or declare the input with dtype {source.name}."
        if (rank(source) or 0) > (rank(target) or 0):
            raise ShapeError(f"{head}, because a cast to {target.name} would change values. {fix}")
        if rank(source) != INTEGERS or rank(target) != INTEGERS or np.can_cast(source, target):
            return
        if tf.is_symbolic_tensor(array):
            raise ShapeError(f"{head}, because the tensor is symbolic, so its values cannot be checked. {fix}")
        values, low, high = np.asarray(array), np.iinfo(target).min, np.iinfo(target).max
        if values.size and (values.min() < low or values.max() > high):
            first = values[(values < low) | (values > high)].flat[0]
            raise ShapeError(
                f"{head}, because it contains {first}, and {target.name} has values from {low} to {high}. {fix}"
            )


def _dtype(array: np.ndarray | tf.Tensor) -> np.dtype:
    return np.dtype(array.dtype.as_numpy_dtype) if isinstance(array, tf.Tensor) else array.dtype


@contextlib.contextmanager
def label_faults_explained() -> Iterator[None]:
    """Shortens the error of TensorFlow for labels that are not classes, which lists all labels.

    Only labels that the program computes from its inputs get here; `Input.check_labels` checks inputs.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)", error.message)
        if found is None:
            raise
        value, classes = map(int, found.groups())
        raise DataError(
            f"a cross entropy gets the label {value}, but its classes are 0..{classes - 1}. {_FIX}"
        ) from None
