"""The cross entropy of sigmoids, for classes that may overlap."""

from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.precision import widen
from mtf_imaging.errors import ShapeError


class SigmoidCrossEntropy(mtf.Operation):
    """`loss = max(x, 0) - x z + log(1 + exp(-|x|))`, elementwise."""

    kind = "sigmoid_cross_entropy"

    def __init__(self, logits: mtf.Tensor, labels: mtf.Tensor, name: str | None = None) -> None:
        super().__init__([logits, labels], name=name or self.kind)
        self._outputs = [mtf.Tensor(self, logits.shape, logits.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        (logits, labels), (dloss,) = self.inputs, grad_ys
        return [(mtf.sigmoid(logits) - labels) * dloss, mtf.negative(logits) * dloss]

    def lower(self, lowering: mtf.Lowering) -> None:
        logits, labels = (lowering.tensors[x].to_laid_out_tensor() for x in self.inputs)
        fn = tf.nn.sigmoid_cross_entropy_with_logits
        loss = lowering.mesh_impl(self).map_stacks(lambda x, z: fn(labels=z, logits=x), logits, labels)
        lowering.set_tensor_lowering(self.outputs[0], loss)


def sigmoid_cross_entropy(logits: mtf.Tensor, labels: mtf.Tensor, name: str | None = None) -> mtf.Tensor:
    """Computes the cross entropy of sigmoids, like `tf.nn.sigmoid_cross_entropy_with_logits`.

    `loss = -labels log(sigmoid(logits)) - (1 - labels) log(1 - sigmoid(logits))`

    It is elementwise: every dimension may be split, and no data is exchanged. It is computed in float32 if the logits
    have fewer bits.

    Args:
      logits: Tensor[...]
      labels: Tensor[...] with the shape and dtype of the logits, from 0 to 1.
      name: name of the operation.

    Returns:
      Tensor[...] with the shape of the logits, float32 or larger.

    Raises:
      ShapeError: the shapes or dtypes differ.
    """
    if (logits.shape, logits.dtype) != (labels.shape, labels.dtype):
        raise ShapeError(
            "sigmoid_cross_entropy: the labels must have the shape and dtype of the logits, "
            f"{logits.shape} {logits.dtype.name}, but they have {labels.shape} {labels.dtype.name}"
        )
    return SigmoidCrossEntropy(widen(logits), widen(labels), name).outputs[0]
