"""Image classification: the inputs, the loss, and the measures that training reports."""

import dataclasses
import re
from collections.abc import Callable

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet.network import ResNet
from mtf_imaging.models.tasks import image_inputs
from mtf_imaging.parameters import check_parameters

_RESERVED = ("batch", "channels", "classes")


@gin.configurable(module="resnet")
@dataclasses.dataclass(eq=False)
class Classification:
    """Image classification with the mean cross entropy as the loss.

    Attributes:
      network: a function (image, is_training) -> logits Tensor[batch, classes]. The default is a `ResNet`.
      channels: number of channels of an image.
      dims: names of the spatial dimensions of an image, for example `("time", "height", "width")` for video. Layout
          rules use these names. The network must support their number.
    """

    network: Callable | None = None
    channels: int = 3
    dims: tuple[str, ...] = ("height", "width")

    def __post_init__(self):
        check_parameters(self)
        valid = all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in self.dims)
        if not valid or len(self.dims) > 3 or len({*self.dims, *_RESERVED}) < len(self.dims) + len(_RESERVED):
            raise mi.ConfigError(
                f"Classification.dims = {self.dims!r}: it must be a tuple of 1 to 3 different names, none of which is "
                f"{' or '.join(_RESERVED)}. Fix: use a tuple such as ('height', 'width')."
            )
        self.network = self.network or ResNet()

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Returns the inputs of a program, by name.

        Args:
          batch_size: number of images in a batch.
          sizes: sizes of an image in pixels along `dims`, by default height and width.
          dtype: dtype of images and activations.
          labels: whether to include the labels, which training needs and prediction does not.

        Returns:
          A dict {name: (shape, dtype)}.

        Raises:
          ShapeError: there is not one size for each of `dims`.
        """
        _, inputs = image_inputs(self, batch_size, self.dims, sizes, self.channels, dtype)
        return {**inputs, "labels": (f"batch:{batch_size}", tf.int32)} if labels else inputs

    def loss(self, image, labels):
        """Computes the loss to minimize, and the accuracy.

        Args:
          image: Tensor[batch, height, width, channels], with `dims` in place of height and width.
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
