"""The layer that enlarges images."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.checks import as_counts, check_choice
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.spatial import Sizes, operation, per_dim, spatial_dims

METHODS = ("nearest", "linear")


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

    def __init__(self, factor: Sizes = 2, method: str = "nearest", name: str | None = None) -> None:
        super().__init__(name)
        self.factor = as_counts(self._title, "factor", factor)
        check_choice(self._title, "method", method, METHODS)
        self.method = method

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        dims = spatial_dims(self._title, x, self.factor)
        sizes = [dim.size * factor for dim, factor in zip(dims, per_dim(dims, self.factor), strict=True)]
        return operation("resize{}d", dims)(x, sizes, self.method, name=name)
