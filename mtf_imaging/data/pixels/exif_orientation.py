"""The EXIF orientation of a picture, which states how to turn the stored pixels upright."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import ExifTags

from mtf_imaging.data.pixels.photo_files import open_photo

Box = tuple[float, float, float, float]


class Orientation(NamedTuple):
    """How to turn stored pixels: first transpose, then mirror.

    Attributes:
      transposed: whether to exchange rows and columns.
      flips_rows: whether to mirror top and bottom afterward.
      flips_columns: whether to mirror left and right afterward.
    """

    transposed: bool = False
    flips_rows: bool = False
    flips_columns: bool = False

    def upright_size(self, height: int, width: int) -> tuple[int, int]:
        """Converts (height, width) of the stored picture to the upright one, or back."""
        return (width, height) if self.transposed else (height, width)

    def turn(self, pixels: np.ndarray) -> np.ndarray:
        """Turns stored pixels or a stored mask, `[height, width, ...]`, upright."""
        if self.transposed:
            pixels = pixels.swapaxes(0, 1)
        return np.flip(pixels, self._flipped)

    def turn_back(self, pixels: np.ndarray) -> np.ndarray:
        """Turns upright pixels or an upright mask, `[height, width, ...]`, back to the stored orientation."""
        pixels = np.flip(pixels, self._flipped)
        return pixels.swapaxes(0, 1) if self.transposed else pixels

    def turn_boxes(self, boxes: np.ndarray, height: int, width: int) -> np.ndarray:
        """Converts boxes in a stored picture to boxes in the upright one.

        Args:
          boxes: `[..., 4]`, y0, x0, y1, x1 in pixels.
          height, width: the size of the upright picture.
        """
        return self._flip(self._exchange(boxes), height, width)

    def turn_boxes_back(self, boxes: np.ndarray, height: int, width: int) -> np.ndarray:
        """Converts boxes in an upright picture of this height and width to boxes in the stored one."""
        return self._exchange(self._flip(boxes, height, width))

    @property
    def _flipped(self) -> tuple[int, ...]:
        return tuple(axis for axis, flips in enumerate((self.flips_rows, self.flips_columns)) if flips)

    def _exchange(self, boxes: np.ndarray) -> np.ndarray:
        return boxes[..., [1, 0, 3, 2]] if self.transposed else boxes

    def _flip(self, boxes: np.ndarray, height: int, width: int) -> np.ndarray:
        flipped = np.array(boxes)
        for axis in self._flipped:
            length = (height, width)[axis]
            flipped[..., axis], flipped[..., axis + 2] = length - boxes[..., axis + 2], length - boxes[..., axis]
        return flipped


UPRIGHT = Orientation()
# {value of the EXIF tag: orientation}.
_ORIENTATIONS = {
    1: UPRIGHT,
    2: Orientation(flips_columns=True),
    3: Orientation(flips_rows=True, flips_columns=True),
    4: Orientation(flips_rows=True),
    5: Orientation(transposed=True),
    6: Orientation(transposed=True, flips_columns=True),
    7: Orientation(transposed=True, flips_rows=True, flips_columns=True),
    8: Orientation(transposed=True, flips_rows=True),
}


def exif_orientation(path: str | Path) -> Orientation:
    """Returns the orientation of a photo, and reads only the header of the file.

    Pillow turns TIFF files when it reads them, so they are already upright.

    Raises:
      DataError: the file is missing, is damaged or has the wrong format.
    """
    with open_photo(Path(path)) as picture:
        if picture.format == "TIFF":
            return UPRIGHT
        return _ORIENTATIONS.get(picture.getexif().get(ExifTags.Base.Orientation, 1), UPRIGHT)
