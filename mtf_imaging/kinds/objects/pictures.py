"""Pictures of objects and detections on images, uint8 `[height, width, 3]`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from mtf_imaging.evaluation.report.colors import PALETTE
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.reading.images import Seen
from mtf_imaging.kinds.objects.reading.masks import decode_mask, run_lengths
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.output import shown_size, side_by_side


def category_color(category: int) -> str:
    """Returns the color of a category, such as "#56b4e9"; colors repeat if there are more categories."""
    return PALETTE[category % len(PALETTE)]


def category_rgb(category: int) -> tuple[int, int, int]:
    """Returns the red, green and blue values of a category's color.

    >>> category_color(0), category_rgb(0)
    ('#56b4e9', (86, 180, 233))
    """
    red, green, blue = ImageColor.getrgb(category_color(category))[:3]
    return red, green, blue


_OPACITY = 0.45  # opacity of masks
# What `ImageFont.load_default` returns.
Font = ImageFont.ImageFont | ImageFont.FreeTypeFont
_FONT = 12  # font size in pixels, for pictures of up to 640 pixels a side
_DASH = 4  # dash length in pixels, for the boxes of crowd regions
SHOWN_SCORE = 0.3  # for pictures of predictions, whose best threshold is unknown


@dataclass(frozen=True)
class Drawn:
    """A box with its mask and label, as drawn in a picture.

    Attributes:
      box: y0, x0, y1 and x1 in pixels of the image.
      category: the number of the category, which determines the color.
      label: the text on the box.
      mask: the mask at the image size, run-length encoded as in pycocotools, or None.
      is_crowd: whether it is a crowd region, whose box is dashed.
    """

    box: tuple[float, float, float, float]
    category: int
    label: str
    mask: dict[str, Any] | None = None
    is_crowd: bool = False


def drawn_objects(image: ObjectImage, description: ObjectDescription, masks: bool) -> list[Drawn]:
    """Returns the objects of an image for drawing.

    Args:
      image: the image.
      description: the category names.
      masks: whether to show the masks of the objects that have one.
    """
    return [
        Drawn(
            tuple(one.box),
            one.category,
            description.names[one.category] + (" (crowd)" if one.is_crowd else ""),
            run_lengths(one.segmentation, image.height, image.width)
            if masks and one.segmentation is not None
            else None,
            one.is_crowd,
        )
        for one in image.objects or ()
    ]


def drawn_detections(detections: Detections, description: ObjectDescription, threshold: float = 0.0) -> list[Drawn]:
    """Returns the detections with a minimum score for drawing.

    Args:
      detections: the detections.
      description: the category names.
      threshold: the minimum score.
    """
    return [
        Drawn(
            tuple(detections.boxes[number].tolist()),
            int(category),
            f"{description.names[int(category)]} {score:.2f}",
            None if detections.masks is None else detections.masks[number],
        )
        for number, (category, score) in enumerate(zip(detections.classes, detections.scores, strict=True))
        if score >= threshold
    ]


def draw(pixels: np.ndarray, objects: Iterable[Drawn], max_side: int | None = None) -> np.ndarray:
    """Returns an image with masks, boxes and labels; the first objects are on top.

    Args:
      pixels: uint8 `[height, width, 3]`.
      objects: the boxes, masks and labels to draw.
      max_side: the largest height and width of the picture; None for the image size. Small images are enlarged
        by an integer factor, so that labels do not cover the objects.
    """
    size = pixels.shape[:2]
    shown = _drawn_size(size, max_side) if max_side else size
    factors = shown[0] / size[0], shown[1] / size[1]
    picture = Image.fromarray(pixels)
    if shown != size:
        picture = picture.resize(shown[::-1], Image.Resampling.LANCZOS)
    from_below = [*objects][::-1]
    blended = np.array(picture)
    for one in from_below:
        if one.mask is not None:
            mask = resize_mask(decode_mask(one.mask, *one.mask["size"]), shown)
            color = np.array(category_rgb(one.category), np.float32)
            blended[mask] = np.rint((1 - _OPACITY) * blended[mask] + _OPACITY * color)
    picture = Image.fromarray(blended)
    canvas = ImageDraw.Draw(picture)
    width = max(2, round(max(shown) / 400))
    font = ImageFont.load_default(max(_FONT, round(max(shown) / 50)))
    for one in from_below:
        _draw_box(canvas, one, factors, shown[1], width, font)
    return np.asarray(picture)


def comparison(seen: Seen, description: ObjectDescription, threshold: float = 0.0, max_side: int = 480) -> np.ndarray:
    """Draws the objects and the detections of an image side by side.

    Args:
      seen: the image.
      description: the categories.
      threshold: the minimum score of shown detections.
      max_side: the largest height and width of each of the two pictures; smaller images are enlarged by an integer.
    """
    pixels, image, detections = seen
    truth = drawn_objects(image, description, masks=detections.masks is not None)
    parts = [
        draw(pixels, objects, max_side) for objects in (truth, drawn_detections(detections, description, threshold))
    ]
    return side_by_side(parts)


def resize_mask(mask: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Resizes a mask `[height, width]`, bool; pixels take the value of the nearest pixel."""
    if mask.shape == tuple(size):
        return mask.astype(bool)
    height, width = size
    resized = Image.fromarray(mask.astype(np.uint8)).resize((width, height), Image.Resampling.NEAREST)
    return np.asarray(resized).astype(bool)


def _drawn_size(size: tuple[int, ...], max_side: int) -> tuple[int, int]:
    height, width = shown_size(size, max_side)
    factor = max_side // max(height, width)
    return height * factor, width * factor


def _draw_box(
    canvas: ImageDraw.ImageDraw, one: Drawn, factors: tuple[float, float], right_border: int, width: int, font: Font
) -> None:
    y0, x0, y1, x1 = (value * factors[axis % 2] for axis, value in enumerate(one.box))
    color = category_rgb(one.category)
    if one.is_crowd:
        for start, end in (((x0, y0), (x1, y0)), ((x1, y0), (x1, y1)), ((x1, y1), (x0, y1)), ((x0, y1), (x0, y0))):
            _draw_dashes(canvas, start, end, color, width)
    else:
        canvas.rectangle((x0, y0, max(x0, x1), max(y0, y1)), outline=color, width=width)
    left, top, right, bottom = canvas.textbbox((0, 0), one.label, font=font)
    at_x = max(0, min(x0, right_border - (right - left) - 4))
    at_y = max(0, y0 - (bottom - top) - 4)
    canvas.rectangle((at_x, at_y, at_x + right - left + 4, at_y + bottom - top + 4), fill=color)
    dark_text = 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2] > 128
    canvas.text(
        (at_x + 2 - left, at_y + 2 - top), one.label, fill=(0, 0, 0) if dark_text else (255, 255, 255), font=font
    )


def _draw_dashes(canvas: ImageDraw.ImageDraw, start, end, color, width: int) -> None:
    length = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    count = max(1, round(length / (2 * _DASH)))
    for number in range(count):
        parts = (number / count, (number + 0.5) / count)
        points = [(start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])) for part in parts]
        canvas.line(points, fill=color, width=width)
