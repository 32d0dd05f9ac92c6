"""Lowers `mtf.range` in every dtype; TensorFlow has no kernel for float16."""

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf


def lower(op: mtf.RangeOperation, lowering: mtf.Lowering) -> None:
    """Lowers an `mtf.RangeOperation`, whose slices are constants."""
    mesh, (y,) = lowering.mesh_impl(op), op.outputs
    (size,), (axis,) = mesh.slice_shape(y.shape), mesh.split_axes(y.shape)
    numbers = np.arange(size, dtype=np.int32)
    value = mesh.laid_out_constant(lambda at: numbers + (0 if axis is None else at[axis] * size))
    lowering.set_tensor_lowering(y, mesh.map_stacks(lambda stack: tf.cast(stack, y.dtype), value))
