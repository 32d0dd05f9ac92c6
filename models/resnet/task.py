"""Image classification: the inputs, the loss, and the measures that training reports."""

import re
from collections.abc import Callable

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet.network import ResNet

IMAGE_DIMS = ("height", "width")


@gin.configurable(module="resnet")
class Classification:
    """Image classification with the mean cross entropy as the loss.

    Attributes:
      network: a function (image, is_training) -> logits Tensor[batch, classes]. The default is a `ResNet`.
      channels: number of channels of an image.
      dims: names of the spatial dimensions of an image, for example `("time", "height", "width")` for video. Layout
          rules use these names. The network must support their number.
    """

    def __init__(self, network: Callable | None = None, channels=3, dims: tuple[str, ...] = IMAGE_DIMS):
        if not isinstance(channels, int) or channels < 1:
            raise mi.ConfigError(f"Classification.channels = {channels!r}: it must be an int of at least 1.")
        self.dims = _check_dims(dims)
        if network is None and len(self.dims) != len(IMAGE_DIMS):
            raise mi.ConfigError(
                f"Classification.dims = {self.dims!r}: the default network is for {_listed(IMAGE_DIMS)}. "
                "Fix: set Classification.network to a network for these dimensions."
            )
        self.network = network or ResNet()
        self.channels = channels

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
        if len(sizes) != len(self.dims):
            example = ", such as models.resnet.GeneratedImages" if self.dims == IMAGE_DIMS else ""
            raise mi.ShapeError(
                f"Classification: an image must have {len(self.dims)} sizes, {_listed(self.dims)}, not {len(sizes)}: "
                f"{tuple(sizes)}. Fix: use a data set of {len(self.dims)}-D images{example}."
            )
        batch = f"batch:{batch_size}"
        spatial = ",".join(f"{dim}:{size}" for dim, size in zip(self.dims, sizes))
        inputs = {"image": (f"{batch},{spatial},channels:{self.channels}", dtype)}
        return {**inputs, "labels": (batch, tf.int32)} if labels else inputs

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


def _check_dims(dims):
    """Returns the names of the spatial dimensions as a tuple, after checking them."""
    reserved = ("batch", "channels", "classes")
    names = tuple(dims) if isinstance(dims, list | tuple) else ()
    valid = all(isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name) for name in names)
    if not (1 <= len(names) <= 3 and valid and len({*names, *reserved}) == len(names) + len(reserved)):
        raise mi.ConfigError(
            f"Classification.dims = {dims!r}: it must be a tuple of 1 to 3 different names, none of which is "
            f"{', '.join(reserved[:-1])} or {reserved[-1]}. Fix: use a tuple such as {IMAGE_DIMS!r}."
        )
    return names


def _listed(names):
    """Returns names as a list in words, such as "time, height and width"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
