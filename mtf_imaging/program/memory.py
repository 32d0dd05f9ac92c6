"""What a program asks of a device's memory, and the message where a device has less."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import OutOfMemoryError, reason
from mtf_imaging.layout import format_shape
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.program.checks import tensors_of

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_WAYS_OUT = (
    "processors: a mesh_shape with more of them, on more devices, or a layout that splits more",
    "less at a time: a smaller batch_size, or more micro_batches",
    "smaller tensors: a lower resolution, or half the bytes with dtype='bfloat16'",
)
_SETTINGS = ("mesh_shape", "layout", "batch_size", "micro_batches", "resolution", "dtype")
# How TensorFlow, oneDNN, CUDA and cuDNN say it, in errors of any class; the last one is of constants without room.
_SHORTAGE = (
    "oom when",
    "out of memory",
    "out_of_memory",
    "failed to allocate",
    "alloc_failed",
    "could not create a memory object",
    "cannot parse tensor from proto",
)


@dataclasses.dataclass(frozen=True)
class Demand:
    """What a program's tensors take on the fullest device.

    Attributes:
      name: of the largest tensor.
      shape: the whole of it, as "batch:1,x:64".
      slice_shape: what one processor holds of it.
      slice_bytes: of that.
      device_bytes: of what a device holds of it: the slices of all its processors.
      num_tensors: of the whole program.
      total_bytes: of what a device would hold if it kept every tensor to the end; it needs less where it frees some on
        the way, and more for the work space of operations.
    """

    name: str
    shape: str
    slice_shape: tuple[int, ...]
    slice_bytes: int
    device_bytes: int
    num_tensors: int
    total_bytes: int

    def __str__(self) -> str:
        return (
            f"The largest tensor, '{self.name}' [{self.shape}], has slices of {list(self.slice_shape)}, "
            f"{format_bytes(self.slice_bytes)} each, {format_bytes(self.device_bytes)} a device. All "
            f"{self.num_tensors} tensors of the program, if all were kept, would take "
            f"{format_bytes(self.total_bytes)} a device."
        )


def demand(graph: mtf.Graph, mesh_impl: ShardMeshImpl) -> Demand:
    """Returns the memory that the tensors of a graph take on each device of a mesh.

    Args:
      graph: an `mtf.Graph` with at least one tensor.
      mesh_impl: the `ShardMeshImpl` that it is to be lowered on. It holds a tensor that the layout does not split once
        a device, and a slice for each of the device's processors of any other.
    """
    found = []
    for _, tensor in tensors_of(graph):
        slice_shape = tuple(mesh_impl.slice_shape(tensor.shape))
        slice_bytes = math.prod(slice_shape) * tensor.dtype.size
        slices = mesh_impl.grid.stack_size if mesh_impl.is_split(tensor.shape) else 1
        found.append((slices * slice_bytes, slice_bytes, slice_shape, tensor))
    device_bytes, slice_bytes, slice_shape, tensor = max(found, key=lambda entry: entry[:2])
    return Demand(
        tensor.name,
        format_shape((dim.name, dim.size) for dim in tensor.shape.dims),
        slice_shape,
        slice_bytes,
        device_bytes,
        len(found),
        sum(entry[0] for entry in found),
    )


@contextlib.contextmanager
def shortage_explained(program_demand: Callable[[], Demand | None]) -> Iterator[None]:
    """Raises `OutOfMemoryError` in place of the errors that a lack of memory raises in the block.

    Args:
      program_demand: a function that returns the demand of the program, or None before it is known.
    """
    try:
        yield
    except (MemoryError, tf.errors.OpError) as error:
        if not _is_shortage(error):
            raise
        known = program_demand()
        facts = [f"out of memory: {_said(error)}.", *([str(known)] if known else []), "Ways out:"]
        raise OutOfMemoryError("\n  ".join([*facts, *(f"- {way}" for way in _WAYS_OUT)]), _SETTINGS) from error


def _is_shortage(error: Exception) -> bool:
    return isinstance(error, MemoryError | tf.errors.ResourceExhaustedError) or _speaks_of_memory(str(error))


def _speaks_of_memory(text: str) -> bool:
    return any(words in text.lower() for words in _SHORTAGE)


def _said(error: Exception) -> str:
    """Returns the line that states the shortage; in TensorFlow's messages it is in the middle of others."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(_speaks_of_memory, lines), reason(error)).removesuffix(".")


def format_bytes(number: int) -> str:
    """Formats a number of bytes for people.

    >>> format_bytes(3 * 2**29)
    '1.5 GiB'
    """
    power = min(max(number.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{number / 2 ** (10 * power):,.{1 if power else 0}f} {_UNITS[power]}"
