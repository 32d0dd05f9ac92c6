"""A network: a function from the sizes of an image to the slices of it that the processes compute."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mtf_imaging.engine.layout.regions import Region, whole_region
from mtf_imaging.errors import ShapeError
from mtf_imaging.files.blocks import Voxels
from mtf_imaging.inference.several import named_inputs

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group

# The prediction of a task for one image: an array, such as the probabilities [x, y, z, classes] of a segmentation; or,
# if `Task.predict` returns a dict, arrays by name, such as the boxes, scores and classes of detections.
Prediction = Any
Consume = Callable[[slice, Voxels], None]  # see `Slices.predict_parts`


@dataclasses.dataclass(frozen=True)
class Slices:
    """The slices of an image, and of its prediction, that the processes compute.

    A region is a tuple of Python slices, one for each dimension of one image: the spatial dimensions, then channels or
    classes. All processes make the same calls. If the network has several inputs, an image is a dict of arrays by name.

    Attributes:
      group: the processes.
      inputs: the region of an image `[x, y, z, channels]` that each process passes to `predict`; if the network has
        several inputs, these regions by the names of the inputs.
      outputs: the region of the prediction `[x, y, z, classes]` that each process receives; if the prediction has
        several arrays, these regions by the names of the arrays.
      predict: maps the images of a batch, `[images, *inputs[group.index]]`, to their predictions, `[images,
        *outputs[group.index]]`.
      batch: the images of a batch that each process computes.
      parts: does what `predict_parts` does, without an array for the whole prediction; None if the network cannot.
    """

    group: "Group"
    inputs: Any
    outputs: Any
    predict: Callable[[Any], Any]
    batch: Sequence[slice]
    parts: "Callable[[Voxels, Consume, int], None] | None" = None

    @property
    def batch_size(self) -> int:
        """The number of images in a batch."""
        return max(images.stop for images in self.batch)

    def predict_image(self, image: Any) -> Any:
        """Returns the prediction for a single image in this process's region; the batch size must be 1."""
        return of_each(lambda array: array[0], self.predict(one_batch(image)))

    def predict_parts(self, image: Voxels, consume: "Consume", first: int = 0) -> None:
        """Predicts a single image in this process's region, part by part; the batch size must be 1.

        Args:
          image: the image.
          consume: is called with the rows of each part, a range along the first axis of the region, and an array that
            begins with their values. Rows come in order. The array changes after the call.
          first: the first row that is needed; rows before it may be missing or have other values.
        """
        if self.parts is not None:
            self.parts(image, consume, first)
            return
        values = np.asarray(self.predict_image(image))
        consume(slice(0, len(values)), values)

    def move(self, array: np.ndarray, have: Sequence[Region], want: Sequence[Region]) -> np.ndarray:
        """Exchanges regions of the images of a batch, one image after the other.

        Args:
          array: `[images, *have[group.index]]`.
          have: the region of each image that each process has.
          want: the region of each image that each process needs.
        """
        if len(self.batch) == 1:
            return array
        mine = self.batch[self.group.index]
        moved = [
            self.group.move(own_image(array, mine, at), of_image(self.batch, have, at), of_image(self.batch, want, at))
            for at in range(self.batch_size)
        ]
        return moved[0][np.newaxis] if self.batch_size == 1 else np.stack(moved[mine])  # a volume without a copy

    def replace(self, **changes: Any) -> Self:
        """Returns these slices with other attributes; another `predict` has no `parts`."""
        return dataclasses.replace(self, **{**({"parts": None} if "predict" in changes else {}), **changes})

    def first_values(self, count: int) -> Self:
        """Returns the slices of each voxel's first values."""
        outputs = []
        for *spatial, values in self.outputs:
            stop = max(values.start, min(values.stop, count))  # a process may compute none of them
            outputs.append((*spatial, slice(values.start, stop)))
        return self.replace(outputs=outputs)


@dataclasses.dataclass(frozen=True)
class Network:
    """A network as a function of images; everything is derived from its slices.

    Attributes:
      of_sizes: maps the sizes of an image along its spatial dimensions to its slices.
    """

    of_sizes: Callable[[tuple[int, ...]], Slices]

    def __call__(self, image: Any) -> Prediction:
        """Returns the prediction for a whole image, `[x, y, z, channels]`, in every process."""
        return self.predict_batch(one_batch(image))[0]

    def slices(self, sizes: Sequence[int]) -> Slices:
        """Returns the slices of an image with these sizes along the spatial dimensions."""
        return self.of_sizes(tuple(sizes))

    def predict_batch(self, images: Any) -> list[Prediction]:
        """Returns the prediction for each of several images, in every process.

        Args:
          images: `[images, x, y, z, channels]`; a dict of arrays if the network has several inputs. The last image
            fills up the last batch.

        Raises:
          ShapeError: the inputs are others than those of the network.
        """
        own = self.slices(image_sizes(images))
        if named_inputs(images).keys() != named_inputs(own.inputs).keys():
            raise ShapeError(
                f"the network has {_inputs_text(own.inputs)}, but the image has {_inputs_text(images)}. Fix: give one "
                "array for a network with one input, and a dict of arrays by name for several."
            )
        number, results = own.group.index, []
        count = len(next(iter(images.values())) if isinstance(images, Mapping) else images)

        def cut(array: np.ndarray, regions: Sequence[Region]) -> np.ndarray:
            batch = array[first : first + own.batch_size]
            missing = own.batch_size - len(batch)
            filled = np.concatenate([batch, np.repeat(batch[-1:], missing, axis=0)]) if missing else batch
            return filled[(own.batch[number], *regions[number])]

        for first in range(0, count, own.batch_size):
            arrays = own.predict(of_each(cut, images, own.inputs))
            results += [_whole(own, arrays, at) for at in range(min(own.batch_size, count - first))]
        return results

    def map(self, change: Callable[[Slices, tuple[int, ...]], Slices]) -> "Network":
        """Returns a network whose slices are a function of this network's slices and the sizes of the image."""
        return Network(lambda sizes: change(self.of_sizes(sizes), sizes))


def of_function(function: Callable[[np.ndarray], np.ndarray], num_channels: int, num_outputs: int) -> Network:
    """Returns the network of a function of a whole image, which this process computes alone.

    Args:
      function: maps an image, `[x, y, z, channels]`, to an array, `[x, y, z, classes]`.
      num_channels: number of channels of the image.
      num_outputs: number of classes or masks.
    """
    from mtf_imaging.engine.meshes.group import ALONE  # imported here because it imports TensorFlow

    def of_sizes(sizes: tuple[int, ...]) -> Slices:
        inputs, outputs = ([whole_region((*sizes, last))] for last in (num_channels, num_outputs))
        return Slices(ALONE, inputs, outputs, lambda images: np.asarray(function(images[0]))[np.newaxis], [slice(0, 1)])

    return Network(of_sizes)


def as_network(function: Callable[[np.ndarray], Any], num_channels: int, num_outputs: int) -> Network:
    """Returns a network unchanged, and any other function of a whole image as a network; see `of_function`."""
    return function if isinstance(function, Network) else of_function(function, num_channels, num_outputs)


def by_size(build: Callable[[tuple[int, ...]], Network]) -> Network:
    """Returns a network for images of several sizes.

    Args:
      build: returns the network for the given sizes of the spatial dimensions. It is called when an image of these
        sizes first occurs.
    """
    cached = functools.cache(build)
    return Network(lambda sizes: cached(sizes).of_sizes(sizes))


def prepared(prepare: Callable[[], None], network: Network) -> Network:
    """Returns a network that calls a function before each prediction."""

    def change(own: Slices, sizes: tuple[int, ...]) -> Slices:
        def predict(images: np.ndarray) -> Any:
            prepare()
            return own.predict(images)

        return own.replace(predict=predict)

    return network.map(change)


def of_each(function: Callable[..., Any], arrays: Any, *more: Any) -> Any:
    """Applies a function to the array of a prediction, or to each of its arrays by name.

    >>> of_each(lambda a, b: a + b, {"boxes": 1, "scores": 2}, {"boxes": 10, "scores": 20})
    {'boxes': 11, 'scores': 22}

    Args:
      function: the function.
      arrays: one value, or values by name.
      *more: further arguments of the function, in the same form.
    """
    if isinstance(arrays, Mapping):
        return {name: function(array, *(each[name] for each in more)) for name, array in arrays.items()}
    return function(arrays, *more)


def one_batch(image: Any) -> Any:
    """Returns an image as a batch of one image."""
    return of_each(lambda array: np.asarray(array)[np.newaxis], image)


def image_sizes(images: Any) -> tuple[int, ...]:
    """Returns the sizes of images along their spatial dimensions; of several inputs, of the one with most dimensions.

    >>> image_sizes({"age": np.zeros((2, 1)), "image": np.zeros((2, 8, 6, 7, 3))})
    (8, 6, 7)
    """
    arrays = images.values() if isinstance(images, Mapping) else [images]
    return tuple(max((array.shape for array in arrays), key=len)[1:-1])


def _inputs_text(images: Any) -> str:
    return f"the inputs {', '.join(images)}" if isinstance(images, Mapping) else "one input"


def of_image(batch: Sequence[slice], regions: Sequence[Region], at: int) -> list[Region]:
    """Returns each process's region of one image of a batch; empty if the process does not compute this image.

    Args:
      batch: the images of the batch that each process computes.
      regions: each process's region of an image.
      at: the index of the image in the batch.
    """
    empty = (slice(0, 0),) * len(regions[0])
    return [
        region if images.start <= at < images.stop else empty for images, region in zip(batch, regions, strict=True)
    ]


def own_image(array: np.ndarray, images: slice, at: int) -> np.ndarray:
    """Returns one image of this process's part of a batch; an empty array if the part does not have it.

    Args:
      array: `[images, ...]`, this process's part.
      images: the images of the batch that the part has.
      at: the index of the image in the batch.
    """
    if images.start <= at < images.stop:
        return array[at - images.start]
    return np.empty((0,) * (array.ndim - 1), array.dtype)


def whole_shape(regions: Sequence[Region]) -> tuple[int, ...]:
    """Returns the shape of the array that the regions of all processes cover."""
    return tuple(max(region[axis].stop for region in regions) for axis in range(len(regions[0])))


def _whole(own: Slices, arrays: object, at: int) -> Prediction:
    """Returns the whole prediction for one image of a batch."""
    if len(own.batch) == 1:
        return of_each(lambda array: array[at], arrays)

    def gathered(array: np.ndarray, regions: Sequence[Region]) -> np.ndarray:
        have, mine = of_image(own.batch, regions, at), own_image(array, own.batch[own.group.index], at)
        return own.group.move(mine, have, [whole_region(whole_shape(regions))] * own.group.num)

    return of_each(gathered, arrays, own.outputs)
