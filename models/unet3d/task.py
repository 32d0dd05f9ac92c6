"""The base class of segmentation tasks: inputs, loss, prediction, and the measures that training reports."""

import copy
import dataclasses
from collections.abc import Callable

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.class_biases import sigmoid_biases, softmax_biases
from mtf_imaging.models.tasks import LabelTask, described, image_inputs
from mtf_imaging.models.unet3d.losses import RegionLoss, SoftmaxLoss
from mtf_imaging.models.unet3d.network import UNet3D
from mtf_imaging.models.unet3d.supervision import labels_of_level, level_weights
from mtf_imaging.parameters import parameter

_AXES = "xyz"


@dataclasses.dataclass(eq=False)
class SegmentationTask(LabelTask):
    """A segmentation into the labels or masks of a description.

    A subclass chooses the parameters that gin files can set, and their defaults.

    Attributes:
      network: a function (image, is_training) -> logits. In training, it may return a list of logits: each has half
        the sizes of the previous ones, rounded up, or the strides in the network's attribute `level_strides`. If it
        has a method `with_classes(number)`, the task calls this method to get a network with the number of outputs that
        it needs. The default is a `UNet3D`.
      description: the channels, labels and masks, an `mi.data.Description`.
      class_weights: weight of each output of the network in the cross entropy; None weights all by 1.
      dice_weight: weight of the Dice loss, from 0 to 1.
      dice: "masks", "classes", "adaptive", or the name of a mask.
      dice_over: what the sums in a Dice loss cover: each "case", the whole "batch", or "both". "adaptive" ignores it.
      dice_background: whether "classes" includes the background.
    """

    network: Callable | None = None
    class_weights: tuple[float, ...] | None = parameter(None, least=0)
    dice_weight: float = parameter(0.5, least=0, most=1)
    dice: str = "masks"
    dice_over: str = parameter("both", choices=("case", "batch", "both"))
    dice_background: bool = False
    description: mi.data.Description = dataclasses.field(init=False)

    spatial_dims = (2, 3)  # the numbers of spatial dimensions that an image may have
    flat_in_2d = False  # whether images of one plane are computed in 2-D

    def __post_init__(self):
        super().__post_init__()
        unused = ["dice_background"] * (self.dice_background and self.dice != "classes")
        unused += ["dice_over"] * (self.dice_over != "both" and self.dice == "adaptive")
        if unused:
            owner, (name, *_) = type(self).__name__, unused
            raise mi.ConfigError(
                f"{owner}.{name} = {getattr(self, name)!r} has no effect with {owner}.dice = {self.dice!r}. "
                "Fix: leave it out, or use another Dice loss."
            )
        self.network = self.network or UNet3D()

    @property
    def num_outputs(self):
        """The number of the network's outputs: the masks of regions, or the background and the labels."""
        return self.description.num_outputs

    def for_data(self, description):
        """Returns this task for a data set.

        Args:
          description: the channels, labels and masks of the data set, an `mi.data.Description`.

        Returns:
          A task with the inputs, outputs and measures of the data set.

        Raises:
          ConfigError: `class_weights` or `dice` do not fit the data set, or it has no volumes.
        """
        described(self, description, "channels", "volumes")
        task = copy.copy(self)
        task.description = description
        task.check_description()
        return task

    @property
    def output_names(self):
        """The names of the network's outputs."""
        return [*self.description.outputs]

    def _biases(self, frequencies):
        return (sigmoid_biases if self.description.has_regions else softmax_biases)(frequencies)

    def check_description(self):
        """Raises ConfigError if `class_weights` or `dice` do not fit the description."""
        owner, names = type(self).__name__, self.output_names
        if self.class_weights is not None and len(self.class_weights) != len(names):
            raise mi.ConfigError(
                f"{owner}.class_weights = {self.class_weights}: it must have a weight for each of the {len(names)} "
                f"outputs of the network, {', '.join(names)}, but it has {len(self.class_weights)}."
            )
        choices = ["masks", *([] if self.description.has_regions else ["classes", "adaptive"])]
        if self.dice not in (*choices, *self.description.masks):
            raise mi.ConfigError(
                f"{owner}.dice = {self.dice!r} is not known{' for regions' * self.description.has_regions}. Fix: "
                f"choose one of {', '.join(choices)}, or a mask: {', '.join(self.description.masks)}."
            )

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Returns the inputs of a program, by name.

        Args:
          batch_size: number of images in a batch.
          sizes: sizes of an image along x and y, or along x, y and z, in voxels.
          dtype: dtype of images and activations.
          labels: whether to include the labels, which training needs and prediction does not.

        Returns:
          A dict {name: (shape, dtype)}.

        Raises:
          ConfigError: `class_weights` or `dice` do not fit the description.
          ShapeError: there are not 2 or 3 sizes.
        """
        self.check_description()
        number = len(sizes) if len(sizes) in self.spatial_dims else max(self.spatial_dims)
        channels = len(self.description.channels)
        voxels, inputs = image_inputs(self, batch_size, _AXES[:number], sizes, channels, dtype)
        return {**inputs, "labels": (voxels, tf.int32)} if labels else inputs

    def loss(self, image, labels):
        """Computes the loss to minimize, and the soft Dice of each mask.

        Args:
          image: Tensor[batch, x, y, z, channels], or without z.
          labels: int32 Tensor[batch, x, y, z], 0 for the background; voxels with the ignore label do not count.

        Returns:
          The loss, Tensor[], and {name of a mask: soft Dice over the batch, Tensor[]}. All are float32 or larger.
        """
        mi.ops.expect_labels(labels, self._label_values())
        image, labels = self._in_plane(image), self._in_plane(labels)
        network = self._network()
        logits = network(image, is_training=True)
        levels = [self._widened(x) for x in (logits if isinstance(logits, list | tuple) else [logits])]
        losses, measures = [], {}
        strides = getattr(network, "level_strides", [(2**level,) * 3 for level in range(len(levels))])
        for level, (logits, weight) in enumerate(zip(levels, level_weights(len(levels)))):
            loss, masks = self._loss(logits, labels_of_level(labels, logits, strides[level], level))
            losses.append(weight * loss)
            if not level:
                measures = {name: overlap.soft_dice() for name, overlap in masks.items()}
        return mi.mtf.add_n(losses), measures

    def predict(self, image):
        """Predicts probabilities, or logits if `description.has_logits`.

        Args:
          image: Tensor[batch, x, y, z, channels], or without z.

        Returns:
          Tensor[batch, x, y, z, classes], float32 or larger: the softmax over the background and the labels, or, for
          regions, the sigmoid of each mask.
        """
        plane = self._in_plane(image)
        logits = self._widened(self._network()(plane, is_training=False))
        values = logits if self.description.has_logits else self._loss.probabilities(logits)
        return _with_dims(values, [*image.shape.dims[:-1], values.shape.dims[-1]])

    def _label_values(self):
        """Returns the values of the background, all labels and the ignore label."""
        own = self.description
        values = {0, *own.labels.values(), *(value for mask in own.masks.values() for value in mask)}
        return values if own.ignore is None else {*values, own.ignore}

    def _in_plane(self, x):
        """Returns images or labels of one plane without z, so that the network computes them in 2-D.

        Args:
          x: Tensor[batch, x, y, z, ...].
        """
        dims = x.shape.dims
        is_flat = self.flat_in_2d and len(dims) > 3 and (dims[3].name, dims[3].size) == ("z", 1)
        return _with_dims(x, [*dims[:3], *dims[4:]]) if is_flat else x

    @property
    def _loss(self):
        return (RegionLoss if self.description.has_regions else SoftmaxLoss)(self)


def _with_dims(x, dims):
    """Returns a tensor with the same elements and different dimensions."""
    return x if dims == x.shape.dims else mi.mtf.reshape(x, mi.mtf.Shape(dims))
