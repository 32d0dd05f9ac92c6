"""The detections in an image at its own size."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mtf_imaging.data.pixels.exif_orientation import Orientation
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.merging import Candidates, merge
from mtf_imaging.kinds.objects.reading.masks import encode_mask, paste_mask
from mtf_imaging.kinds.objects.reading.native import fit
from mtf_imaging.kinds.objects.scoring.detections import BOX_DIGITS, SCORE_DIGITS, Detections

# Maps an image, float32 [height, width, 3] after scaling, to the arrays "boxes", "scores", "classes" and maybe "masks".
Network = Callable[[np.ndarray], Any]
NMS_THRESHOLD = 0.5  # as Detectron2 and the tasks of this package
_FIX = "Fix: return a dict from predict, as ObjectDetection does."


def predict_objects(
    pixels: np.ndarray,
    network: Network,
    description: ObjectDescription,
    size: tuple[int, int],
    scales: Sequence[float] = (1.0,),
    flips: Sequence[str] = (),
    threshold: float = NMS_THRESHOLD,
) -> Detections:
    """Returns the detections in an image, on its own grid.

    For every scale and every combination of flips, the image is mirrored, scaled to fit into the size of the network's
    input times the scale, and padded at its bottom and right. The detections of all runs are merged by non-maximum
    suppression; see `merging.merge`. Boxes are rounded to 3 digits after the decimal point, and scores to 6.

    Args:
      pixels: uint8 `[height, width, 3]`.
      network: a function that maps an image, float32 `[height, width, 3]` after scaling, to a dict of arrays: "boxes"
        `[detections, 4]` in pixels of this image, "scores" `[detections]`, "classes" `[detections]`, and optionally
        "masks" `[detections, rows, columns]`, the probabilities of the mask within the box. A detection with the score
        0 or a negative class is padding.
      description: the categories and the scaling of pixel values.
      size: height and width of the network's input.
      scales: factors of the size.
      flips: names of `PHOTO_AXES`.
      threshold: the intersection over union from which detections of several runs are the same.

    Raises:
      ShapeError: the network returns other arrays.
      DataError: the network returns NaN or infinity.
    """
    axes = [PHOTO_AXES.index(name) for name in flips]
    subsets = [subset for number in range(len(axes) + 1) for subset in itertools.combinations(axes, number)]
    runs, numbers = [], []
    for scale in scales:
        for subset in subsets:
            candidates, number = _run(pixels, network, description, input_size(size, scale), subset)
            runs.append(candidates)
            numbers.append(number)
    height, width = pixels.shape[:2]
    merged = merge(runs, (height, width), threshold, max(numbers))
    masks = None
    if merged.masks is not None:  # a mask fills its box, also beyond the border of the image
        masks = tuple(
            encode_mask(paste_mask(mask, tuple(box), height, width))
            for mask, box in zip(merged.masks, merged.boxes.tolist(), strict=True)
        )
    boxes = np.clip(merged.boxes, 0, np.array([height, width, height, width]))
    return Detections(np.round(boxes, BOX_DIGITS), merged.scores, merged.classes, masks)


def input_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """Returns the height and width of the network's input for a scale.

    >>> input_size((640, 800), 0.75), input_size((640, 800), 1.0)
    ((480, 600), (640, 800))
    """
    height, width = (max(1, round(n * scale)) for n in size)
    return height, width


def _run(
    pixels: np.ndarray, network: Network, description: ObjectDescription, size: tuple[int, int], axes: tuple[int, ...]
) -> tuple[Candidates, int]:
    """Returns the detections of one run in pixels of the image, and their number with the padding.

    Args:
      pixels, network, description: the same as in `predict_objects`.
      size: height and width of the input.
      axes: the axes to mirror.
    """
    height, width = pixels.shape[:2]
    image, factors = fit(np.flip(pixels, axes), size, description)
    arrays = _checked(network(image), len(description.categories))
    scores = np.round(arrays["scores"].astype(np.float64), SCORE_DIGITS)
    classes = np.rint(arrays["classes"]).astype(np.int64)
    order = np.argsort(-scores, kind="stable")
    order = order[(scores[order] > 0) & (classes[order] >= 0)]
    mirror = Orientation(flips_rows=0 in axes, flips_columns=1 in axes)
    boxes = mirror.turn_boxes(arrays["boxes"][order].astype(np.float64) / np.array([*factors, *factors]), height, width)
    masks = arrays["masks"][order] if "masks" in arrays else None
    if masks is not None:
        masks = np.flip(masks, [axis + 1 for axis in axes])
    return Candidates(boxes, scores[order], classes[order], masks), len(scores)


def _checked(result: Any, num_categories: int) -> dict[str, np.ndarray]:
    """Checks the result of a network and returns its arrays."""
    if not isinstance(result, Mapping) or not {"boxes", "scores", "classes"} <= result.keys():
        names = ", ".join(result) if isinstance(result, Mapping) else type(result).__name__
        raise ShapeError(f"the network returned {names}; detections are boxes, scores and classes. {_FIX}")
    arrays = {name: np.asarray(value) for name, value in result.items()}
    count = len(arrays["scores"])
    expected = {"boxes": (count, 4), "scores": (count,), "classes": (count,)}
    if "masks" in arrays:
        expected["masks"] = (count, *arrays["masks"].shape[1:3])
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise ShapeError(
                f"the network returned {name} of shape {arrays[name].shape}; {count} scores need the shape {shape}. "
                f"{_FIX}"
            )
        if not np.isfinite(arrays[name]).all():
            raise DataError(f"the network returned NaN or infinity in {name}. Fix: lower the learning rate.")
    if count and arrays["classes"].max() >= num_categories:
        raise ShapeError(
            f"the network returned the class {int(arrays['classes'].max())}; the data have the classes 0 to "
            f"{num_categories - 1}. Fix: train the network with {num_categories} classes."
        )
    return arrays
