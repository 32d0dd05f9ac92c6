"""The base class of detection tasks: a network with a class for each category, and the inputs."""

import dataclasses

import tensorflow as tf

from mtf_imaging.models.tasks import NetworkTask, described, image_inputs


class ObjectTask(NetworkTask):
    """Base class of the tasks that detect objects, which are dataclasses.

    Attributes:
      classes: number of classes, without background.
      channels: number of channels of an image.
      max_boxes: largest number of objects in a training image.
    """

    classes: int
    channels: int
    max_boxes: int

    def for_data(self, description):
        """Returns this task for a data set.

        Args:
          description: the description of a data set of objects, with the attribute `categories`, one for each class.

        Returns:
          A task with the classes of the data set.

        Raises:
          ConfigError: the description does not describe objects, or the network has a different number of classes.
        """
        task = dataclasses.replace(self, classes=len(described(self, description, "categories", "objects")))
        task.check_network()
        return task

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Returns the inputs of a program, by name.

        Args:
          batch_size: number of images in a batch.
          sizes: height and width of an image in pixels.
          dtype: dtype of images and activations.
          labels: whether to include the objects, which training needs and prediction does not.

        Returns:
          A dict {name: (shape, dtype)}.

        Raises:
          ConfigError: the network has a different number of classes.
          ShapeError: there are not 2 sizes.
        """
        self.check_network()
        _, inputs = image_inputs(self, batch_size, ("height", "width"), sizes, self.channels, dtype)
        if labels:
            boxes = f"batch:{batch_size},boxes:{self.max_boxes}"
            inputs |= {"boxes": (f"{boxes},coords:4", tf.float32), "classes": (boxes, tf.int32)}
        return inputs


def image_sizes(image):
    """Returns the height and width in pixels of Tensor[batch, height, width, channels]."""
    return [dim.size for dim in image.shape.dims[1:3]]
