"""Object masks: decodes and encodes them with pycocotools, crops them to boxes, and pastes them into images."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pycocotools import mask as coco_mask

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.instances import Segmentation
from mtf_imaging.kinds.objects.reading.interpolation import interpolate, neighbors


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
