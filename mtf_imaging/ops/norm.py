"""Batch normalisation with statistics of the whole tensor, however it is split."""

import math

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.ops import local_norm
from mtf_imaging.ops.precision import master_dtype


class _BatchNormOperation(mtf.Operation):
    """What the normalisation and its gradient share: how channels are spread, and sums over all processors."""

    kind = "batch_norm"

    def __init__(self, inputs, epsilon, name):
        super().__init__(inputs, name=name)
        x, scale = inputs[:2]
        self._epsilon = epsilon
        self._outputs = [
            mtf.Tensor(self, x.shape, x.dtype, index=0),
            mtf.Tensor(self, scale.shape, scale.dtype, index=1),
            mtf.Tensor(self, scale.shape, scale.dtype, index=2),
        ]

    def lower(self, lowering):
        mesh = lowering.mesh_impl(self)
        *axes, channel_axis = mesh.split_axes(self.inputs[0].shape)
        self._summed = [axis for axis in axes if axis is not None]
        self._channel_axes = [] if channel_axis is None else [channel_axis]
        results = self._lower(mesh, *[lowering.tensors[t].to_laid_out_tensor() for t in self.inputs])
        for tensor, value in zip(self.outputs, results):
            lowering.set_tensor_lowering(tensor, value)

    def _sums(self, mesh, fn, tensors, per_channel=()):
        """`fn(*tensors, *per_channel) -> float64 [2, channels]`, summed over all processors."""

        def local(*inputs):
            split = len(tensors)
            return fn(*inputs[:split], *(value[0] for value in inputs[split:]))

        return mesh.window_sum(local, (*tensors, *per_channel), self._summed, self._channel_axes, batch_ndims=0)

    def _map(self, mesh, fn, tensors, per_channel):
        """`fn(*tensors, *per_channel)` on the slices of every processor."""
        return mesh.window(fn, tensors, per_channel, self._channel_axes, batch_ndims=0)

    @property
    def _count(self):
        """Elements a channel of the whole tensor."""
        return math.prod(self.inputs[0].shape.to_integer_list[:-1])


class BatchNormTraining(_BatchNormOperation):
    """`y = (x - mean) / sqrt(variance + epsilon) scale + offset`; outputs y, mean and (biased) variance."""

    def __init__(self, x, scale, offset, epsilon, name=None):
        super().__init__([x, scale, offset], epsilon, name or self.kind)

    def gradient(self, grad_ys):
        x, scale, _ = self.inputs
        return BatchNormGrad(x, scale, *self.outputs[1:], grad_ys[0], self._epsilon).outputs

    def _lower(self, mesh, x, scale, offset):
        def moments(sums):
            mean, mean_square = tf.unstack(sums / self._count, axis=1)
            variance = tf.maximum(mean_square - tf.square(mean), 0)
            return tf.cast(mean, self.outputs[1].dtype), tf.cast(variance, self.outputs[2].dtype)

        def normalise(x, *per_channel):
            return local_norm.normalise(x, *per_channel, self._epsilon)

        mean, variance = mesh.map_stacks(moments, self._sums(mesh, local_norm.power_sums, [x]))
        return self._map(mesh, normalise, [x], [mean, variance, scale, offset]), mean, variance


class BatchNormGrad(_BatchNormOperation):
    """Gradients of `BatchNormTraining` to x, scale and offset, through the statistics."""

    has_gradient = False

    def __init__(self, x, scale, mean, variance, dy, epsilon):
        super().__init__([x, scale, mean, variance, dy], epsilon, f"{self.kind}_dx")

    def _lower(self, mesh, x, scale, mean, variance, dy):
        def sums(x, dy, mean, variance):
            return local_norm.gradient_sums(x, dy, mean, variance, self._epsilon)

        def gradient(x, dy, *per_channel):
            return local_norm.gradient(x, dy, *per_channel, self._count, self._epsilon)

        def parts(sums):
            return tuple(tf.cast(part, scale_dtype) for part in tf.unstack(sums, axis=1))

        scale_dtype = self.outputs[1].dtype
        dscale, doffset = mesh.map_stacks(parts, self._sums(mesh, sums, [x, dy], [mean, variance]))
        return self._map(mesh, gradient, [x, dy], [mean, variance, scale, dscale, doffset]), dscale, doffset


def batch_norm(x, is_training, momentum=0.9, epsilon=1e-6, name=None):
    """Batch normalisation: statistics of each channel over the whole batch and volume.

    Variables: `scale` (from 1), `offset` (from 0), and, not trained, `moving_mean` (from 0) and `moving_variance` (from
    1), which each training call moves by `1 - momentum` towards the batch's mean and (biased) variance. They are
    float32 where `x` has fewer bits.

    Every dimension may be split: two sums a channel are exchanged forward, and two backward.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      is_training: a bool: normalise by the batch's statistics and update the moving ones, or normalise by these.
      momentum: how much of the moving statistics a call keeps.
      epsilon: added to the variance.
      name: variable scope.

    Returns:
      Tensor[batch..., x, y, z, channels]
    """
    channels = mtf.Shape(x.shape.dims[-1:])
    dtype = master_dtype(x.dtype)
    with tf.compat.v1.variable_scope(name, default_name="batch_norm"):

        def variable(key, initial, trainable):
            return mtf.get_variable(
                x.mesh, key, channels, dtype=dtype, initializer=tf.constant_initializer(initial), trainable=trainable
            )

        scale, offset = variable("scale", 1.0, True), variable("offset", 0.0, True)
        moving_mean, moving_variance = variable("moving_mean", 0.0, False), variable("moving_variance", 1.0, False)
        if is_training:
            y, mean, variance = BatchNormTraining(x, scale, offset, epsilon).outputs
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                mtf.assign(moving, moving * momentum + mtf.stop_gradient(value) * (1 - momentum))
            return y
        factor = scale * mtf.rsqrt(moving_variance + epsilon)
        return mtf.cast(mtf.cast(x, dtype) * factor + (offset - moving_mean * factor), x.dtype)
