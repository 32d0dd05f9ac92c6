"""The layer that enlarges images."""

import dataclasses

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.spatial import Sizes, operation, per_dim, spatial_dims


@dataclasses.dataclass(eq=False, repr=False)
class UpSample(Layer):
    """Multiplies the sizes of the spatial dimensions, like `keras.layers.UpSampling2D`. It has no weights.

    Every dimension may be split (`mi.ops.resize3d`).

    Args:
      factor: an int, or one for each spatial dimension.
      method: "nearest", which repeats voxels, or "linear".
      name: name of the operation.
    """

    default_name = "up_sample"
    has_weights = False

    factor: Sizes = 2
    method: str = "nearest"
    name: str | None = None

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        dims = spatial_dims(self._title, x, self.factor)
        sizes = [dim.size * factor for dim, factor in zip(dims, per_dim(dims, self.factor), strict=True)]
        return operation("resize{}d", dims)(x, sizes, self.method, name=name)
