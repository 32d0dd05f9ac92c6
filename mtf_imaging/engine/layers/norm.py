"""The normalization layer."""

import dataclasses

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.errors import ConfigError


@dataclasses.dataclass(eq=False, repr=False)
class Norm(Layer):
    """A normalization with a scale and an offset for each channel.

    Every dimension may be split. The statistics cover the whole tensor.

    The weights are `NAME/scale` and `NAME/offset`, [channels]. A batch norm also has `NAME/moving_mean` and
    `NAME/moving_variance`.

    Args:
      kind: the values that share statistics: "instance", one channel of one case (`mi.ops.instance_norm`); "batch", one
          channel of the whole batch (`mi.ops.batch_norm`); "group", a group of channels of one case
          (`mi.ops.group_norm`); or "layer", all channels of one voxel (`mi.ops.layer_norm`).
      groups: for a group norm, the number of channel groups.
      epsilon: a number that is added to the variance.
      is_training: for a batch norm, whether to use the statistics of the batch and to update the moving statistics.
      momentum: for a batch norm, the fraction of the moving statistics that an update keeps.
      name: see `Layer`. The default names are `instance_norm`, `batch_norm` and so on.
    """

    kind: str = "instance"
    groups: int | None = None
    epsilon: float = 1e-6
    is_training: bool | None = None
    momentum: float = 0.9
    name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.default_name = f"{self.kind}_norm"
        if (self.kind == "group") != (self.groups is not None):
            raise ConfigError(
                f"{self._title}: groups = {self.groups!r} with kind = {self.kind!r}. Fix: set groups for a group norm, "
                "and only for a group norm."
            )
        if self.kind == "batch" and not isinstance(self.is_training, bool):
            raise ConfigError(
                f"{self._title}: is_training = {self.is_training!r}: a batch norm uses the statistics of the batch in "
                "training and moving statistics in prediction. Fix: pass is_training=True or is_training=False."
            )

    @property
    def _kind(self) -> str:
        return f"Norm({self.kind!r})"

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        if self.kind == "batch":
            return ops.batch_norm(x, bool(self.is_training), self.momentum, self.epsilon, name=name)
        if self.groups is not None:
            return ops.group_norm(x, self.groups, self.epsilon, name=name)
        norm = ops.instance_norm if self.kind == "instance" else ops.layer_norm
        return norm(x, self.epsilon, name=name)
