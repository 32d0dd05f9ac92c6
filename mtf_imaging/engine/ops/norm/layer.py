"""Layer normalization, with statistics over all channels of each voxel."""

from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Round, sum_over
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.norm import local as local_norm
from mtf_imaging.engine.ops.norm.normalization import outputs_of, second_derivatives
from mtf_imaging.engine.ops.norm.norms import channel_variable, check_count, check_norm
from mtf_imaging.engine.ops.norm.sums import WholeBatch
from mtf_imaging.engine.ops.window_op import first_axis
from mtf_imaging.errors import ShapeError


class _LayerNormOperation(mtf.Operation):
    """Base class of the normalization and its gradient.

    Statistics are `[...]`, the shape of `x` without the channels. On a device, `x` is viewed as `[n, voxels,
    channels]`, because TensorFlow's CPU kernels broadcast along few dimensions.
    """

    kind = "layer_norm"

    def __init__(self, inputs: Sequence[mtf.Tensor], epsilon: float, name: str) -> None:
        super().__init__(inputs, name=name)
        self._epsilon = epsilon

    @property
    def _dtype(self) -> tf.DType:
        """The dtype of statistics and trained variables."""
        return self.inputs[1].dtype

    def _wide(self, stack: tf.Tensor) -> tf.Tensor:
        """Views a stack `[n, ..., channels]` as `[n, voxels, channels]`, in the dtype of statistics."""
        return tf.cast(tf.reshape(stack, [stack.shape[0], -1, stack.shape[-1]]), self._dtype)

    def _voxels(self, stack: tf.Tensor) -> tf.Tensor:
        """Views a stack of statistics `[n, ...]` as `[n, voxels, 1]`."""
        return tf.reshape(stack, [stack.shape[0], -1, 1])

    def _normal(self, x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Returns `(x - mean) / sqrt(variance + epsilon)`, [n, voxels, channels]."""
        return (self._wide(x) - self._voxels(mean)) * tf.math.rsqrt(self._voxels(variance) + self._epsilon)

    def _channel_means(self, mesh: ShardMeshImpl, values: LaidOutTensor) -> LaidOutTensor:
        """Returns the means over channels `[n, voxels, 1]` of stacks `[n, voxels, channels]`."""
        channels = self.inputs[0].shape.dims[-1]
        axis = first_axis(mesh, channels)
        if axis is None:
            return mesh.map_stacks(lambda v: tf.reduce_mean(v, axis=-1, keepdims=True), values)
        uneven = tails.tails_of(mesh, mtf.Shape([channels]))
        values = tails.fill(mesh, values, [tail._replace(dim=1) for tail in uneven], 0) if uneven else values
        sums = mesh.map_stacks(lambda v: tf.reduce_sum(v, axis=-1, keepdims=True), values)
        return mesh.map_stacks(lambda s: s / channels.size, mesh.allreduce(sums, [axis], "SUM"))

    def _mean_exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        """Returns the exchanges of `_channel_means`."""
        axis = first_axis(mesh, self.inputs[0].shape.dims[-1])
        *voxels, _ = mesh.slice_shape(self.inputs[0].shape)
        return [] if axis is None else sum_over([axis], voxels, self._dtype.size)


class LayerNormalize(_LayerNormOperation):
    """`y = (x - mean) / sqrt(variance + epsilon) scale + offset`; outputs y, the mean and the (biased) variance."""

    def __init__(self, x: mtf.Tensor, scale: mtf.Tensor, offset: mtf.Tensor, epsilon: float) -> None:
        super().__init__([x, scale, offset], epsilon, self.kind)
        self._outputs = outputs_of(self, x, mtf.Shape(x.shape.dims[:-1]))

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (x, scale, _), (_, mean, variance) = self.inputs, self.outputs
        return LayerNormalizeGrad(x, scale, mean, variance, grad_ys[0], self._epsilon).outputs

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        x, scale, offset = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        mean = self._channel_means(mesh, mesh.map_stacks(self._wide, x))
        squares = mesh.map_stacks(lambda x, m: tf.math.squared_difference(self._wide(x), m), x, mean)
        variance = self._channel_means(mesh, squares)

        def normalize(x: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
            mean, variance, scale, offset = others
            y = self._normal(x, mean, variance) * scale[:, tf.newaxis] + offset[:, tf.newaxis]
            return tf.cast(tf.reshape(y, x.shape), x.dtype)

        def statistic(values: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
            return tf.reshape(values, [values.shape[0], *x.shape[1:-1]])

        results = [
            mesh.map_stacks(normalize, x, mean, variance, scale, offset),
            mesh.map_stacks(statistic, mean, x),
            mesh.map_stacks(statistic, variance, x),
        ]
        for tensor, value in zip(self.outputs, results, strict=True):
            lowering.set_tensor_lowering(tensor, value)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        return self._mean_exchanges(mesh) * 2


class LayerNormalizeGrad(_LayerNormOperation):
    """Gradients of `LayerNormalize` with respect to x, scale and offset, including those through the statistics."""

    def __init__(
        self,
        x: mtf.Tensor,
        scale: mtf.Tensor,
        mean: mtf.Tensor,
        variance: mtf.Tensor,
        dy: mtf.Tensor,
        epsilon: float,
    ) -> None:
        super().__init__([x, scale, mean, variance, dy], epsilon, f"{self.kind}_dx")
        self._outputs = outputs_of(self, x, scale.shape)

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        def mean(values: mtf.Tensor) -> mtf.Tensor:
            return mtf.reduce_mean(values, reduced_dim=values.shape.dims[-1])

        return second_derivatives(self, mean, self._epsilon, grad_ys)

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        x, scale, mean, variance, dy = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        normal = mesh.map_stacks(self._normal, x, mean, variance)
        wide_dy = mesh.map_stacks(self._wide, dy)
        product = mesh.map_stacks(tf.multiply, wide_dy, normal)

        def scaled(values: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
            return values * scale[:, tf.newaxis]

        means = [self._channel_means(mesh, mesh.map_stacks(scaled, v, scale)) for v in (wide_dy, product)]

        def gradient(x: tf.Tensor, normal: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
            dy, scale, variance, mean_dy, mean_product = others
            centered = scaled(dy, scale) - mean_dy - normal * mean_product
            dx = centered * tf.math.rsqrt(self._voxels(variance) + self._epsilon)
            return tf.cast(tf.reshape(dx, x.shape), x.dtype)

        def unview(values: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
            return tf.reshape(values, x.shape)

        def channel_sums(product: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
            return tf.concat([local_norm.sums(each, by_case=False) for each in (product, dy)], axis=0)

        dx = mesh.map_stacks(gradient, x, normal, wide_dy, scale, variance, *means)
        both = [mesh.map_stacks(unview, values, x) for values in (product, wide_dy)]
        sums = WholeBatch(mesh, self.inputs[0].shape).sums(channel_sums, 2, both)
        weights = mesh.map_stacks(lambda s: tf.unstack(tf.cast(s, self._dtype), axis=-2), sums)
        for tensor, value in zip(self.outputs, [dx, *weights], strict=True):
            lowering.set_tensor_lowering(tensor, value)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        shape = self.inputs[0].shape
        sums = WholeBatch(mesh, shape).sum_exchanges(mesh.slice_shape(shape), 2)
        return [*self._mean_exchanges(mesh) * 2, *sums]


def layer_norm(x: mtf.Tensor, epsilon: float = 1e-6, name: str | None = None) -> mtf.Tensor:
    """Applies layer normalization (Ba et al. 2016, arXiv:1607.06450) over the channels.

    `y = (x - mean) / sqrt(variance + epsilon) scale + offset`

    The mean and the (biased) variance are computed over all channels of one voxel, in training and in evaluation, as in
    `keras.layers.LayerNormalization` and in ConvNeXt (Liu et al. 2022, arXiv:2201.03545). The function creates the
    variables `scale` (initially 1) and `offset` (initially 0), with one value for each channel. They are float32 if `x`
    has fewer bits.

    Every dimension may be split. If the channels are split, processors exchange two sums per voxel in the forward pass,
    and two in the backward pass. Otherwise the forward pass sends nothing. In the backward pass, processors also
    exchange two sums per channel. The backward pass keeps `x` and the statistics.

    Args:
      x: Tensor[..., channels]
      epsilon: a number that is added to the variance.
      name: variable scope.

    Returns:
      Tensor[..., channels]

    Raises:
      ShapeError: `x` has fewer than 2 dimensions, or only one channel.
    """
    check_norm(f"layer_norm '{name or 'layer_norm'}'", x, epsilon)
    if len(x.shape.dims) < 2:
        raise ShapeError(
            f"layer_norm '{name or 'layer_norm'}' needs at least 2 dimensions (batch, channels), but its input has "
            f"{len(x.shape.dims)}: {x.shape}"
        )
    with tf.compat.v1.variable_scope(name, default_name="layer_norm"):
        check_count("layer_norm", x, x.shape.dims[-1:])
        scale, offset = channel_variable(x, "scale", 1.0), channel_variable(x, "offset", 0.0)
        return LayerNormalize(x, scale, offset, epsilon).outputs[0]
