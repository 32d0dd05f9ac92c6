"""Batch normalisation with statistics of the whole tensor, however it is split."""

import math

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.ops.precision import master_dtype

_FUSED_DTYPES = (tf.float32, tf.bfloat16, tf.float16)


def _over_channels(stack, per_channel):
    """`per_channel`, `[n or 1, channels]`, shaped to go with a stack `[n, ..., channels]`."""
    return tf.reshape(per_channel, [per_channel.shape[0], *[1] * (len(stack.shape) - 2), per_channel.shape[-1]])


class _BatchNormOperation(mtf.Operation):
    """What the normalisation and its gradient share: where the statistics are spread."""

    kind = "batch_norm"

    def _fused(self, mesh):
        """Whether TensorFlow's fused kernel serves: it sees all slices at once on one device, with whole channels."""
        x = self.inputs[0]
        return len(mesh.devices) == 1 and x.dtype in _FUSED_DTYPES and mesh.split_axes(x.shape)[-1] is None

    def _sums(self, mesh, fn, *stacks):
        """`fn(*stacks) -> [..., channels]` summed over all dimensions but channels, over all processors.

        Returns a laid-out tensor `[channels]`.
        """
        *axes, channel_axis = mesh.split_axes(self.inputs[0].shape)

        def local(*inputs):
            values = fn(*inputs)
            return tf.reduce_sum(values, axis=list(range(len(values.shape) - 1)))

        summed = [axis for axis in axes if axis is not None]
        varying = [] if channel_axis is None else [channel_axis]
        return mesh.window_sum(local, stacks, summed, varying, batch_ndims=0)

    def _laid_out(self, lowering, *tensors):
        return [lowering.tensors[t].to_laid_out_tensor() for t in tensors]

    @property
    def _count(self):
        """Elements a channel of the whole tensor."""
        return math.prod(self.inputs[0].shape.to_integer_list[:-1])


def _four_dimensions(stack):
    """A stack as the `[batch, height, width, channels]` that the fused kernel takes."""
    shape = stack.shape
    return tf.reshape(stack, [-1, 1, math.prod(shape[2:-1]), shape[-1]])


class BatchNormTraining(_BatchNormOperation):
    """`y = (x - mean) / sqrt(variance + epsilon) scale + offset`; outputs y, mean and (biased) variance."""

    def __init__(self, x, scale, offset, epsilon, name=None):
        super().__init__([x, scale, offset], name=name or self.kind)
        self._epsilon = epsilon
        self._outputs = [
            mtf.Tensor(self, x.shape, x.dtype, index=0),
            mtf.Tensor(self, scale.shape, scale.dtype, index=1),
            mtf.Tensor(self, scale.shape, scale.dtype, index=2),
        ]

    def gradient(self, grad_ys):
        x, scale, _ = self.inputs
        return BatchNormGrad(x, scale, *self.outputs, grad_ys[0], self._epsilon).outputs

    def lower(self, lowering):
        mesh = lowering.mesh_impl(self)
        inputs = self._laid_out(lowering, *self.inputs)
        results = self._lower_fused(lowering, mesh, *inputs) if self._fused(mesh) else self._lower_sums(mesh, *inputs)
        for tensor, value in zip(self.outputs, results):
            lowering.set_tensor_lowering(tensor, value)

    def _lower_fused(self, lowering, mesh, x, scale, offset):
        (stack,), (scale,), (offset,) = x.tensor_list, scale.tensor_list, offset.tensor_list
        with tf.device(mesh.devices[0]):
            y, mean, variance, *reserved = tf.raw_ops.FusedBatchNormV3(
                x=_four_dimensions(stack),
                scale=scale[0],
                offset=offset[0],
                mean=tf.zeros([0], scale.dtype),
                variance=tf.zeros([0], scale.dtype),
                epsilon=self._epsilon,
                is_training=True,
            )
            # The kernel's variance is that of a sample; ours is that which it normalised by.
            count = math.prod(stack.shape[:-1])
            variance *= (count - 1) / count
            lowering.saved[self.outputs[0]] = reserved
            return [LaidOutTensor([v]) for v in (tf.reshape(y, stack.shape), mean[None], variance[None])]

    def _lower_sums(self, mesh, x, scale, offset):
        stats_dtype = scale.dtype

        def square_distance(x, mean):
            return tf.math.squared_difference(tf.cast(x, stats_dtype), _over_channels(x, mean))

        mean = self._sums(mesh, lambda x: tf.cast(x, stats_dtype), x)
        mean = mesh.map_stacks(lambda s: s / self._count, mean)
        variance = self._sums(mesh, square_distance, x, mean)
        variance = mesh.map_stacks(lambda s: s / self._count, variance)

        def normalise(x, mean, variance, scale, offset):
            factor = scale * tf.math.rsqrt(variance + self._epsilon)
            wide = tf.cast(x, stats_dtype)
            return tf.cast(wide * _over_channels(x, factor) + _over_channels(x, offset - mean * factor), x.dtype)

        return mesh.map_stacks(normalise, x, mean, variance, scale, offset), mean, variance


class BatchNormGrad(_BatchNormOperation):
    """Gradients of `BatchNormTraining` to x, scale and offset, through the statistics.

    (`y` finds what the kernel saved.)
    """

    has_gradient = False

    def __init__(self, x, scale, y, mean, variance, dy, epsilon):
        super().__init__([x, scale, y, mean, variance, dy], name=f"{self.kind}_dx")
        self._epsilon = epsilon
        self._outputs = [
            mtf.Tensor(self, x.shape, x.dtype, index=0),
            mtf.Tensor(self, scale.shape, scale.dtype, index=1),
            mtf.Tensor(self, scale.shape, scale.dtype, index=2),
        ]

    def lower(self, lowering):
        mesh = lowering.mesh_impl(self)
        x, scale, y, mean, variance, dy = self.inputs
        if self._fused(mesh):
            results = self._lower_fused(mesh, *self._laid_out(lowering, x, scale, dy), lowering.saved[y])
        else:
            results = self._lower_sums(mesh, *self._laid_out(lowering, x, scale, mean, variance, dy))
        for tensor, value in zip(self.outputs, results):
            lowering.set_tensor_lowering(tensor, value)

    def _lower_fused(self, mesh, x, scale, dy, reserved):
        (stack,), (scale,), (dy,) = x.tensor_list, scale.tensor_list, dy.tensor_list
        with tf.device(mesh.devices[0]):
            dx, dscale, doffset, *_ = tf.raw_ops.FusedBatchNormGradV3(
                y_backprop=_four_dimensions(dy),
                x=_four_dimensions(stack),
                scale=tf.cast(scale[0], tf.float32),
                reserve_space_1=reserved[0],
                reserve_space_2=reserved[1],
                reserve_space_3=reserved[2],
                epsilon=self._epsilon,
                is_training=True,
            )
            # Where the mesh has dimensions that split nothing, slices are repeated in the stack, and so in these sums.
            repeats = math.prod(stack.shape[:-1]) / self._count
            return [
                LaidOutTensor([v])
                for v in (tf.reshape(dx, stack.shape), dscale[None] / repeats, doffset[None] / repeats)
            ]

    def _lower_sums(self, mesh, x, scale, mean, variance, dy):
        stats_dtype = scale.dtype

        def normalised(x, mean, variance):
            return (tf.cast(x, stats_dtype) - _over_channels(x, mean)) * _over_channels(
                x, tf.math.rsqrt(variance + self._epsilon)
            )

        doffset = self._sums(mesh, lambda dy: tf.cast(dy, stats_dtype), dy)
        dscale = self._sums(
            mesh,
            lambda dy, x, mean, variance: tf.cast(dy, stats_dtype) * normalised(x, mean, variance),
            dy,
            x,
            mean,
            variance,
        )

        def input_grad(x, dy, scale, mean, variance, dscale, doffset):
            factor = scale * tf.math.rsqrt(variance + self._epsilon)
            inner = tf.cast(dy, stats_dtype) - _over_channels(x, doffset / self._count)
            inner -= normalised(x, mean, variance) * _over_channels(x, dscale / self._count)
            return tf.cast(_over_channels(x, factor) * inner, x.dtype)

        dx = mesh.map_stacks(input_grad, x, dy, scale, mean, variance, dscale, doffset)
        return dx, dscale, doffset


def batch_norm(x, is_training, momentum=0.9, epsilon=1e-6, name=None):
    """Batch normalisation: statistics of each channel over the whole batch and volume.

    Variables: `scale` (from 1), `offset` (from 0), and, not trained, `moving_mean` (from 0) and `moving_variance` (from
    1), which each training call moves by `1 - momentum` towards the batch's mean and (biased) variance. They are
    float32 where `x` has fewer bits.

    Every dimension may be split: sums of each channel are exchanged, twice forward and once backward.

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
