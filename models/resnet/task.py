"""Classification: what goes in, the loss, and how it is judged while it trains."""

from collections.abc import Callable

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet.network import ResNet


@gin.configurable(module="resnet")
class Classification:
    """The class of an image, by a network; the loss is the mean cross entropy.

    Attributes:
      network: a function (image, is_training) -> logits Tensor[batch, classes]. Default: a `ResNet`.
      channels: of the images.
    """

    def __init__(self, network: Callable | None = None, channels=3):
        if not isinstance(channels, int) or channels < 1:
            raise mi.ConfigError(f"Classification.channels = {channels!r}: it must be a number, at least 1.")
        self.network = network or ResNet()
        self.channels = channels

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Inputs of a program, by name.

        Args:
          batch_size: images in a batch.
          sizes: pixels along height and width.
          dtype: of images and activations.
          labels: whether the labels are among them (training), or the image only.
        """
        if len(sizes) != 2:
            raise mi.ShapeError(
                f"Classification: images have 2 sizes, height and width, not {len(sizes)}: {tuple(sizes)}. "
                "Fix: use a data set of such images, for instance models.resnet.GeneratedImages."
            )
        height, width = sizes
        batch = f"batch:{batch_size}"
        inputs = {"image": (f"{batch},height:{height},width:{width},channels:{self.channels}", dtype)}
        return {**inputs, "labels": (batch, tf.int32)} if labels else inputs

    def loss(self, image, labels):
        """The loss to minimise, and a measure to show beside it.

        Args:
          image: Tensor[batch, height, width, channels]
          labels: Tensor[batch], int32: the number of the class.

        Returns:
          loss Tensor[], and a dict of Tensors[]: the accuracy, the share of images whose class was found; both float32
          at least.
        """
        logits = self.network(image, is_training=True)
        classes = logits.shape.dims[-1]
        loss = mi.mtf.reduce_mean(mi.ops.sparse_softmax_cross_entropy(logits, labels, classes))
        right = mi.mtf.cast(mi.mtf.equal(mi.mtf.argmax(logits, classes), labels), loss.dtype)
        return loss, {"accuracy": mi.mtf.reduce_mean(right)}

    def predict(self, image):
        """Tensor[batch, height, width, channels] -> probabilities Tensor[batch, classes]."""
        logits = self.network(image, is_training=False)
        return mi.ops.softmax(logits, logits.shape.dims[-1])
