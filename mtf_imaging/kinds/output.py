"""The folders and pictures that evaluation and prediction write."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from mtf_imaging.files.atomic import atomic_path

PREDICTIONS, PICTURES, OVERLAYS = "predictions", "pictures", "overlays"


def subfolders(output_dir: Path, files: Iterable[Path]) -> list[str]:
    """Returns the subfolders of an output folder that contain files, relative to the folder."""
    return sorted({str(path.parent.relative_to(output_dir)) for path in files} - {"."})


def write_picture(path: Path, pixels: np.ndarray) -> None:
    """Writes an RGB picture, uint8 `[height, width, 3]`, atomically as PNG."""
    with atomic_path(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG")


def shown_size(size: tuple[int, ...], max_side: int) -> tuple[int, int]:
    """Returns the height and width of a photo whose sides have at most `max_side` pixels.

    >>> shown_size((1024, 2048), 640), shown_size((375, 500), 640)
    ((320, 640), (375, 500))
    """
    factor = min(1.0, max_side / max(size))
    height, width = (max(1, round(n * factor)) for n in size)
    return height, width
