"""Estimates the device memory that a program needs, and explains errors about insufficient memory."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import layout_pairs, mtf
from mtf_imaging.engine.layout import format_rules, format_shape
from mtf_imaging.engine.meshes.devices import device_memory
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.program.checks import graph_tensors
from mtf_imaging.errors import OutOfMemoryError, reason

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_IN_TURNS = "mesh_shape='slabs:8', layout='x:slabs' and sequential='slabs'"
_THINNEST = 4  # voxels of a slab
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
      in_turns: function that returns settings with which processors take turns; see `_in_turns`.
    """

    name: str
    shape: str
    slice_shape: tuple[int, ...]
    slice_bytes: int
    device_bytes: int
    num_tensors: int
    total_bytes: int
    in_turns: Callable[[], str]

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
    inputs = [op.outputs[0].shape.dims for op in graph.operations if getattr(op, "kind", None) == "input"]
    device_bytes, slice_bytes, slice_shape, tensor = max(entries, key=lambda entry: entry[:2])
    return Demand(
        tensor.name,
        format_shape((dim.name, dim.size) for dim in tensor.shape.dims),
        slice_shape,
        slice_bytes,
        device_bytes,
        len(entries),
        total := sum(entry[0] for entry in entries),
        functools.partial(_in_turns, mesh_impl, max(inputs, key=len, default=[]), total),
    )


def _in_turns(mesh_impl: ShardMeshImpl, dims: Sequence[mtf.Dimension], total_bytes: int) -> str:
    """Returns settings with which all tensors of a turn fit, even if none were freed.

    Args:
      mesh_impl: the mesh. If its processors share a device, they can take turns; if they do, they can take more.
      dims: the dimensions of the image: batch, spatial dimensions, channels.
      total_bytes: bytes of all tensors on a device.
    """
    mesh = {dim.name: dim.size for dim in mesh_impl.shape.dims}
    rules, grid = dict(sorted(layout_pairs(mesh_impl.layout_rules))), mesh_impl.grid
    for axis, name in enumerate(mesh):
        if grid.is_in_turns(axis):
            return f"mesh_shape='{format_shape((mesh | {name: 2 * mesh[name]}).items())}'"
    together = [name for axis, name in enumerate(mesh) if grid.local[axis] == grid.mesh[axis] > 1]
    if together:
        return f"sequential='{','.join(together)}'"
    whole = [dim for dim in dims[1:-1] if dim.name not in rules]
    if not whole:
        return _IN_TURNS
    turns, memory = 2, device_memory(mesh_impl.devices[0])
    while turns < whole[0].size // _THINNEST and total_bytes > turns * memory:
        turns *= 2
    mesh_shape = format_shape([*mesh.items(), ("slabs", turns)])
    layout = format_rules([*rules.items(), (whole[0].name, "slabs")])
    return f"mesh_shape='{mesh_shape}', layout='{layout}' and sequential='slabs'"


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
        in_turns = estimate.in_turns() if estimate else _IN_TURNS
        ways = [f"- {way}" for way in _ways_out(in_turns)]
        raise OutOfMemoryError("\n  ".join([*facts, *ways]), _SETTINGS) from error


def _ways_out(in_turns: str) -> Sequence[str]:
    return (
        "more processors: use a larger mesh_shape on more devices, or a layout that splits more dimensions",
        f"processors in turns, of which a device keeps one at a time, such as {in_turns}",
        "less work at once: use a smaller batch_size or more micro_batches",
        "smaller tensors: use a lower resolution, or halve the bytes with dtype='bfloat16'",
    )


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
