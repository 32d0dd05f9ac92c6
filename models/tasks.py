"""What tasks and their networks share: a network with an output for each class, and the shape of a batch."""

import copy
import dataclasses
from typing import Any

import mtf_imaging as mi
from mtf_imaging.models.class_biases import softmax_biases
from mtf_imaging.parameters import check_parameters


class OpenClasses:
    """Base class of networks, frozen dataclasses, whose number of `classes` may be None."""

    def __post_init__(self):
        check_parameters(self)

    def with_classes(self, classes):
        """Returns this network with a number of classes, if it leaves the number open."""
        return dataclasses.replace(self, classes=classes) if self.classes is None else self


class OpenBiases(OpenClasses):
    """Base class of networks that also leave `class_biases`, the initial biases of the classes, open with None."""

    def with_class_biases(self, biases):
        """Returns this network with initial biases of the classes, if it leaves them open."""
        return dataclasses.replace(self, class_biases=biases) if self.class_biases is None else self


class NetworkTask:
    """Base class of tasks whose network may leave its number of classes open.

    Attributes:
      network: a function (image, is_training) -> predictions. If it has a method `with_classes(number)`, the task calls
        this method to get a network with the number of classes that it needs.
    """

    network: Any

    def __post_init__(self):
        check_parameters(self)

    @property
    def num_outputs(self):
        """The number of classes that the network needs."""
        return self.classes

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
                f"{self.num_outputs}. Fix: use a network with {self.num_outputs} classes.{region}"
            )

    def _widened(self, logits):
        """Checks the number of classes, and casts logits Tensor[..., classes] to at least float32."""
        self._check_outputs(logits.shape.dims[-1].size)
        return mi.layers.widen(logits)


class LabelTask(NetworkTask):
    """Base class of tasks that predict a class for each pixel or voxel. `output_names` names the network's outputs."""

    def with_class_frequencies(self, frequencies):
        """Returns this task with a network whose first predictions are the class frequencies.

        Args:
          frequencies: the fraction of the pixels or voxels that belong to each output of the network.

        Returns:
          A task. It has the same network if the network has no method `with_class_biases(biases)`.

        Raises:
          ConfigError: there is not one frequency for each output, or a frequency is not from 0 to 1.
        """
        if len(frequencies) != self.num_outputs or not all(0 <= frequency <= 1 for frequency in frequencies):
            raise mi.ConfigError(
                f"class_frequencies = {tuple(frequencies)}: there must be a number from 0 to 1 for each of the "
                f"{self.num_outputs} outputs of the network, {', '.join(self.output_names)}. Fix: give these numbers, "
                "or None."
            )
        if not hasattr(self.network, "with_class_biases"):
            return self
        task = copy.copy(self)
        task.network = self.network.with_class_biases(self._biases(frequencies))
        return task

    def _biases(self, frequencies):
        return softmax_biases(frequencies)


def image_inputs(task, batch_size, names, sizes, channels, dtype):
    """Returns the shape of a batch without channels, such as "batch:2,height:64,width:48", and the input "image".

    Args:
      task: the task, which the error names.
      batch_size: number of images.
      names: the names of the spatial dimensions.
      sizes: their sizes.
      channels: number of channels of an image.
      dtype: dtype of images.

    Raises:
      ShapeError: there is not one size for each dimension.
    """
    if len(sizes) != len(names):
        raise mi.ShapeError(
            f"{type(task).__name__}: an image must have {len(names)} sizes, {', '.join(names)}, not {len(sizes)}: "
            f"{tuple(sizes)}. Fix: use a data set of {len(names)}-D images, or another task."
        )
    shape = ",".join([f"batch:{batch_size}", *(f"{name}:{size}" for name, size in zip(names, sizes))])
    return shape, {"image": (f"{shape},channels:{channels}", dtype)}


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
            "Fix: use a task for your data, such as Segmentation, SemanticSegmentation or ObjectDetection."
        )
    return value
