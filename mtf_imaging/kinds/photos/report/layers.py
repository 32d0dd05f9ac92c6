"""The pictures of a photo for the report: the photo as JPEG, and transparent layers of classes as PNG."""

import heapq
import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mtf_imaging.kinds.output import jpeg
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.pictures import WRONG, LabeledPhoto, wrong_pixels
from mtf_imaging.kinds.photos.scoring.scores import PhotoScore

MAX_SIDE = 640  # pixels; larger photos are shrunk
MAX_PHOTOS = 40  # in a report; their pictures need about 100 kB each
_QUALITY = 80
_IGNORED = (128, 128, 128)


@dataclass(frozen=True)
class PhotoLayers:
    """The pictures of one photo.

    Attributes:
      size: height and width of all pictures.
      photo: the photo as JPEG.
      layers: `{("reference", 0): PNG, ...}`: the pixels of each class in its color, the rest transparent. Classes
        without pixels are omitted.
      wrong: wrong pixels in red, as PNG; None if there are none.
      ignored: ignored pixels in gray, as PNG; None if there are none.
    """

    size: tuple[int, int]
    photo: bytes
    layers: dict[tuple[str, int], bytes]
    wrong: bytes | None
    ignored: bytes | None


def make_layers(labeled: LabeledPhoto, description: PhotoDescription) -> PhotoLayers:
    """Creates the pictures of a photo with the colors of its classes."""
    photo, prediction, reference = labeled.shrunk(MAX_SIDE)
    layers = {}
    for who, labels in (("reference", reference), ("prediction", prediction)):
        for label, color in enumerate(description.colors):
            mask = labels == label
            if mask.any():
                layers[who, label] = _png(mask, color)
    wrong, ignored = wrong_pixels(prediction, reference, description)
    return PhotoLayers(
        size=photo.shape[:2],
        photo=jpeg(Image.fromarray(photo), _QUALITY),
        layers=layers,
        wrong=_png(wrong, WRONG) if wrong.any() else None,
        ignored=_png(ignored, _IGNORED) if ignored.any() else None,
    )


class WorstPhotos:
    """Collects the pictures of the photos with the lowest mean IoU while photos are scored one after the other.

    Args:
      limit: the number of photos.

    Attributes:
      layers: the pictures by photo key.
    """

    def __init__(self, limit: int = MAX_PHOTOS) -> None:
        self._limit = limit
        self._best_first: list[tuple[float, int, str]] = []
        self._count = 0
        self.layers: dict[str, PhotoLayers] = {}

    def add(self, score: PhotoScore, labeled: LabeledPhoto, description: PhotoDescription) -> None:
        """Adds a photo's pictures if it is among the worst so far; beyond the limit, the best photo's are dropped."""
        self._count += 1
        entry = (-math.inf if score.mean_iou is None else -score.mean_iou, -self._count, score.key)
        is_full = len(self._best_first) >= self._limit
        if is_full and (not self._limit or entry < self._best_first[0]):
            return
        self.layers[score.key] = make_layers(labeled, description)
        if is_full:
            *_, dropped = heapq.heapreplace(self._best_first, entry)
            del self.layers[dropped]
        else:
            heapq.heappush(self._best_first, entry)


def _png(mask: np.ndarray, color: tuple[int, int, int]) -> bytes:
    """Returns a mask as a PNG with 1 bit per pixel: transparent, or the color."""
    picture = Image.fromarray(mask.astype(np.uint8))
    picture.putpalette([0, 0, 0, *color])
    data = io.BytesIO()
    picture.save(data, "PNG", bits=1, transparency=0)
    return data.getvalue()
