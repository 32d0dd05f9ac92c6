"""The inputs of detection tasks, and checks of their settings."""

import math

import tensorflow as tf

import mtf_imaging as mi


def object_inputs(batch_size, sizes, channels, dtype, max_boxes):
    """Returns the inputs of a program, {name: (shape, dtype)}.

    Args:
      batch_size: number of images in a batch.
      sizes: height and width of an image in pixels.
      channels: number of channels of an image.
      dtype: dtype of images and activations.
      max_boxes: largest number of objects in an image, or None for images without objects.
    """
    height, width = sizes
    inputs = {"image": (f"batch:{batch_size},height:{height},width:{width},channels:{channels}", dtype)}
    if max_boxes is not None:
        boxes = f"batch:{batch_size},boxes:{max_boxes}"
        inputs |= {"boxes": (f"{boxes},coords:4", tf.float32), "classes": (boxes, tf.int32)}
    return inputs


def image_sizes(image):
    """Returns the height and width in pixels of Tensor[batch, height, width, channels]."""
    return [dim.size for dim in image.shape.dims[1:3]]


def count_categories(task, description):
    """Returns the number of classes in a data set of objects.

    Args:
      task: the task, whose class appears in messages.
      description: a description with the attribute `categories`.

    Raises:
      ConfigError: the description does not describe objects.
    """
    categories = getattr(description, "categories", None)
    if categories is None:
        raise mi.ConfigError(
            f"{type(task).__name__} needs a data set of objects, whose description lists categories, but the data set "
            f"has a {type(description).__name__}. Fix: use a data set of objects, or a task for your data, such as "
            "deeplab.SemanticSegmentation for photos."
        )
    return len(categories)


def check_sizes(task, sizes):
    """Raises ShapeError if there are not 2 sizes."""
    if len(sizes) != 2:
        raise mi.ShapeError(
            f"{type(task).__name__}: an image must have 2 sizes, height and width, not {len(sizes)}: {tuple(sizes)}. "
            "Fix: use a data set of objects."
        )


def check_classes(task, classes):
    """Raises ConfigError if the numbers of classes of a network and the task differ."""
    if classes != task.classes:
        raise mi.ConfigError(
            f"{type(task).__name__}.network: the network has {classes} classes, but this task needs {task.classes}. "
            f"Fix: use a network with {task.classes} classes, or leave the number of classes of the network out."
        )


def check_number(task, name, most=math.inf, above=False):
    """Raises ConfigError unless a task's setting `name` is a number from 0 to `most`, or above 0 with `above`."""
    value = getattr(task, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= most and value < math.inf and (value > 0 or not above)):
        limits = ("above 0" if above else "at least 0") + (f" and at most {most}" if most < math.inf else "")
        raise mi.ConfigError(f"{type(task).__name__}.{name} = {value!r}: it must be a number {limits}.")
