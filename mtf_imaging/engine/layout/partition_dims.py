"""Converts TPUEstimator's `input_partition_dims`, the number of slices along each dimension of an input, to layouts.

TPUEstimator's `TPUConfig` has one list for each input of a model (features and labels), with one number for each
dimension. For instance, `[[1, 4, 1, 1], None]` splits images [batch, height, width, channels] into four slices along
the height and does not split the labels. In this package dimensions have names, so one layout describes all tensors of
a program.
"""

import ast
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mtf_imaging.engine.layout.grammar import NAME_RULE, format_rules, format_shape, is_name
from mtf_imaging.errors import LayoutError

_BATCH = ("batch", "cores")  # the dimension split over replicas, and its mesh dimension
_MESH_DIMS = ("rows", "cols", "planes", "layers")  # the mesh dimensions for the other dimensions, in order


class PartitionedLayout(NamedTuple):
    """A mesh shape and a layout, in the order of the arguments of `Program`."""

    mesh_shape: str
    layout: str


def from_partition_dims(
    partition_dims: Sequence,
    dims: str | Sequence[str | None],
    *,
    num_cores_per_replica: int | None = None,
    num_replicas: int = 1,
) -> PartitionedLayout:
    """Converts TPUEstimator's `input_partition_dims` to a mesh shape and a layout.

    >>> from_partition_dims([1, 4, 2, 1], dims="batch,x,y,channels")
    PartitionedLayout(mesh_shape='rows:4,cols:2', layout='x:rows,y:cols')
    >>> from_partition_dims([[1, 4, 1, 1], None], dims="batch,height,width,channels", num_replicas=8)
    PartitionedLayout(mesh_shape='rows:4,cores:8', layout='height:rows,batch:cores')

    If a network level cannot be split evenly along a dimension, TPUEstimator silently does not split it there.
    `Program` splits every level into slices of `ceil(n / N)` voxels. The last ones may be shorter or empty.

    Args:
      partition_dims: for a single input, a list with the number of slices along each dimension. For several inputs, a
        list with one entry per input: such a list, a dict of such lists, or None. An input with None, or with only
        ones, follows the other inputs.
      dims: names of the dimensions, such as "batch,x,y,channels". An input with fewer dimensions, such as labels, has
        the first of these. If the inputs have different dimensions, pass a list with one such string per input, or None
        for an input that is not split.
      num_cores_per_replica: number of slices of one image, only used to check the product of the numbers.
      num_replicas: number of replicas that the batch is split over. It multiplies the number of processors.

    Raises:
      LayoutError: the numbers are invalid. The error lists all faults.
    """
    inputs = _inputs(partition_dims)
    names = _names_of_inputs(dims, inputs, partition_dims)
    faults = [fault for entry, named in zip(inputs, names) for fault in _faults(entry, named)]
    if faults:
        raise _error(partition_dims, faults)
    parts = _agreed(inputs, names, partition_dims)
    _check_cores(num_cores_per_replica, parts, partition_dims)
    if not _is_count(num_replicas):
        raise LayoutError(f"num_replicas must be a positive integer, not {num_replicas!r}.")
    batch, cores = _BATCH
    every = [dims] if isinstance(dims, str) else [each for each in dims if each is not None]
    if num_replicas > 1 and not any(batch in _names(each) for each in every):
        raise LayoutError(
            f"num_replicas is {num_replicas} and replicas share the batch, but no dimension of '{'; '.join(every)}' is "
            f"called '{batch}'. Fix: call the batch dimension '{batch}', or omit num_replicas."
        )
    replicated = parts.pop(batch, 1) * num_replicas
    split = [(name, _mesh_dim(at), number) for at, (name, number) in enumerate(parts.items())]
    split += [(batch, cores, replicated)] if replicated > 1 else []
    return PartitionedLayout(
        format_shape((mesh_dim, number) for _, mesh_dim, number in split),
        format_rules((name, mesh_dim) for name, mesh_dim, _ in split),
    )


def parse_partition_dims(string: str) -> list | dict:
    """Parses a string into the `partition_dims` of `from_partition_dims`, which checks the numbers.

    >>> parse_partition_dims("[[1,4,1,1],None]"), parse_partition_dims("1,4,2,1")
    ([[1, 4, 1, 1], None], [1, 4, 2, 1])

    Raises:
      LayoutError: the string is not a list.
    """
    fix = "Fix: write one number per dimension, such as [1,4,2,1], or one list per input, such as [[1,4,1,1],None]."
    try:
        value = ast.literal_eval(string.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise LayoutError(f"input_partition_dims '{string}' cannot be parsed. {fix}") from None
    if not isinstance(value, list | tuple | dict):
        raise LayoutError(f"input_partition_dims '{string}' is not a list. {fix}")
    return list(value) if isinstance(value, tuple) else value


def num_dims(partition_dims: Sequence) -> int:
    """Returns the length of the longest list in `input_partition_dims`, or 0 if no input is split.

    >>> num_dims([[1, 4, 1, 1], None])
    4
    """
    return max((len(entry) for entry in _inputs(partition_dims) if entry is not None), default=0)


def _inputs(partition_dims: Sequence | dict) -> list[list | None]:
    """Flattens the lists of all inputs into one list, with None for inputs that are not split."""
    if not isinstance(partition_dims, list | tuple | dict):
        raise LayoutError(
            "input_partition_dims must be a list such as [1, 4, 2, 1], or a list with one list per input such as "
            f"[[1, 4, 1, 1], None], not {partition_dims!r} ({type(partition_dims).__name__})."
        )
    return list(_leaves(partition_dims, partition_dims))


def _leaves(value: object, typed: object) -> Iterator[list | None]:
    if isinstance(value, dict):
        value = list(value.values())
    elif value is None:
        yield None
        return
    elif not isinstance(value, list | tuple):
        raise _error(typed, [f"{value!r} is not the list of an input. Fix: write [{value!r}, ...], or None."])
    elif not any(item is None or isinstance(item, list | tuple | dict) for item in value):
        yield list(value)
        return
    for item in value:
        yield from _leaves(item, typed)


def _names_of_inputs(dims: str | Sequence[str | None], inputs: Sequence[list | None], typed: object) -> list[list[str]]:
    """Returns the dimension names of each input, one per number; [] for an input that is not split."""
    if isinstance(dims, str):
        names = _names(dims)
        longest = max((entry for entry in inputs if entry is not None), key=len, default=names)
        if len(longest) != len(names):
            raise _error(typed, [_wrong_length(longest, dims, len(names))])
        return [names[: len(entry or ())] for entry in inputs]
    if not isinstance(dims, list | tuple) or len(dims) != len(inputs):
        length = f" (length {len(dims)})" if isinstance(dims, list | tuple) else ""
        raise LayoutError(
            "dims must be names such as 'batch,x,y,channels', or a list with such names for each input "
            f"(length {len(inputs)}), not {dims!r}{length}."
        )
    names_per_input = [[] if entry is None else _names(each) for each, entry in zip(dims, inputs)]
    faults = [
        _wrong_length(entry, each, len(names))
        for each, entry, names in zip(dims, inputs, names_per_input)
        if entry is not None and len(entry) != len(names)
    ]
    if faults:
        raise _error(typed, faults)
    return names_per_input


def _names(dims: str | None) -> list[str]:
    if not isinstance(dims, str):
        raise LayoutError(f"the dims of a split input must be names such as 'batch,x,y,channels', not {dims!r}.")
    names = [name.strip() for name in dims.replace(";", ",").split(",")]
    for name in names:
        if not is_name(name):
            raise LayoutError(f"dims '{dims}': '{name}' is not a valid name: {NAME_RULE}.")
        if names.count(name) > 1:
            raise LayoutError(
                f"dims '{dims}': '{name}' appears {names.count(name)} times. Fix: give each dimension its own name."
            )
    return names


def _wrong_length(entry: list, dims: str | None, number: int) -> str:
    return (
        f"{entry} has length {len(entry)}, but the number of dimensions in '{dims}' is {number}. "
        "Fix: write one number per dimension, 1 for a dimension that is not split."
    )


def _is_count(value: Any) -> bool:
    """Returns whether a value is a positive integer; NumPy integers count, bools do not."""
    try:
        return not isinstance(value, bool) and operator.index(value) >= 1
    except TypeError:
        return False


def _faults(entry: list | None, names: Sequence[str]) -> list[str]:
    return [
        f"the number of slices of '{name}' must be a positive integer, not {number!r}."
        for name, number in zip(names, entry or ())
        if not _is_count(number)
    ]


def _agreed(inputs: Sequence[list | None], names: Sequence[Sequence[str]], typed: object) -> dict[str, int]:
    """Returns the number of slices of each split dimension, on which all split inputs must agree."""
    slices: dict[str, int] = {}
    faults = []
    for entry, named in zip(inputs, names):
        if entry is None or math.prod(entry) == 1:
            continue
        for name, number in zip(named, map(operator.index, entry)):
            if slices.setdefault(name, number) != number:
                faults.append(
                    f"'{name}' has {slices[name]} slices in one input and {number} in another, but a layout splits a "
                    f"dimension the same way in all tensors. Fix: write {slices[name]} in both, or None for one input."
                )
    if faults:
        raise _error(typed, faults)
    return {name: number for name, number in slices.items() if number > 1}


def _check_cores(num_cores_per_replica: int | None, parts: dict[str, int], typed: object) -> None:
    product = math.prod(parts.values())
    if num_cores_per_replica is None or (_is_count(num_cores_per_replica) and num_cores_per_replica == product):
        return
    if not _is_count(num_cores_per_replica):
        raise LayoutError(f"num_cores_per_replica must be a positive integer, not {num_cores_per_replica!r}.")
    slices = f"{' x '.join(map(str, parts.values()))} = {product}" if len(parts) > 1 else f"{product}"
    raise _error(
        typed,
        [
            f"the number of slices is {slices}, but num_cores_per_replica is {num_cores_per_replica}. "
            f"Fix: set num_cores_per_replica to {product}, or write numbers whose product is {num_cores_per_replica}."
        ],
    )


def _mesh_dim(at: int) -> str:
    return _MESH_DIMS[at] if at < len(_MESH_DIMS) else f"axis{at}"


def _error(typed: object, faults: list[str]) -> LayoutError:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return LayoutError("\n  ".join([f"input_partition_dims {typed!r} has {count}:", *faults]))
