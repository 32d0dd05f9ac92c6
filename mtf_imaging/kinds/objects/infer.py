"""Detects objects in an image at its own size."""

import dataclasses
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.pixels.exif_orientation import Orientation
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.inference.network import Prediction
from mtf_imaging.kinds.batches import BatchNetwork, Steps, batch_network, named
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.merging import Candidates, merge
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.reading.images import ReadImage, read_image, stored_detections
from mtf_imaging.kinds.objects.reading.masks import encode_mask, paste_mask
from mtf_imaging.kinds.objects.reading.native import fit
from mtf_imaging.kinds.objects.scoring.detections import BOX_DIGITS, SCORE_DIGITS, Detections
from mtf_imaging.kinds.output import scaled_size

NMS_THRESHOLD = 0.5  # the same as in Detectron2 and this package's tasks


@dataclasses.dataclass(frozen=True)
class ObjectInference:
    """The inference of images with objects, each at its own size.

    For every scale and every combination of flips, the image is mirrored, scaled to fit into the network input size
    times the scale, and padded at its bottom and right. Non-maximum suppression merges the detections of all runs; see
    `merging.merge`. Boxes are rounded to 3 digits after the decimal point, and scores to 6.

    Attributes:
      description: the categories and the scaling of pixel values.
      size: height and width of the network's input.
      scales: factors of the size.
      flips: names of `PHOTO_AXES`.
      threshold: the intersection over union above which detections from several runs count as the same.
    """

    description: ObjectDescription
    size: tuple[int, int]
    scales: Sequence[float] = (1.0,)
    flips: Sequence[str] = ()
    threshold: float = NMS_THRESHOLD

    def steps(
        self, network: Callable[[np.ndarray], Prediction], batch_size: int = 1
    ) -> Steps[ObjectImage, ReadImage, Detections]:
        """Returns the steps from an image to the detections in it, in stored pixel coordinates.

        Args:
          network: a function of one image.
          batch_size: the maximum number of images that are computed together.
        """
        predict = batch_network(network)

        def infer(images: Sequence[ObjectImage], read: Sequence[ReadImage]) -> list[Detections]:
            detections = self.predict([one.pixels for one in read], predict, [image.image for image in images])
            return [stored_detections(own, one.upright) for own, one in zip(detections, read, strict=True)]

        return Steps(operator.attrgetter("image"), read_image, infer, batch_size)

    def predict(
        self, images: Sequence[np.ndarray], network: BatchNetwork, files: Sequence[Path] = ()
    ) -> list[Detections]:
        """Returns the detections in each image, on its own grid.

        Args:
          images: uint8 `[height, width, 3]`, of any sizes.
          network: a function that maps images, float32 `[images, height, width, 3]` after scaling, to a dict of arrays
            for each image: "boxes" `[detections, 4]` in pixels of this image, "scores" `[detections]`, "classes"
            `[detections]`, and optionally "masks" `[detections, rows, columns]`, the probabilities of the mask within
            the box. A detection with the score 0 or a negative class is padding.
          files: the files of the images, for messages.

        Raises:
          ShapeError: the network returns unexpected arrays.
          DataError: the network returns NaN or infinity.
        """
        axes = [PHOTO_AXES.index(name) for name in self.flips]
        subsets = [subset for number in range(len(axes) + 1) for subset in itertools.combinations(axes, number)]
        runs: list[list[Candidates]] = [[] for _ in images]
        number = 0
        for scale, subset in itertools.product(self.scales, subsets):
            own = scaled_size(self.size, scale)
            pairs = [fit(np.flip(pixels, subset), own, self.description) for pixels in images]
            fitted, factors = zip(*pairs, strict=True)
            with named(files, 0):
                results = network(np.stack(fitted))
            for at, result in enumerate(results):
                with named(files, at):
                    arrays = _checked(result, len(self.description.categories))
                runs[at].append(_candidates(arrays, factors[at], images[at].shape[:2], subset))
                number = max(number, len(arrays["scores"]))
        sizes = [one.shape[:2] for one in images]
        return [_on_grid(merge(own, size, self.threshold, number), *size) for own, size in zip(runs, sizes)]


def _candidates(
    arrays: dict[str, np.ndarray], factors: tuple[float, float], size: tuple[int, ...], axes: tuple[int, ...]
) -> Candidates:
    """Returns the detections of one run in pixels of the image.

    Args:
      arrays: the result of the network.
      factors: pixels of the input per pixel of the image, for the height and the width.
      size: height and width of the image.
      axes: the axes that were mirrored.
    """
    scores = np.round(arrays["scores"].astype(np.float64), SCORE_DIGITS)
    classes = np.rint(arrays["classes"]).astype(np.int64)
    order = np.argsort(-scores, kind="stable")
    order = order[(scores[order] > 0) & (classes[order] >= 0)]
    mirror = Orientation(flips_rows=0 in axes, flips_columns=1 in axes)
    boxes = mirror.turn_boxes(arrays["boxes"][order].astype(np.float64) / np.array([*factors, *factors]), *size)
    masks = arrays["masks"][order] if "masks" in arrays else None
    if masks is not None:
        masks = np.flip(masks, [axis + 1 for axis in axes])
    return Candidates(boxes, scores[order], classes[order], masks)


def _on_grid(candidates: Candidates, height: int, width: int) -> Detections:
    """Returns detections with clipped boxes and image-sized masks."""
    masks = None
    if candidates.masks is not None:  # a mask fills its box, even beyond the image border
        masks = tuple(
            encode_mask(paste_mask(mask, tuple(box), height, width))
            for mask, box in zip(candidates.masks, candidates.boxes.tolist(), strict=True)
        )
    boxes = np.clip(candidates.boxes, 0, np.array([height, width, height, width]))
    return Detections(np.round(boxes, BOX_DIGITS), candidates.scores, candidates.classes, masks)


def _checked(result: object, num_categories: int) -> dict[str, np.ndarray]:
    """Checks the result of a network and returns its arrays."""
    arrays = {name: np.asarray(value) for name, value in result.items()} if isinstance(result, Mapping) else {}
    count = len(arrays.get("scores", ()))
    expected = {"boxes": (count, 4), "scores": (count,), "classes": (count,)}
    if "masks" in arrays:
        expected["masks"] = (count, *arrays["masks"].shape[1:3])
    if any(name not in arrays or arrays[name].shape != shape for name, shape in expected.items()):
        shown = ", ".join(f"{name} {[*array.shape]}" for name, array in arrays.items()) or type(result).__name__
        raise ShapeError(
            f"the network returned {shown}; detections are boxes [n, 4], scores [n], classes [n] and, if there are "
            "any, masks [n, rows, columns]. Fix: return a dict of them from predict, as ObjectDetection does."
        )
    for name in expected:
        if not np.isfinite(arrays[name]).all():
            raise DataError(f"the network returned NaN or infinity in {name}. Fix: lower the learning rate.")
    if count and arrays["classes"].max() >= num_categories:
        raise ShapeError(
            f"the network returned the class {int(arrays['classes'].max())}; the data have the classes 0 to "
            f"{num_categories - 1}. Fix: train the network with {num_categories} classes."
        )
    return arrays
