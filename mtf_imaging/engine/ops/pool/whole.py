"""The mean over the whole image."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.inputs import check_tensor
from mtf_imaging.engine.ops.precision import master_dtype
from mtf_imaging.errors import ShapeError


def global_avg_pool(x: mtf.Tensor, name: str | None = None) -> mtf.Tensor:
    """Computes the mean of each channel over all spatial dimensions, like `keras.layers.GlobalAveragePooling3D`.

    Every dimension may be split. Processors exchange one sum per channel.

    Args:
      x: Tensor[batch, spatial..., channels]
      name: name of the operation.

    Returns:
      Tensor[batch, channels], float32 or larger.

    Raises:
      ShapeError: `x` has no spatial dimension.
    """
    check_tensor(f"global_avg_pool '{name or 'global_avg_pool'}'", x)
    if len(x.shape.dims) < 3:
        raise ShapeError(
            f"global_avg_pool '{name or 'global_avg_pool'}' needs at least 3 dimensions (batch, a spatial one, "
            f"channels), but its input has {len(x.shape.dims)}: {x.shape}"
        )
    batch, *_, channels = x.shape.dims
    wide = mtf.cast(x, master_dtype(x.dtype))
    return mtf.reduce_mean(wide, output_shape=mtf.Shape([batch, channels]), name=name or "global_avg_pool")
