"""The program's step as a tensor, for schedules and optimizers."""

import tensorflow as tf

from mtf_imaging.compat import global_step, mtf


def step(mesh: mtf.Mesh, dtype: tf.DType = tf.float32) -> mtf.Tensor:
    """The number of updates that the program has made before this call: a scalar Tensor of `dtype`."""
    return mtf.import_tf_tensor(mesh, tf.cast(tf.convert_to_tensor(global_step()), dtype), mtf.Shape([]), name="step")
