"""Semantic segmentation of photos: the inputs, the loss, and the measures that training reports."""

import dataclasses
import math
from collections.abc import Callable

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.tasks import LabelTask, described, image_inputs
from mtf_imaging.parameters import parameter


@gin.configurable(module="deeplab")
@dataclasses.dataclass(eq=False)
class SemanticSegmentation(LabelTask):
    """Semantic segmentation with the mean cross entropy of the pixels as the loss.

    Pixels with the ignore label contribute neither to the loss nor to the measures.

    `classes` and `ignore_label` make the task usable without a data set. `task.for_data(description)` replaces both by
    the values of a data set.

    Attributes:
      network: a function (image, is_training) -> logits Tensor[batch, height, width, classes]. If it has a method
        `with_classes(number)`, the task calls this method to get a network with the number of classes that it needs.
      classes: number of classes, with the background.
      ignore_label: the label of pixels that do not count. It is not a class.
      channels: number of channels of an image.
    """

    network: Callable | None = parameter(None, example="deeplab.DeepLab")
    classes: int = parameter(21, least=2)
    ignore_label: int = parameter(255, least=-math.inf)
    channels: int = 3

    def __post_init__(self):
        super().__post_init__()
        if 0 <= self.ignore_label < self.classes:
            raise mi.ConfigError(
                f"SemanticSegmentation.ignore_label = {self.ignore_label}: it is one of the classes 0 to "
                f"{self.classes - 1}. Fix: use 255, or {self.classes} or more."
            )

    @property
    def output_names(self):
        """Names of the classes, for errors."""
        return [f"class {label}" for label in range(self.classes)]

    def for_data(self, description):
        """Returns this task for a data set.

        Args:
          description: the classes of a data set of photos, with the attributes `classes`, a name for each class, and
            `ignore_label`.

        Returns:
          A task with the classes of the data set.

        Raises:
          ConfigError: the description does not describe photos, or the network has a different number of classes.
        """
        names = described(self, description, "classes", "photos")
        task = dataclasses.replace(self, classes=len(names), ignore_label=description.ignore_label)
        task.check_network()
        return task

    @property
    def multiple(self):
        """Prediction pads images that are larger than the training crops to a multiple of this size in pixels.

        The network defines the size; 1 pads nothing.
        """
        return getattr(self.network, "multiple", 1)

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
          ConfigError: the network has a different number of classes.
          ShapeError: there are not 2 sizes.
        """
        self.check_network()
        pixels, inputs = image_inputs(self, batch_size, ("height", "width"), sizes, self.channels, dtype)
        return {**inputs, "labels": (pixels, tf.int32)} if labels else inputs

    def loss(self, image, labels):
        """Computes the loss to minimize, and the pixel accuracy.

        Both are means over all pixels of the batch that count, and 0 if there are none.

        Args:
          image: Tensor[batch, height, width, channels]
          labels: int32 Tensor[batch, height, width], the class of each pixel or the ignore label.

        Returns:
          The loss, Tensor[], and a dict with "pixel_accuracy", Tensor[]: the fraction of the pixels that are classified
          correctly. Both are float32 or larger.
        """
        mi.ops.expect_labels(labels, [*range(self.classes), self.ignore_label])
        logits = self._logits(image, is_training=True)
        dim = logits.shape.dims[-1]
        counted = mi.mtf.not_equal(labels, self.ignore_label)
        # The ignore label is not a class, and its pixels must not have an infinite or NaN loss.
        classes = mi.mtf.where(counted, labels, 0)
        loss = mi.ops.weighted_cross_entropy(logits, classes, dim, mask=counted)
        correct = mi.mtf.cast(mi.mtf.equal(mi.mtf.argmax(logits, dim), classes), logits.dtype)
        return loss, {"pixel_accuracy": mi.ops.masked_mean(correct, counted)}

    def predict(self, image):
        """Predicts the classes of all pixels.

        Args:
          image: Tensor[batch, height, width, channels]

        Returns:
          probabilities Tensor[batch, height, width, classes], float32 or larger.
        """
        logits = self._logits(image, is_training=False)
        return mi.ops.softmax(logits, logits.shape.dims[-1])

    def _logits(self, image, is_training):
        return self._widened(self._network()(image, is_training=is_training))
