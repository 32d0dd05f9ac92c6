"""Estimates the device memory that a program needs, and explains errors about insufficient memory."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import format_shape
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.program.checks import graph_tensors
from mtf_imaging.errors import OutOfMemoryError, reason

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_WAYS_OUT = (
    "more processors: use a larger mesh_shape on more devices, or a layout that splits more dimensions",
    "processors in turns, of which a device keeps one at a time, such as mesh_shape='slabs:8', layout='x:slabs' and "
    "sequential='slabs'",
    "less work at once: use a smaller batch_size or more micro_batches",
    "smaller tensors: use a lower resolution, or halve the bytes with dtype='bfloat16'",
)
_SETTINGS = ("mesh_shape", "layout", "sequential", "batch_size", "micro_batches", "resolution", "dtype")
# Phrases of TensorFlow, oneDNN, CUDA and cuDNN about insufficient memory, in errors of any class. The last phrase is
# TensorFlow's error about a constant that does not fit.
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
    """The memory that the tensors of a program need on one device.

    Attributes:
      name: the name of the largest tensor.
      shape: shape of the largest tensor as a whole, such as "batch:1,x:64".
      slice_shape: shape of one slice of the largest tensor.
      slice_bytes: bytes of one slice of the largest tensor.
      device_bytes: bytes of one shard of the largest tensor.
      num_tensors: number of tensors in the program.
      total_bytes: bytes that a device would need to keep every tensor until the end. Actual use is lower if the device
        frees tensors early, and higher because of operation workspaces.
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
            f"{format_bytes(self.slice_bytes)} each, {format_bytes(self.device_bytes)} per device. All "
            f"{self.num_tensors} tensors of the program would take {format_bytes(self.total_bytes)} per device if none "
            "were freed."
        )


def demand(graph: mtf.Graph, mesh_impl: ShardMeshImpl) -> Demand:
    """Returns the memory that the tensors of a graph need on each device of a mesh.

    A device stores a tensor once if the layout does not split it, else one slice per processor of the device.

    Args:
      graph: an `mtf.Graph` with at least one tensor.
      mesh_impl: the `ShardMeshImpl` of the program.
    """
    entries = []
    for _, tensor in graph_tensors(graph):
        slice_shape = tuple(mesh_impl.slice_shape(tensor.shape))
        slice_bytes = math.prod(slice_shape) * tensor.dtype.size
        slices = mesh_impl.grid.stack_size if mesh_impl.is_split(tensor.shape) else 1
        entries.append((slices * slice_bytes, slice_bytes, slice_shape, tensor))
    device_bytes, slice_bytes, slice_shape, tensor = max(entries, key=lambda entry: entry[:2])
    return Demand(
        tensor.name,
        format_shape((dim.name, dim.size) for dim in tensor.shape.dims),
        slice_shape,
        slice_bytes,
        device_bytes,
        len(entries),
        sum(entry[0] for entry in entries),
    )


@contextlib.contextmanager
def shortage_explained(program_demand: Callable[[], Demand | None]) -> Iterator[None]:
    """Converts errors about insufficient memory in the block to `OutOfMemoryError`.

    Args:
      program_demand: a function that returns the `Demand` of the program, or None if it is not known yet.
    """
    try:
        yield
    except (MemoryError, tf.errors.OpError) as error:
        if not _is_shortage(error):
            raise
        estimate = program_demand()
        facts = [
            f"out of memory: {_reason(error)}.",
            *([str(estimate)] if estimate else []),
            "Fix: do one of the following:",
        ]
        raise OutOfMemoryError("\n  ".join([*facts, *(f"- {way}" for way in _WAYS_OUT)]), _SETTINGS) from error


def _is_shortage(error: Exception) -> bool:
    return isinstance(error, MemoryError | tf.errors.ResourceExhaustedError) or _mentions_memory(str(error))


def _mentions_memory(text: str) -> bool:
    return any(words in text.lower() for words in _SHORTAGE)


def _reason(error: Exception) -> str:
    """Returns the line about memory from an error message, which may have many lines."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(_mentions_memory, lines), reason(error)).removesuffix(".")


def format_bytes(number: int) -> str:
    """Formats a number of bytes with a binary unit.

    >>> format_bytes(3 * 2**29)
    '1.5 GiB'
    """
    power = min(max(number.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{number / 2 ** (10 * power):,.{1 if power else 0}f} {_UNITS[power]}"
