"""The program's step as a tensor, for schedules and optimizers."""

import tensorflow as tf

from mtf_imaging.engine.compat import global_step, mtf


def step(mesh: mtf.Mesh, dtype: tf.DType = tf.float32) -> mtf.Tensor:
    """Returns the number of updates that the program made before this call.

    Args:
      mesh: the mesh of the program's tensors, for instance `x.mesh`.
      dtype: dtype of the result.

    Returns:
      A scalar Tensor.
    """
    return mtf.import_tf_tensor(mesh, tf.cast(tf.convert_to_tensor(global_step()), dtype), mtf.Shape([]), name="step")
