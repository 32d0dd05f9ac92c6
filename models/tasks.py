"""What tasks share: a network with an output for each class, and the shape of a batch."""

from typing import Any

import mtf_imaging as mi


class NetworkTask:
    """Base class of tasks whose network may leave its number of classes open.

    Attributes:
      network: a function (image, is_training) -> predictions. If it has a method `with_classes(number)`, the task calls
        this method to get a network with the number of classes that it needs.
    """

    network: Any

    @property
    def num_outputs(self):
        """The number of classes that the network needs."""
        raise NotImplementedError

    def check_network(self):
        """Raises ConfigError if the numbers of classes of the network and the task differ."""
        self._check_outputs(getattr(self._network(), "classes", None) or self.num_outputs)

    def _network(self):
        """Returns the network, with the number of classes of this task if the network leaves it open."""
        with_classes = getattr(self.network, "with_classes", None)
        return with_classes(self.num_outputs) if with_classes else self.network

    def _check_outputs(self, number):
        if number != self.num_outputs:
            region = " The sigmoid of one output is a region of nnU-Net's dataset.json." if number == 1 else ""
            raise mi.ConfigError(
                f"{type(self).__name__}.network: the network has {number} classes, but this task needs "
                f"{self.num_outputs}. Fix: use a network with {self.num_outputs} classes, or leave out its number of "
                f"classes.{region}"
            )

    def _widened(self, logits):
        """Checks the number of classes, and casts logits Tensor[..., classes] to at least float32."""
        self._check_outputs(logits.shape.dims[-1].size)
        return mi.layers.widen(logits)


def image_shape(task, batch_size, names, sizes):
    """Returns the shape of a batch of images without channels, such as "batch:2,height:64,width:48".

    Args:
      task: the task, which the error names.
      batch_size: number of images.
      names: the names of the spatial dimensions.
      sizes: their sizes.

    Raises:
      ShapeError: there is not one size for each dimension.
    """
    if len(sizes) != len(names):
        raise mi.ShapeError(
            f"{type(task).__name__}: an image must have {len(names)} sizes, {', '.join(names)}, not {len(sizes)}: "
            f"{tuple(sizes)}. Fix: use a data set of {len(names)}-D images, or another task."
        )
    return ",".join([f"batch:{batch_size}", *(f"{name}:{size}" for name, size in zip(names, sizes))])


def described(task, description, attribute, data):
    """Returns an attribute of the description of a data set, which only data of the right kind has.

    Args:
      task: the task, which the error names.
      description: the description.
      attribute: the name of the attribute.
      data: the kind of data that has it, such as "photos".

    Raises:
      ConfigError: the data set is of another kind.
    """
    value = getattr(description, attribute, None)
    if value is None:
        raise mi.ConfigError(
            f"{type(task).__name__} needs a data set of {data}, but the data set has a {type(description).__name__}. "
            "Fix: use a task for your data, such as unet3d.Segmentation for volumes, deeplab.SemanticSegmentation for "
            "photos, or detection.ObjectDetection for objects."
        )
    return value
