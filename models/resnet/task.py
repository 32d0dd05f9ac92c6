"""Image classification: the inputs, the loss, and the measures that training reports."""

from collections.abc import Callable

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet.network import ResNet


@gin.configurable(module="resnet")
class Classification:
    """Image classification with the mean cross entropy as the loss.

    Attributes:
      network: a function (image, is_training) -> logits Tensor[batch, classes]. The default is a `ResNet`.
      channels: number of channels of an image.
    """

    def __init__(self, network: Callable | None = None, channels=3):
        if not isinstance(channels, int) or channels < 1:
            raise mi.ConfigError(f"Classification.channels = {channels!r}: it must be an int of at least 1.")
        self.network = network or ResNet()
        self.channels = channels

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Returns the inputs of a program, by name.

        Args:
          batch_size: number of images in a batch.
          sizes: height and width of an image in pixels.
          dtype: dtype of images and activations.
          labels: whether to include the labels, which training needs and prediction does not.

        Returns:
          A dict {name: (shape, dtype)}.

        Raises:
          ShapeError: there are not 2 sizes.
        """
        if len(sizes) != 2:
            raise mi.ShapeError(
                f"Classification: an image must have 2 sizes, height and width, not {len(sizes)}: {tuple(sizes)}. "
                "Fix: use a data set of 2-D images, such as models.resnet.GeneratedImages."
            )
        height, width = sizes
        batch = f"batch:{batch_size}"
        inputs = {"image": (f"{batch},height:{height},width:{width},channels:{self.channels}", dtype)}
        return {**inputs, "labels": (batch, tf.int32)} if labels else inputs

    def loss(self, image, labels):
        """Computes the loss to minimize, and the accuracy.

        Args:
          image: Tensor[batch, height, width, channels]
          labels: int32 Tensor[batch], the index of each class.

        Returns:
          The loss, Tensor[], and a dict with "accuracy", Tensor[]: the fraction of the images that are classified
          correctly. Both are float32 or larger.
        """
        logits = self.network(image, is_training=True)
        classes = logits.shape.dims[-1]
        loss = mi.mtf.reduce_mean(mi.ops.sparse_softmax_cross_entropy(logits, labels, classes))
        correct = mi.mtf.cast(mi.mtf.equal(mi.mtf.argmax(logits, classes), labels), loss.dtype)
        return loss, {"accuracy": mi.mtf.reduce_mean(correct)}

    def predict(self, image):
        """Predicts the classes: Tensor[batch, height, width, channels] -> probabilities Tensor[batch, classes]."""
        logits = self.network(image, is_training=False)
        return mi.ops.softmax(logits, logits.shape.dims[-1])
