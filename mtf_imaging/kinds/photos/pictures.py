"""Pictures of labels on photos, uint8 `[height, width, 3]`."""

from typing import NamedTuple

import numpy as np
from PIL import Image

from mtf_imaging.kinds.output import shown_size, side_by_side
from mtf_imaging.kinds.photos.description import PhotoDescription

OPACITY = 0.55
WRONG = (255, 45, 45)  # the color of wrong pixels
_IGNORED = (128, 128, 128)


class LabeledPhoto(NamedTuple):
    """A photo with a prediction and its reference.

    Attributes:
      photo: uint8 `[height, width, 3]`.
      prediction: classes `[height, width]`.
      reference: classes and the ignore label, `[height, width]`.
    """

    photo: np.ndarray
    prediction: np.ndarray
    reference: np.ndarray

    def shrunk(self, max_side: int) -> "LabeledPhoto":
        """Returns the arrays with at most `max_side` pixels along each side."""
        return LabeledPhoto(*(shrink(image, max_side) for image in self))


def overlay(
    photo: np.ndarray, labels: np.ndarray, description: PhotoDescription, opacity: float = OPACITY
) -> np.ndarray:
    """Returns a photo with its class colors; ignored pixels are unchanged.

    Args:
      photo: uint8 `[height, width, 3]`.
      labels: classes and the ignore label, `[height, width]`.
      description: the colors of the classes.
      opacity: the weight of the colors, from 0 to 1.
    """
    colors = np.zeros((256, 3), np.float32)
    weights = np.zeros((256, 1), np.float32)
    number = len(description.classes)
    colors[:number], weights[:number] = description.colors, opacity
    weights[description.ignore_label] = 0
    return _blend(photo, colors[labels], weights[labels])


def difference(labeled: LabeledPhoto, description: PhotoDescription) -> np.ndarray:
    """Returns a grayscale photo in which wrong pixels are red and ignored pixels plain gray."""
    photo, prediction, reference = labeled
    gray = np.repeat(np.asarray(Image.fromarray(photo).convert("L"))[..., np.newaxis], 3, axis=-1)
    wrong, ignored = wrong_pixels(prediction, reference, description)
    colors = np.where(wrong[..., np.newaxis], np.float32(WRONG), np.float32(_IGNORED))
    return _blend(gray, colors, (0.85 * (wrong | ignored))[..., np.newaxis].astype(np.float32))


def wrong_pixels(
    prediction: np.ndarray, reference: np.ndarray, description: PhotoDescription
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the wrong pixels and the ignored pixels of a photo, both bool `[height, width]`."""
    ignored = reference == description.ignore_label
    return (prediction != reference) & ~ignored, ignored


def comparison(labeled: LabeledPhoto, description: PhotoDescription, max_side: int = 320) -> np.ndarray:
    """Draws a photo, its reference, its prediction and their difference side by side.

    Args:
      labeled: the photo.
      description: the classes and their colors.
      max_side: the largest height and width of each of the four pictures; larger photos are shrunk.
    """
    labeled = labeled.shrunk(max_side)
    photo, prediction, reference = labeled
    parts = [
        photo,
        overlay(photo, reference, description),
        overlay(photo, prediction, description),
        difference(labeled, description),
    ]
    return side_by_side(parts)


def shrink(image: np.ndarray, max_side: int) -> np.ndarray:
    """Shrinks an image so that its sides have at most `max_side` pixels, with the same proportions.

    Photos are smoothed; labels take the value of the nearest pixel.

    Args:
      image: uint8 photo `[height, width, 3]` or labels `[height, width]`.
      max_side: the largest height and width.
    """
    height, width = shown_size(image.shape[:2], max_side)
    if (height, width) == image.shape[:2]:
        return image
    how = Image.Resampling.LANCZOS if image.ndim == 3 else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(image).resize((width, height), how))


def _blend(picture: np.ndarray, colors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.rint(picture * (1 - weights) + colors * weights).astype(np.uint8)
