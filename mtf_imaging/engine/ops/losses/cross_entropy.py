"""Softmax and cross entropy over named dimensions."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.faults import LayoutFault, cannot_split
from mtf_imaging.engine.ops.inputs import check_tensor
from mtf_imaging.engine.ops.losses.labels import expect_labels
from mtf_imaging.engine.ops.losses.masked_mean import masked_mean
from mtf_imaging.engine.ops.precision import widen
from mtf_imaging.errors import ConfigError, ShapeError


class _ClassOperation(mtf.Operation):
    """Base class of operations along the last dimension of their first input, which may not be split."""

    def layout_faults(self, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        dim = self.inputs[0].shape.dims[-1]
        rule = rules.get(dim.name, "")
        if mesh_sizes.get(rule, 1) == 1:
            return []
        title = f"{self.kind} '{self.name}'"
        return [cannot_split(title, dim, rule, mesh_sizes[rule], "the operation needs all classes of a voxel at once")]


def _rows(stack: tf.Tensor) -> tf.Tensor:
    """Reshapes a shard to `[voxels, classes]`, because TensorFlow's CPU kernels refuse more than 5 dimensions."""
    return tf.reshape(stack, [-1, stack.shape[-1]])


def _softmax_gradient(y: mtf.Tensor, dy: mtf.Tensor) -> mtf.Tensor:
    """Returns the gradient of `y = softmax(x)` with respect to `x`."""
    return y * (dy - mtf.reduce_sum(y * dy, reduced_dim=y.shape.dims[-1]))


class Softmax(_ClassOperation):
    """`y = exp(x) / sum over the last dimension of exp(x)`."""

    kind = "softmax"

    def __init__(self, x: mtf.Tensor, name: str | None = None) -> None:
        super().__init__([x], name=name or self.kind)
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        return [_softmax_gradient(self.outputs[0], grad_ys[0])]

    def lower(self, lowering: mtf.Lowering) -> None:
        x = lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        y = lowering.mesh_impl(self).map_stacks(lambda x: tf.reshape(tf.nn.softmax(_rows(x)), x.shape), x)
        lowering.set_tensor_lowering(self.outputs[0], y)


class SparseSoftmaxCrossEntropy(_ClassOperation):
    """Outputs the weighted loss of each voxel, and its gradient with respect to the logits."""

    kind = "sparse_softmax_cross_entropy"

    def __init__(
        self, logits: mtf.Tensor, labels: mtf.Tensor, weights: Sequence[float] | None, name: str | None = None
    ) -> None:
        super().__init__([logits, labels], name=name or self.kind)
        self._weights = weights
        self._outputs = [
            mtf.Tensor(self, labels.shape, logits.dtype, index=0),
            mtf.Tensor(self, logits.shape, logits.dtype, index=1),
        ]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        dloss, dgrad = grad_ys
        terms = [] if dloss is None else [self.outputs[1] * dloss]
        if dgrad is not None:  # in a second derivative
            y = Softmax(self.inputs[0]).outputs[0]
            terms.append(_softmax_gradient(y, dgrad if self._weights is None else dgrad * self._voxel_weights()))
        return [mtf.add_n(terms), None]

    def _voxel_weights(self) -> mtf.Tensor:
        logits, labels = self.inputs
        dim = logits.shape.dims[-1]
        weights = mtf.import_tf_tensor(self.mesh, tf.constant(self._weights, logits.dtype), mtf.Shape([dim]))
        return mtf.einsum([mtf.one_hot(labels, dim, dtype=logits.dtype), weights], output_shape=labels.shape)

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        logits = lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        labels = lowering.masked(self.inputs[1])  # TensorFlow's CPU kernel refuses labels that are not classes

        def local(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            flat = tf.reshape(labels, [-1])
            loss, grad = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=_rows(logits), labels=flat)
            if self._weights is not None:
                weight = tf.gather(tf.constant(self._weights, logits.dtype), flat)
                # A weight of 0 ignores a class, so its loss may be infinite.
                loss = tf.math.multiply_no_nan(loss, weight)
                grad = tf.math.multiply_no_nan(grad, weight[:, None])
            return tf.reshape(loss, labels.shape), tf.reshape(grad, logits.shape)

        for tensor, value in zip(self.outputs, mesh.map_stacks(local, logits, labels)):
            lowering.set_tensor_lowering(tensor, value)


def _check_last(kind: str, x: mtf.Tensor, dim: mtf.Dimension) -> None:
    check_tensor(kind, x)
    if not isinstance(dim, mtf.Dimension):
        raise ConfigError(
            f"{kind}: the classes must be a dimension of the input {x.shape}, not {dim!r}. Fix: pass x.shape.dims[-1]."
        )
    if x.shape.dims[-1:] != [dim]:
        raise ShapeError(
            f"{kind}: '{dim.name}' (size {dim.size}) must be the last dimension, but the input has {x.shape}"
        )


def softmax(x: mtf.Tensor, dim: mtf.Dimension, name: str | None = None) -> mtf.Tensor:
    """Computes the softmax over the last dimension, like `tf.nn.softmax`.

    `y = exp(x) / sum over dim of exp(x)`

    It is computed in float32 if `x` has fewer bits. Every dimension but `dim` may be split.

    Args:
      x: Tensor[..., classes]
      dim: the dimension `classes`, the last one of `x`.
      name: name of the operation.

    Returns:
      Tensor[..., classes] with the shape and dtype of `x`.

    Raises:
      ShapeError: `dim` is not the last dimension of `x`.
    """
    _check_last("softmax", x, dim)
    return mtf.cast(Softmax(widen(x), name).outputs[0], x.dtype)


def sparse_softmax_cross_entropy(
    logits: mtf.Tensor,
    labels: mtf.Tensor,
    dim: mtf.Dimension,
    weights: Sequence[float] | None = None,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes the cross entropy of each voxel, like `tf.nn.sparse_softmax_cross_entropy_with_logits`.

    `loss = -weights[label] log(softmax(logits)[label])`

    It is computed in float32 if the logits have fewer bits. Every dimension but `dim` may be split.

    Args:
      logits: Tensor[batch..., x, y, z, classes]
      labels: int32 Tensor[batch..., x, y, z] of classes. A call of the program with other labels raises `DataError`.
      dim: the dimension `classes`, the last one of the logits.
      weights: the weight of each class; None weights all classes by 1. With a weight of 0, the loss is 0.
      name: name of the operation.

    Returns:
      Tensor[batch..., x, y, z], float32 or larger.

    Raises:
      ShapeError: the shapes of the logits, the labels and the weights do not fit.
    """
    _check_last("sparse_softmax_cross_entropy", logits, dim)
    if logits.shape.dims[:-1] != labels.shape.dims:
        raise ShapeError(
            f"sparse_softmax_cross_entropy: the labels must have the dimensions of the logits without '{dim.name}', "
            f"but the labels have {labels.shape} and the logits {logits.shape}"
        )
    if weights is not None and len(weights) != dim.size:
        raise ShapeError(
            f"sparse_softmax_cross_entropy: there must be one weight for each class, but '{dim.name}' has size "
            f"{dim.size} and there are {len(weights)} weights"
        )
    expect_labels(labels, range(dim.size))
    return SparseSoftmaxCrossEntropy(widen(logits), labels, weights, name).outputs[0]


def weighted_cross_entropy(
    logits: mtf.Tensor,
    labels: mtf.Tensor,
    dim: mtf.Dimension,
    weights: Sequence[float] | None = None,
    mask: mtf.Tensor | None = None,
) -> mtf.Tensor:
    """Computes the mean of the weighted cross entropy over all voxels, or over the voxels of a mask.

    The sum of `sparse_softmax_cross_entropy` is divided by the number of voxels, not by the sum of their weights. Every
    dimension but `dim` may be split.

    Args:
      logits: Tensor[batch..., x, y, z, classes]
      labels: int32 Tensor[batch..., x, y, z]. Labels outside of the mask must be classes, too.
      dim: the dimension `classes`, the last one of the logits.
      weights: the weight of each class; None weights all classes by 1.
      mask: Tensor[batch..., x, y, z], 1 for the voxels that count and 0 for all others, or other weights
        (`masked_mean`). None counts all voxels.

    Returns:
      A scalar Tensor, float32 or larger.

    Raises:
      ShapeError: the shapes of the logits, the labels, the weights and the mask do not fit.
    """
    losses = sparse_softmax_cross_entropy(logits, labels, dim, weights)
    return mtf.reduce_mean(losses) if mask is None else masked_mean(losses, mask)
