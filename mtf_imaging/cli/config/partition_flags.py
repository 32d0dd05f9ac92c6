"""The flag --input_partition_dims: a mesh and a layout in TPUEstimator's notation."""

import logging
from typing import NamedTuple

import gin
from absl import flags

from mtf_imaging.engine.layout import (
    PartitionedLayout,
    from_partition_dims,
    num_dims,
    parse_partition_dims,
    parse_shape,
)
from mtf_imaging.errors import ConfigError, LayoutError
from mtf_imaging.settings.setting import Settings, setting, settings

_logger = logging.getLogger(__name__)

NAME = "input_partition_dims"

# {number of image dimensions: their default names if no job defines them}.
_DIMS = {3: "batch,x,channels", 4: "batch,x,y,channels", 5: "batch,x,y,z,channels"}


@settings
class PartitionSettings(Settings):
    """A layout in TPUEstimator's notation.

    Attributes:
      input_partition_dims: replaces --mesh_shape and --layout, in the TPUEstimator notation: the number of slices
        along each dimension of the image, for instance [1,4,2,1], or with the labels [[1,4,2,1],None]. train prints the
        resulting layout.
      num_cores_per_replica: product of the numbers in `input_partition_dims`, as a check.
    """

    input_partition_dims: str | None = setting(default=None, flag=True)
    num_cores_per_replica: int | None = setting(default=None, flag=True)


class PartitionDims(NamedTuple):
    """The numbers of --input_partition_dims, as typed and as parsed, and --num_cores_per_replica or None."""

    typed: str
    numbers: list
    num_cores_per_replica: int | None

    def over(self, dims: str) -> PartitionedLayout:
        """Returns the mesh and the layout for an image with these dimensions."""
        return from_partition_dims(self.numbers, dims, num_cores_per_replica=self.num_cores_per_replica)


def read(values: flags.FlagValues) -> PartitionDims | None:
    """Parses and checks the flags, before the job's dimension names are known.

    Returns:
      The flags; None if they are not given, or if the command does not define them.

    Raises:
      LayoutError: the numbers do not describe a layout.
      ConfigError: the flags contradict each other, or one is missing.
    """
    if NAME not in values:
        return None
    typed, cores = values.input_partition_dims, values.num_cores_per_replica
    if typed is None:
        if cores is not None:
            raise ConfigError(
                f"--num_cores_per_replica {cores} has no effect without --input_partition_dims. "
                "Fix: give both, or --mesh_shape and --layout."
            )
        return None
    dims = PartitionDims(typed, parse_partition_dims(typed), cores)
    count = num_dims(dims.numbers)
    if count not in _DIMS:
        raise LayoutError(
            f"--input_partition_dims {typed} has {count} numbers for the image, but an image has 3 to 5 dimensions. "
            "Fix: give one number for each of batch, one to three spatial dimensions and channels, as in [1,4,2,1]."
        )
    same = dims.over(_DIMS[count])
    given = [f"--{name} {values[name].value!r}" for name in same._fields if values[name].value is not None]
    if given:
        raise ConfigError(
            f"--input_partition_dims {typed} and {' and '.join(given)} both set the layout. Fix: leave one out; "
            f"over {_DIMS[count]}, --input_partition_dims is {_as_flags(same)}."
        )
    return dims


def _as_flags(layout: PartitionedLayout) -> str:
    """
    >>> _as_flags(PartitionedLayout("rows:4", "x:rows"))
    '--mesh_shape rows:4 --layout x:rows'
    """
    return f"--mesh_shape {layout.mesh_shape or repr('')} --layout {layout.layout or repr('')}"


def resolve(dims: PartitionDims) -> PartitionedLayout:
    """Returns the mesh and layout for the image dimensions of the bound job, and logs them.

    Raises:
      ConfigError: the image has a different number of dimensions.
    """
    count = num_dims(dims.numbers)
    names = _names_in_job(count) or _DIMS[count]
    if names.count(",") + 1 != count:
        number = names.count(",") + 1
        raise ConfigError(
            f"--input_partition_dims {dims.typed} has {count} numbers, but the job's image has {number} dimensions: "
            f"{names}. Fix: give {number} numbers, 1 for each dimension that is not split."
        )
    layout = dims.over(names)
    _logger.info("--input_partition_dims %s over %s is: %s", dims.typed, names, _as_flags(layout))
    return layout


def _names_in_job(count: int) -> str | None:
    """Returns the image dimension names of the job; None if no job is bound.

    If the task supports images with different numbers of dimensions, `count` dimensions are used.
    """
    try:
        gin.query_parameter("job.task")
    except ValueError:
        return None
    from mtf_imaging.cli.config.training_settings import Job  # late, because it imports TensorFlow

    task, image = Job().task, None
    for spatial in (count - 2, 3, 2, 1):  # a task names its dimensions only for given sizes
        try:
            inputs = task.inputs(1, (64,) * spatial, dtype="float32", labels=False)
            spec = inputs.get("image", next(iter(inputs.values())))
            shape = parse_shape(spec if isinstance(spec, str) else spec[0])
        except Exception:  # the task rejects these sizes, or is not a task, which training reports
            continue
        if len(shape) == count or image is None:
            image = shape
        if len(image) == count:
            break
    return image and ",".join(name for name, _ in image)
