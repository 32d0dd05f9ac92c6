"""Networks whose processes each compute a slice of an image."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import ShapeError
from mtf_imaging.layout.regions import Region
from mtf_imaging.meshes import group as groups
from mtf_imaging.meshes.group import Group
from mtf_imaging.program.program import Program
from mtf_imaging.training.building import building
from mtf_imaging.training.evaluation import Prediction

BUILDING = "building the network"


class ImageSlices(Protocol):
    """The slices of an image, and of its prediction, that the processes compute.

    A region is a tuple of Python slices, one for each dimension: the spatial dimensions, then channels or classes. All
    processes make the same calls.

    Attributes:
      group: the processes.
      inputs: the region of the image `[x, y, z, channels]` that each process passes to `predict`.
      outputs: the region of the prediction `[x, y, z, classes]` that each process receives.
    """

    group: Group
    inputs: Sequence[Region]
    outputs: Sequence[Region]

    def predict(self, image: np.ndarray) -> np.ndarray:
        """Returns the prediction in `outputs[group.index]` for the image in `inputs[group.index]`."""


class ImageNetwork(Protocol):
    """A network as a function of an image, and of the slices of an image."""

    def __call__(self, image: np.ndarray) -> Prediction:
        """Returns the prediction for a whole image, in every process."""

    def slices(self, sizes: Sequence[int]) -> ImageSlices:
        """Returns the slices of an image with these sizes along the spatial dimensions."""


class ProgramNetwork:
    """The network of a program, as a function of one image or of a batch.

    Args:
      program: a program with the input `image`. The dimension `batch` is removed from each result.
      progress: whether the first call shows progress on stderr while the network is built.
    """

    def __init__(self, program: Program, progress: bool = False) -> None:
        self._program, self._batch = program, ProgramBatch(program, progress)

    def __call__(self, image: np.ndarray) -> Prediction:
        return self.predict_batch(image[None])[0]

    def predict_batch(self, images: np.ndarray) -> list[Prediction]:
        """Returns the prediction for each image of a batch, in every process.

        Args:
          images: `[images, ...]`, at most the batch size of the program; the last image fills up a smaller batch.
        """
        missing = max(region[0].stop for region in self._batch.inputs) - len(images)
        filled = np.concatenate([images, np.repeat(images[-1:], missing, axis=0)]) if missing else images
        arrays = self._batch.run(lambda: self._program(image=filled))
        return [tf.nest.map_structure(lambda array, at=at: array[at], arrays) for at in range(len(images))]

    def slices(self, sizes: Sequence[int]) -> ImageSlices:
        batch = self._batch
        inputs = [region[1:] for region in batch.inputs]
        own = [max(region[axis].stop for region in inputs) for axis in range(len(inputs[0]) - 1)]
        if own != [*sizes]:
            raise ShapeError(f"the network takes images of {own} voxels, not {[*sizes]}. Fix: resample the image.")
        outputs = [region[1:] for region in batch.outputs]
        return _Slices(batch.group, inputs, outputs, lambda image: _first(batch.predict(image[None])))


class ProgramBatch:
    """The network of a program for batches of images, of which each process computes a slice.

    It has the attributes of `ImageSlices`, whose regions have the batch as an additional first dimension.

    Args:
      program: a program with the input `image`.
      progress: whether the first call shows progress on stderr while the network is built.
    """

    def __init__(self, program: Program, progress: bool = False) -> None:
        self._program, self._progress = program, progress
        self.inputs: Sequence[Region] = program.regions("image")
        self.outputs = program.output_regions()
        self.group = groups.current() if len(self.inputs) > 1 else groups.ALONE

    def predict(self, image: np.ndarray) -> np.ndarray:
        return self.run(lambda: self._program.call_slices(image=image))

    def run(self, call: Callable[[], Any]) -> Any:
        """Calls the program and returns its results as arrays."""
        # TensorFlow optimizes the graph in the first call.
        with building(BUILDING, progress=self._progress):
            arrays = tf.nest.map_structure(lambda tensor: tensor.numpy(), call())
        self._progress = False
        return arrays


def _first(arrays: Any) -> Any:
    """Returns the results for the first image of a batch."""
    return tf.nest.map_structure(lambda array: array[0], arrays)


class NetworkBySize:
    """A network for images of several sizes.

    Args:
      build: a function that returns the network for the given sizes of the spatial dimensions. It is called when an
          image of these sizes first occurs.
    """

    def __init__(self, build: Callable[[tuple[int, ...]], ImageNetwork]) -> None:
        self._build = functools.cache(build)

    def __call__(self, image: np.ndarray) -> Prediction:
        return self._build(tuple(image.shape[:-1]))(image)

    def predict_batch(self, images: np.ndarray) -> list[Prediction]:
        """Returns the prediction for each image of a batch; see `ProgramNetwork`."""
        network: Any = self._build(tuple(images.shape[1:-1]))
        return network.predict_batch(images)

    def slices(self, sizes: Sequence[int]) -> ImageSlices:
        return self._build(tuple(sizes)).slices(sizes)


class PreparedNetwork:
    """A network with a function that is called before each prediction.

    Args:
      prepare: the function.
      network: the network.
    """

    def __init__(self, prepare: Callable[[], None], network: ImageNetwork) -> None:
        self._prepare, self._network = prepare, network

    def __call__(self, image: np.ndarray) -> Prediction:
        self._prepare()
        return self._network(image)

    def slices(self, sizes: Sequence[int]) -> ImageSlices:
        slices = self._network.slices(sizes)

        def predict(image: np.ndarray) -> np.ndarray:
            self._prepare()
            return slices.predict(image)

        return _Slices(slices.group, slices.inputs, slices.outputs, predict)


@dataclasses.dataclass
class _Slices:
    """See `ImageSlices`."""

    group: Group
    inputs: Sequence[Region]
    outputs: Sequence[Region]
    predict: Callable[[np.ndarray], np.ndarray]
