"""The detections in an image at its own size."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.masks import encode_mask, paste_mask
from mtf_imaging.kinds.objects.reading.native import fit, to_native
from mtf_imaging.kinds.objects.scoring.detections import BOX_DIGITS, SCORE_DIGITS, Detections

# Maps an image, float32 [height, width, 3] after scaling, to the arrays "boxes", "scores", "classes" and maybe "masks".
Network = Callable[[np.ndarray], Any]
_FIX = "Fix: return a dict from predict, as ObjectDetection does."


def predict_objects(
    pixels: np.ndarray, network: Network, description: ObjectDescription, size: tuple[int, int]
) -> Detections:
    """Returns the detections in an image, on its own grid.

    The image is scaled to fit into the size of the network's input, and padded at its bottom and right. Boxes are
    rounded to 3 digits after the decimal point, and scores to 6.

    Args:
      pixels: uint8 `[height, width, 3]`.
      network: a function that maps an image, float32 `[height, width, 3]` after scaling, to a dict of arrays: "boxes"
        `[detections, 4]` in pixels of this image, "scores" `[detections]`, "classes" `[detections]`, and optionally
        "masks" `[detections, rows, columns]`, the probabilities of the mask within the box. A detection with the score
        0 or a negative class is padding.
      description: the categories and the scaling of pixel values.
      size: height and width of the network's input.

    Raises:
      ShapeError: the network returns other arrays.
      DataError: the network returns NaN or infinity.
    """
    height, width = pixels.shape[:2]
    image, scale = fit(pixels, size, description)
    arrays = _checked(network(image), len(description.categories))
    scores = np.round(arrays["scores"].astype(np.float64), SCORE_DIGITS)
    classes = np.rint(arrays["classes"]).astype(np.int64)
    order = np.argsort(-scores, kind="stable")
    order = order[(scores[order] > 0) & (classes[order] >= 0)]
    boxes = arrays["boxes"][order].astype(np.float64)
    masks = None
    if "masks" in arrays:
        whole = boxes / np.array([*scale, *scale])  # a mask fills its box, also beyond the border of the image
        masks = tuple(
            encode_mask(paste_mask(mask, tuple(box), height, width))
            for mask, box in zip(arrays["masks"][order], whole.tolist(), strict=True)
        )
    boxes = np.round(to_native(boxes, scale, height, width), BOX_DIGITS)
    return Detections(boxes, scores[order], classes[order], masks)


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
