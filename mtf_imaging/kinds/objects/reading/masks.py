"""Object masks: decodes and encodes them with pycocotools, crops them to boxes, and pastes them into images."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pycocotools import mask as coco_mask

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.instances import Segmentation


class Neighbors(NamedTuple):
    """The pixels around positions on one axis.

    Attributes:
      before, after: the index of the pixel on each side; equal beyond the border.
      weight: float32, the weight of the pixel after the position.
    """

    before: np.ndarray
    after: np.ndarray
    weight: np.ndarray


def neighbors(positions: np.ndarray, length: int) -> Neighbors:
    """Returns the pixels around positions on one axis.

    Args:
      positions: `[n]`, in pixels; the center of pixel i is at i. Positions beyond the border are moved to it.
      length: pixels of the axis.
    """
    inside = np.clip(positions, 0, length - 1)
    before = np.floor(inside).astype(np.int64)
    return Neighbors(before, np.minimum(before + 1, length - 1), (inside - before).astype(np.float32))


def interpolate(image: np.ndarray, rows: Neighbors, columns: Neighbors) -> np.ndarray:
    """Interpolates an image linearly.

    Args:
      image: `[height, width, ...]`.
      rows, columns: the positions of the result.

    Returns:
      float32 `[rows, columns, ...]`.
    """
    channels = (1,) * (image.ndim - 2)
    across = columns.weight.reshape(1, -1, *channels)

    def line(at: np.ndarray) -> np.ndarray:
        left, right = (image[np.ix_(at, one)].astype(np.float32) for one in (columns.before, columns.after))
        return left + (right - left) * across

    above = line(rows.before)
    return above + (line(rows.after) - above) * rows.weight.reshape(-1, 1, *channels)


def run_lengths(segmentation: Segmentation, height: int, width: int) -> dict[str, Any]:
    """Returns a segmentation as a compressed run-length encoding for pycocotools; see `encode_mask`.

    Args:
      segmentation: polygons, or a run-length encoding, compressed or not.
      height, width: the image size.

    Raises:
      DataError: the encoding does not have the image size.
    """
    if not isinstance(segmentation, dict):
        return _as_json(coco_mask.merge(coco_mask.frPyObjects([*segmentation], height, width)))
    counts = segmentation["counts"]
    _check_total(counts if isinstance(counts, list) else _runs(counts), segmentation["size"], height, width)
    if isinstance(counts, list):
        return _as_json(coco_mask.frPyObjects(segmentation, height, width))
    return _as_json(segmentation)


def decode_mask(segmentation: Segmentation, height: int, width: int) -> np.ndarray:
    """Returns a segmentation as bool `[height, width]`; see `run_lengths`."""
    # pycocotools.mask.decode has the same result, but does not check the encoding, and uses a NumPy interface
    # that will be removed.
    encoded = segmentation if isinstance(segmentation, dict) else run_lengths(segmentation, height, width)
    counts = encoded["counts"]
    runs = counts if isinstance(counts, list) else _runs(counts)
    _check_total(runs, encoded["size"], height, width)
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height).T


def encode_mask(mask: np.ndarray) -> dict[str, Any]:
    """Returns a mask, bool `[height, width]`, as {"size": [height, width], "counts": text} for COCO's JSON files."""
    return _as_json(coco_mask.encode(np.asfortranarray(mask, np.uint8)))


def crop_mask(mask: np.ndarray, box: tuple[float, float, float, float], size: int) -> np.ndarray:
    """Crops a mask to a box with a fixed size, as a training target.

    The values at the centers of `size` x `size` bins are interpolated linearly between the centers of the mask's
    pixels. Beyond the border of the mask, the nearest values are used.

    Args:
      mask: `[height, width]`.
      box: y0, x0, y1, x1 in pixels of the mask.
      size: height and width of the result.

    Returns:
      float32 `[size, size]` in 0..1.
    """
    rows, columns = (
        neighbors(low + (np.arange(size) + 0.5) * ((high - low) / size) - 0.5, length)
        for low, high, length in zip(box[:2], box[2:], mask.shape)
    )
    return interpolate(mask, rows, columns)


def paste_mask(
    probabilities: np.ndarray,
    box: tuple[float, float, float, float],
    height: int,
    width: int,
    threshold: float = 0.5,
) -> np.ndarray:
    """Pastes a predicted mask into its image.

    The mask is interpolated linearly at the centers of the pixels, between the centers of its bins and zeros around
    them, as in Detectron2's `paste_masks_in_image` (`grid_sample` with `align_corners=False`). torchvision and
    TF-vision also pad masks with zeros, but first round the box to whole pixels.

    Args:
      probabilities: `[rows, columns]`, the mask within the box.
      box: y0, x0, y1, x1 in pixels of the image.
      height, width: the image size.
      threshold: the lowest probability at which a pixel belongs to the object.

    Returns:
      bool `[height, width]`. With a threshold of 0.5 or more, all pixels outside of the box are False.
    """
    pasted = np.zeros((height, width), bool)
    ranges, around = [], []
    for low, high, length, count in zip(box[:2], box[2:], (height, width), probabilities.shape, strict=True):
        margin = (high - low) / count / 2  # half a bin, over which the probability falls to 0
        first, end = np.ceil(low - margin - 0.5), np.floor(high + margin - 0.5) + 1
        inside = np.arange(max(0, int(first)), min(length, int(end)))
        if not inside.size or high <= low:
            return pasted
        ranges.append(slice(inside[0], inside[-1] + 1))
        around.append(neighbors((inside + 0.5 - low) * (count / (high - low)) + 0.5, count + 2))
    pasted[tuple(ranges)] = interpolate(np.pad(probabilities, 1), *around) >= threshold
    return pasted


def _as_json(encoded: dict[str, Any]) -> dict[str, Any]:
    counts = encoded["counts"]
    text = counts.decode("ascii") if isinstance(counts, bytes) else counts
    return {"size": [int(n) for n in encoded["size"]], "counts": text}


def _runs(counts: str | bytes) -> list[int]:
    """Returns the run lengths in a compressed encoding.

    A number has five bits per character, lowest bits first, and the sixth bit of a character states whether the
    number continues. From the fourth number on, numbers are stored as the difference from the number two positions
    earlier.
    """
    runs: list[int] = []
    value = shift = 0
    for code in counts if isinstance(counts, bytes) else counts.encode("ascii"):
        bits = code - 48
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


def _check_total(runs: list[int], size: Sequence[int], height: int, width: int) -> None:
    if [*size] != [height, width] or sum(runs) != height * width or min(runs) < 0:
        raise DataError(
            f"a run-length encoding of {sum(runs)} pixels of the size {[*size]} (height, width) does not fit an image "
            f"of {height} x {width} pixels. Fix: encode the mask again."
        )
