"""Makes TensorFlow ready for mesh_tensorflow, and imports it. Every other module takes `mtf` from here.

mesh_tensorflow 0.1.21 was written for TensorFlow 2.5 or so, and needs two names that TensorFlow has dropped since. Each
patch below restores one of them where it is missing; nothing else is changed, and TensorFlow 2 behavior stays on.
"""

import types

import tensorflow as tf
import tensorflow.compat.v1 as tf1  # by the name that mesh_tensorflow imports it by, or it is another module
from tensorflow.python.framework import ops


def _restore_estimator() -> None:
    """`tensorflow.compat.v1.estimator` went with TensorFlow 2.16; mesh_tensorflow derives two hooks from it."""
    if not hasattr(tf1, "estimator"):
        tf1.estimator = types.ModuleType("tensorflow.compat.v1.estimator", "All of it that mesh_tensorflow needs.")
        tf1.estimator.SessionRunHook = tf1.train.SessionRunHook
        tf1.estimator.CheckpointSaverListener = tf1.train.CheckpointSaverListener


def _restore_register_tensor_conversion_function() -> None:
    """`ops.register_tensor_conversion_function` went with TensorFlow 2.13; two of mesh_tensorflow's modules call it."""
    if not hasattr(ops, "register_tensor_conversion_function"):
        ops.register_tensor_conversion_function = tf.register_tensor_conversion_function


_restore_estimator()
_restore_register_tensor_conversion_function()

import mesh_tensorflow as mtf  # noqa: E402  only now can it be imported

__all__ = ["mtf"]
