"""Normalization by statistics of the whole tensor, under any layout: the operation behind every norm.

Norms differ in the values that share statistics: the whole batch or one case, and one channel or a group of channels.
Each processor sums the channels of its slice. The sums of all slices that share statistics are then added in float64.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.portable import is_portable
from mtf_imaging.engine.ops.norm import local as local_norm
from mtf_imaging.engine.ops.norm.sums import SUM_BYTES, Sums, sums_of


@dataclasses.dataclass(frozen=True)
class Sharing:
    """The values that share statistics.

    Attributes:
      by_case: whether each case, along the first dimension, has its own statistics.
      group: number of consecutive channels that share statistics.
    """

    by_case: bool = False
    group: int = 1


def outputs_of(op: mtf.Operation, x: mtf.Tensor, shape: mtf.Shape) -> list[mtf.Tensor]:
    """Returns the outputs of a norm or its gradient: one like `x`, and two of a shape, in the dtype of statistics."""
    others = [mtf.Tensor(op, shape, op.inputs[1].dtype, index=i) for i in (1, 2)]
    return [mtf.Tensor(op, x.shape, x.dtype, index=0), *others]


def second_derivatives(
    op: mtf.Operation,
    mean: Callable[[mtf.Tensor], mtf.Tensor],
    epsilon: float,
    grad_ys: Sequence[mtf.Tensor | None],
) -> list[mtf.Tensor | None]:
    """Returns the gradients of the gradient of a norm, whose inputs are x, scale, mean, variance and dy.

    They are the gradients of the same normalization, built from operations of mesh_tensorflow. These operations sum
    over processors and can be differentiated any number of times, but take more time and memory than fused kernels.

    Args:
      op: the gradient of the norm.
      mean: the mean over the values that share statistics.
      epsilon: the number that is added to the variance.
      grad_ys: the gradients of the outputs of `op`.
    """
    x, scale, _, _, dy = op.inputs

    def gradients() -> tuple[mtf.Tensor, mtf.Tensor, mtf.Tensor]:
        def normalized() -> mtf.Tensor:
            centered = wide_x - mean(wide_x)
            return centered * mtf.rsqrt(mean(mtf.square(centered)) + epsilon) * scale

        wide_x, wide_dy = mtf.cast(x, scale.dtype), mtf.cast(dy, scale.dtype)
        y, operations = op.graph.capture_operations(normalized)
        dx, dscale = mtf.gradients([y], [wide_x, scale], [wide_dy], operations)
        return mtf.cast(dx, x.dtype), dscale, mtf.reduce_sum(wide_dy, output_shape=scale.shape)

    found, operations = op.graph.capture_operations(gradients)
    # These operations compute the statistics from `x`, so the inputs `mean` and `variance` have no gradient.
    dx, dscale, ddy = mtf.gradients(found, [x, scale, dy], grad_ys, operations)
    return [dx, dscale, None, None, ddy]


class _NormOperation(mtf.Operation):
    """Base class of the normalization and its gradient.

    Statistics are `[cases, channels]` if each case has its own, else `[channels]` like trained variables. Sums have one
    more dimension before the channels.
    """

    def __init__(self, kind: str, inputs: Sequence[mtf.Tensor], sharing: Sharing, epsilon: float, name: str) -> None:
        super().__init__(inputs, name=name)
        self.kind = kind
        self._sharing, self._epsilon = sharing, epsilon

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        results = self._lower(mesh, *[lowering.tensors[t].to_laid_out_tensor() for t in self.inputs])
        for tensor, value in zip(self.outputs, results):
            lowering.set_tensor_lowering(tensor, value)

    def _cases(self, mesh: ShardMeshImpl) -> Sums:
        return sums_of(mesh, self.inputs[0].shape, self._sharing.by_case)

    def _means(self, mesh: ShardMeshImpl, sums: LaidOutTensor) -> LaidOutTensor:
        """Returns the means over all values that share statistics, given their sums."""
        dims = self.inputs[0].shape.dims
        count = math.prod(d.size for d in dims[1 if self._sharing.by_case else 0 : -1])
        means = mesh.map_stacks(lambda s: s / count, sums)
        group = self._sharing.group
        if group == 1:
            return means

        def group_mean(means: tf.Tensor) -> tf.Tensor:
            grouped = tf.reshape(means, [*means.shape[:-1], -1, group])
            return tf.repeat(tf.reduce_mean(grouped, axis=-1), group, axis=-1)

        axis = self._axis_within_groups(mesh)
        if axis is None:
            return mesh.map_stacks(group_mean, means)
        # Every processor gets the means of all channels, which are only a few numbers.
        last = len(means.slice_shape) - 1
        means = mesh.map_stacks(group_mean, tails.gather(mesh, means, {axis: last}, {last: dims[-1].size}))
        return tails.scatter(mesh, means, {axis: last})

    def _axis_within_groups(self, mesh: ShardMeshImpl) -> int | None:
        """Returns the mesh axis that splits a group of channels over several slices, or None."""
        channels = mtf.Shape(self.inputs[0].shape.dims[-1:])
        return None if mesh.slice_shape(channels)[0] % self._sharing.group == 0 else mesh.split_axes(channels)[0]

    def _mean_exchanges(self, mesh: ShardMeshImpl, count: int = 2) -> list[Round]:
        """Returns the exchanges of `count` sums per channel and of their means."""
        shape, axis = mesh.slice_shape(self.inputs[0].shape), self._axis_within_groups(mesh)
        cases = shape[0] if self._sharing.by_case else 1
        means = [] if axis is None else [Round([Exchange("gather", (axis,), cases * count * shape[-1] * SUM_BYTES)])]
        return [*self._cases(mesh).sum_exchanges(shape, count), *means]


class Normalize(_NormOperation):
    """`y = (x - mean) / sqrt(variance + epsilon) scale + offset`; outputs y, the mean and the (biased) variance."""

    def __init__(
        self,
        kind: str,
        x: mtf.Tensor,
        scale: mtf.Tensor,
        offset: mtf.Tensor,
        sharing: Sharing,
        epsilon: float,
        name: str | None = None,
    ) -> None:
        super().__init__(kind, [x, scale, offset], sharing, epsilon, name or kind)
        self._outputs = outputs_of(self, x, mtf.Shape(x.shape.dims[:1] * sharing.by_case + x.shape.dims[-1:]))

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        (x, scale, _), (_, mean, variance) = self.inputs, self.outputs
        return NormalizeGrad(self.kind, x, scale, mean, variance, grad_ys[0], self._sharing, self._epsilon).outputs

    @property
    def _in_two_passes(self) -> bool:
        """Whether a first pass computes the mean, and a second pass the squared deviations from the mean.

        The difference of two power sums has too few digits for float64, but enough for all smaller dtypes. Portable
        operations sum in float32, and need two passes for the same reason.
        """
        return self.inputs[0].dtype not in local_norm.FUSED_DTYPES or is_portable()

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        if self._in_two_passes:
            return self._mean_exchanges(mesh, 1) * 2
        return self._mean_exchanges(mesh)

    def _moments(self, mesh: ShardMeshImpl, cases: Sums, x: LaidOutTensor) -> tuple[LaidOutTensor, LaidOutTensor]:
        """Returns the mean and the variance of the values that share statistics."""
        dtype = self.outputs[1].dtype

        def moments(means: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            mean, mean_square = tf.unstack(means, axis=-2)
            variance = tf.maximum(mean_square - tf.square(mean), 0)
            return tf.cast(mean, dtype), tf.cast(variance, dtype)

        if not self._in_two_passes:
            power_sums = functools.partial(local_norm.power_sums, by_case=cases.by_case)
            return mesh.map_stacks(moments, self._means(mesh, cases.sums(power_sums, 2, [x])))
        sums = functools.partial(local_norm.sums, by_case=cases.by_case)
        mean = mesh.map_stacks(lambda m: tf.squeeze(m, [-2]), self._means(mesh, cases.sums(sums, 1, [x])))
        squares = cases.sums(local_norm.centered_squares, 1, [x], [mean])
        return mean, mesh.map_stacks(lambda v: tf.squeeze(v, [-2]), self._means(mesh, squares))

    def _lower(
        self, mesh: ShardMeshImpl, x: LaidOutTensor, scale: LaidOutTensor, offset: LaidOutTensor
    ) -> tuple[LaidOutTensor, ...]:
        cases, normalize = self._cases(mesh), functools.partial(local_norm.normalize, epsilon=self._epsilon)
        mean, variance = self._moments(mesh, cases, x)
        return cases.map(normalize, [x], [mean, variance, scale, offset]), mean, variance


class NormalizeGrad(_NormOperation):
    """Gradients of `Normalize` with respect to x, scale and offset, including those through the statistics."""

    def __init__(
        self,
        kind: str,
        x: mtf.Tensor,
        scale: mtf.Tensor,
        mean: mtf.Tensor,
        variance: mtf.Tensor,
        dy: mtf.Tensor,
        sharing: Sharing,
        epsilon: float,
    ) -> None:
        super().__init__(kind, [x, scale, mean, variance, dy], sharing, epsilon, f"{kind}_dx")
        self._outputs = outputs_of(self, x, scale.shape)

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return second_derivatives(self, self._elementary_mean, self._epsilon, grad_ys)

    def _elementary_mean(self, values: mtf.Tensor) -> mtf.Tensor:
        """Returns the mean over all values that share statistics: `[cases, channels]`, or `[channels]` for a batch."""
        first, *_, channels = values.shape.dims
        means = mtf.reduce_mean(values, output_shape=mtf.Shape([first] * self._sharing.by_case + [channels]))
        size = self._sharing.group
        if size == 1:
            return means
        groups = mtf.Dimension(f"{channels.name}_groups", channels.size // size)
        group = mtf.floordiv(mtf.range(self.mesh, channels, tf.int32), size)
        member = mtf.one_hot(group, groups, dtype=means.dtype)
        group_means = mtf.einsum([means, member], output_shape=mtf.Shape([first, groups])) / size
        return mtf.einsum([group_means, member], output_shape=means.shape)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        learned = self._cases(mesh).case_exchanges(mesh.slice_shape(self.inputs[0].shape))
        return [*self._mean_exchanges(mesh), *learned]

    def _lower(
        self,
        mesh: ShardMeshImpl,
        x: LaidOutTensor,
        scale: LaidOutTensor,
        mean: LaidOutTensor,
        variance: LaidOutTensor,
        dy: LaidOutTensor,
    ) -> tuple[LaidOutTensor, ...]:
        dtype = self.outputs[1].dtype

        def weighted(sums: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
            ones = [1] * (len(sums.shape) - len(scale.shape))
            return sums * tf.reshape(tf.cast(scale, sums.dtype), [scale.shape[0], *ones, scale.shape[-1]])

        def unstacked(sums: tf.Tensor) -> list[tf.Tensor]:
            return tf.unstack(tf.cast(sums, dtype), axis=-2)

        cases = self._cases(mesh)
        gradient_sums = functools.partial(local_norm.gradient_sums, epsilon=self._epsilon)
        gradient = functools.partial(local_norm.gradient, epsilon=self._epsilon)
        sums = cases.sums(gradient_sums, 2, [x, dy], [mean, variance])
        means = self._means(mesh, mesh.map_stacks(weighted, sums, scale))
        dx = cases.map(gradient, [x, dy], [mean, variance, scale, *mesh.map_stacks(unstacked, means)])
        return dx, *mesh.map_stacks(unstacked, cases.sum_cases(sums))
