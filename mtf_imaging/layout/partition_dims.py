"""Layouts as TPUEstimator takes them, `input_partition_dims`: numbers of slices along each dimension of an input.

Its `TPUConfig` has a list for each input of a model, features and labels, of a number for each dimension:
`[[1, 4, 1, 1], None]` splits images [batch, height, width, channels] into four along the height, and leaves labels
whole. Here dimensions have names, so one layout says it for all tensors of a program.
"""

import ast
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mtf_imaging.errors import LayoutError
from mtf_imaging.layout.grammar import format_rules, format_shape, is_name

_BATCH = ("batch", "cores")  # the dimension that replicas share, and the mesh dimension that splits it
_MESH_DIMS = ("rows", "cols", "planes", "layers")  # that split the others, in their order


class PartitionedLayout(NamedTuple):
    """A mesh and a layout, in the order that a `Program` takes them."""

    mesh_shape: str
    layout: str


def from_partition_dims(
    partition_dims: Sequence,
    dims: str | Sequence[str | None],
    *,
    num_cores_per_replica: int | None = None,
    num_replicas: int = 1,
) -> PartitionedLayout:
    """Returns the mesh and the layout that TPUEstimator's `input_partition_dims` stands for.

    >>> from_partition_dims([1, 4, 2, 1], dims="batch,x,y,channels")
    PartitionedLayout(mesh_shape='rows:4,cols:2', layout='x:rows,y:cols')
    >>> from_partition_dims([[1, 4, 1, 1], None], dims="batch,height,width,channels", num_replicas=8)
    PartitionedLayout(mesh_shape='rows:4,cores:8', layout='height:rows,batch:cores')

    Unlike there, a dimension that some level of a network cannot split evenly is not left whole silently: `Program`
    refuses it, with the sizes and the fix.

    Args:
      partition_dims: slices along each dimension of the one input; or a list with such a list, a dict of them, or None
        for each input. None, or only ones, is an input that has no say.
      dims: names of the dimensions, "batch,x,y,channels"; inputs of fewer, as labels, have the first of them.
        Or a list of names for each input, None where that is not split.
      num_cores_per_replica: slices of one image, to be checked.
      num_replicas: how many times as many processors there are, which share the batch.

    Raises:
      LayoutError: with every fault of the numbers.
    """
    inputs = _inputs(partition_dims)
    names = _names_of_inputs(dims, inputs, partition_dims)
    faults = [fault for entry, named in zip(inputs, names) for fault in _faults(entry, named)]
    if faults:
        raise _error(partition_dims, faults)
    parts = _agreed(inputs, names, partition_dims)
    _check_cores(num_cores_per_replica, parts, partition_dims)
    if not _is_count(num_replicas):
        raise LayoutError(f"num_replicas must be 1, 2, 3 ..., not {num_replicas!r}.")
    batch, cores = _BATCH
    every = [dims] if isinstance(dims, str) else [of for of in dims if of is not None]
    if num_replicas > 1 and not any(batch in _names(of) for of in every):
        raise LayoutError(
            f"num_replicas {num_replicas}: replicas share the batch, but of '{'; '.join(every)}' none is called "
            f"'{batch}'. Fix: call the first one '{batch}', or leave out num_replicas."
        )
    replicated = parts.pop(batch, 1) * num_replicas
    split = [(name, _mesh_dim(at), number) for at, (name, number) in enumerate(parts.items())]
    split += [(batch, cores, replicated)] if replicated > 1 else []
    return PartitionedLayout(
        format_shape((mesh_dim, number) for _, mesh_dim, number in split),
        format_rules((name, mesh_dim) for name, mesh_dim, _ in split),
    )


def parse_partition_dims(string: str) -> list | dict:
    """Reads what `from_partition_dims` takes from a string; whether the numbers make sense is its business.

    >>> parse_partition_dims("[[1,4,1,1],None]"), parse_partition_dims("1,4,2,1")
    ([[1, 4, 1, 1], None], [1, 4, 2, 1])

    Raises:
      LayoutError: it is no list.
    """
    fix = "Fix: a number for each dimension, as [1,4,2,1], or a list for each input, as [[1,4,1,1],None]."
    try:
        found = ast.literal_eval(string.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise LayoutError(f"input_partition_dims '{string}' cannot be read. {fix}") from None
    if not isinstance(found, list | tuple | dict):
        raise LayoutError(f"input_partition_dims '{string}' is no list. {fix}")
    return list(found) if isinstance(found, tuple) else found


def num_dims(partition_dims: Sequence) -> int:
    """How many numbers the input has that has most; 0 where none is split.

    >>> num_dims([[1, 4, 1, 1], None])
    4
    """
    return max((len(entry) for entry in _inputs(partition_dims) if entry is not None), default=0)


def _inputs(partition_dims: Sequence | dict) -> list[list | None]:
    """The lists of all inputs, one after the other, with None for inputs that are not split."""
    if not isinstance(partition_dims, list | tuple | dict):
        raise LayoutError(
            "input_partition_dims must be a list such as [1, 4, 2, 1], or one with a list for each input such as "
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
        raise _error(typed, [f"{value!r} stands where the list of an input should. Fix: [{value!r}, ...], or None."])
    elif not any(item is None or isinstance(item, list | tuple | dict) for item in value):
        yield list(value)
        return
    for item in value:
        yield from _leaves(item, typed)


def _names_of_inputs(dims: str | Sequence[str | None], inputs: Sequence[list | None], typed: object) -> list[list[str]]:
    """The names of the dimensions of each input, as many as it has numbers; [] for one that is not split."""
    if isinstance(dims, str):
        names = _names(dims)
        longest = max((entry for entry in inputs if entry is not None), key=len, default=names)
        if len(longest) != len(names):
            raise _error(typed, [_wrong_length(longest, dims, len(names))])
        return [names[: len(entry or ())] for entry in inputs]
    if not isinstance(dims, list | tuple) or len(dims) != len(inputs):
        count = "" if not isinstance(dims, list | tuple) else f", which are {len(dims)}"
        raise LayoutError(
            f"dims must be names such as 'batch,x,y,channels', or a list of them for each of {len(inputs)} inputs, "
            f"not {dims!r}{count}."
        )
    found = [[] if entry is None else _names(of) for of, entry in zip(dims, inputs)]
    faults = [
        _wrong_length(entry, of, len(names))
        for of, entry, names in zip(dims, inputs, found)
        if entry is not None and len(entry) != len(names)
    ]
    if faults:
        raise _error(typed, faults)
    return found


def _names(dims: str | None) -> list[str]:
    if not isinstance(dims, str):
        raise LayoutError(f"dims of an input that is split must be names such as 'batch,x,y,channels', not {dims!r}.")
    names = [name.strip() for name in dims.replace(";", ",").split(",")]
    for name in names:
        if not is_name(name):
            raise LayoutError(f"dims '{dims}': '{name}' is no name: names start with a letter or '_'.")
        if names.count(name) > 1:
            raise LayoutError(f"dims '{dims}': '{name}' is named {names.count(name)} times. Fix: a name for each.")
    return names


def _wrong_length(entry: list, dims: str | None, number: int) -> str:
    return (
        f"{entry} has {len(entry)} numbers, but '{dims}' names {number} dimensions. "
        "Fix: a number for each, 1 for one that is not split."
    )


def _is_count(value: Any) -> bool:
    """Whether it is a whole number from 1 up, of NumPy's too; True is none."""
    try:
        return not isinstance(value, bool) and operator.index(value) >= 1
    except TypeError:
        return False


def _faults(entry: list | None, names: Sequence[str]) -> list[str]:
    return [
        f"'{name}' must be cut into 1, 2, 3 ... slices, not {number!r}."
        for name, number in zip(names, entry or ())
        if not _is_count(number)
    ]


def _agreed(inputs: Sequence[list | None], names: Sequence[Sequence[str]], typed: object) -> dict[str, int]:
    """Slices along each dimension that is split, on which all inputs that are split must agree."""
    found: dict[str, int] = {}
    faults = []
    for entry, named in zip(inputs, names):
        if entry is None or math.prod(entry) == 1:
            continue
        for name, number in zip(named, map(operator.index, entry)):
            if found.setdefault(name, number) != number:
                faults.append(
                    f"'{name}' is cut into {found[name]} slices in one input and into {number} in another; a layout "
                    f"splits it the same everywhere. Fix: {found[name]} in both, or None for one that may follow."
                )
    if faults:
        raise _error(typed, faults)
    return {name: number for name, number in found.items() if number > 1}


def _check_cores(num_cores_per_replica: int | None, parts: dict[str, int], typed: object) -> None:
    product = math.prod(parts.values())
    if num_cores_per_replica is None or (_is_count(num_cores_per_replica) and num_cores_per_replica == product):
        return
    if not _is_count(num_cores_per_replica):
        raise LayoutError(f"num_cores_per_replica must be 1, 2, 3 ..., not {num_cores_per_replica!r}.")
    slices = f"{' x '.join(map(str, parts.values()))} = {product}" if len(parts) > 1 else f"{product}"
    raise _error(
        typed,
        [
            f"it makes {slices} slices, but num_cores_per_replica is {num_cores_per_replica}. "
            f"Fix: num_cores_per_replica {product}, or numbers whose product is {num_cores_per_replica}."
        ],
    )


def _mesh_dim(at: int) -> str:
    return _MESH_DIMS[at] if at < len(_MESH_DIMS) else f"axis{at}"


def _error(typed: object, faults: list[str]) -> LayoutError:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return LayoutError("\n  ".join([f"input_partition_dims {typed!r} has {count}:", *faults]))
