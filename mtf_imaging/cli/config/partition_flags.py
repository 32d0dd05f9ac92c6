"""A mesh and a layout in the way of TPUEstimator: --input_partition_dims, instead of --mesh_shape and --layout."""

import logging
from typing import NamedTuple

import gin
from absl import flags

from mtf_imaging.errors import ConfigError, LayoutError
from mtf_imaging.layout import PartitionedLayout, from_partition_dims, num_dims, parse_partition_dims, parse_shape

_logger = logging.getLogger(__name__)

NAME = "input_partition_dims"

# What the dimensions of an image are called where no job says it, by how many there are.
_DIMS = {3: "batch,x,channels", 4: "batch,x,y,channels", 5: "batch,x,y,z,channels"}


class PartitionDims(NamedTuple):
    """What the flags say: the numbers of --input_partition_dims, as typed and as read, and their product, if given."""

    typed: str
    numbers: list
    num_cores_per_replica: int | None

    def over(self, dims: str) -> PartitionedLayout:
        """The mesh and the layout, for an image of these dimensions."""
        return from_partition_dims(self.numbers, dims, num_cores_per_replica=self.num_cores_per_replica)


def define(values: flags.FlagValues) -> None:
    """Defines the flags."""
    flags.DEFINE_string(
        NAME,
        None,
        "Instead of --mesh_shape and --layout, as TPUEstimator takes it: slices along each dimension of the image, as "
        "[1,4,2,1], or with the labels [[1,4,2,1],None]. What it is as a layout is printed.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_cores_per_replica", None, "The product of --input_partition_dims, to be checked.", flag_values=values
    )


def read(values: flags.FlagValues) -> PartitionDims | None:
    """Reads and checks the flags; the names of the job's dimensions are not needed yet.

    Returns:
      The flags; None if they are not given, or if the command does not define them.

    Raises:
      LayoutError: numbers that make no layout.
      ConfigError: flags that say the same twice, or half of it.
    """
    if NAME not in values:
        return None
    typed, cores = values.input_partition_dims, values.num_cores_per_replica
    if typed is None:
        if cores is not None:
            raise ConfigError(
                f"--num_cores_per_replica {cores} says nothing without --input_partition_dims. "
                "Fix: give both, or --mesh_shape and --layout."
            )
        return None
    dims = PartitionDims(typed, parse_partition_dims(typed), cores)
    count = num_dims(dims.numbers)
    if count not in _DIMS:
        raise LayoutError(
            f"--input_partition_dims {typed} has {count} numbers for the image. Fix: 3 to 5 of them, one for each of "
            "batch, one to three dimensions of space, and channels, as [1,4,2,1]."
        )
    same = dims.over(_DIMS[count])
    given = [f"--{name} {values[name].value!r}" for name in same._fields if values[name].value is not None]
    if given:
        raise ConfigError(
            f"--input_partition_dims {typed} and {' and '.join(given)} both say what is split. Fix: leave one out; "
            f"over {_DIMS[count]}, the first is {_as_flags(same)}."
        )
    return dims


def _as_flags(layout: PartitionedLayout) -> str:
    """
    >>> _as_flags(PartitionedLayout("rows:4", "x:rows"))
    '--mesh_shape rows:4 --layout x:rows'
    """
    return f"--mesh_shape {layout.mesh_shape or repr('')} --layout {layout.layout or repr('')}"


def resolve(dims: PartitionDims) -> PartitionedLayout:
    """The mesh and the layout, by the names that the job that gin has bound gives its image; they are logged.

    Raises:
      ConfigError: its image has another number of dimensions.
    """
    count = num_dims(dims.numbers)
    names = _names_in_job(count) or _DIMS[count]
    if names.count(",") + 1 != count:
        number = names.count(",") + 1
        raise ConfigError(
            f"--input_partition_dims {dims.typed} has {count} numbers, but the job's image has {number} dimensions: "
            f"{names}. Fix: {number} numbers, 1 for what is not split."
        )
    layout = dims.over(names)
    _logger.info("--input_partition_dims %s over %s is: %s", dims.typed, names, _as_flags(layout))
    return layout


def _names_in_job(count: int) -> str | None:
    """Names of the dimensions of a job's image, `count` of them if it can have so many; None where there is no job."""
    try:
        gin.query_parameter("job.task")
    except ValueError:
        return None
    from mtf_imaging.cli.config.job import Job  # late, for it brings TensorFlow

    task, found = Job().task, None
    for spatial in (count - 2, 3, 2, 1):  # a task names its dimensions only when it is told sizes
        try:
            inputs = task.inputs(1, (64,) * spatial, dtype="float32", labels=False)
            spec = inputs.get("image", next(iter(inputs.values())))
            shape = parse_shape(spec if isinstance(spec, str) else spec[0])
        except Exception:  # of no such sizes, or no task at all, of which the user is told where it is trained
            continue
        if len(shape) == count or found is None:
            found = shape
        if len(found) == count:
            break
    return found and ",".join(name for name, _ in found)
