"""Opens image files of any size with Pillow.

`PIL.Image.open` refuses images of more than 179 megapixels, because a small file can claim any size. Here, the file
size and the memory budget bound the image size instead. Pillow's own limit, a variable of its module, does not
change for the rest of the program. Only PNG, JPEG and TIFF files are opened, whatever their names: Pillow has further
formats, one of which runs Ghostscript.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError
from PIL.JpegImagePlugin import jpeg_factory
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile

from mtf_imaging.files.memory import INFLATED, check_room
from mtf_imaging.files.reading import Fault, damage_named, memory_named

_STRIP = 1 << 22  # pixels
_ORIENTATION, _TURNED = 0x0112, range(5, 9)  # the tag of a TIFF file, and the values that swap height and width


class _LargeTiff(TiffImageFile):
    """A TIFF file without Pillow's limit, which would apply when the pixels are loaded."""

    def load_prepare(self) -> None:
        if self.tag_v2.get(_ORIENTATION) in _TURNED:
            super().load_prepare()  # the stored picture and the image differ in size
        else:
            ImageFile.ImageFile.load_prepare(self)


# By the first bytes of a file: the function that opens it, and the largest number of pixels per byte. A byte of a PNG
# file expands to at most 1032 bytes of 8 pixels each. A JPEG file stores at least one bit per block of 8 x 8 pixels.
# Some TIFF formats store an empty row in one bit.
_FORMATS: tuple[tuple[tuple[bytes, ...], Callable[[Path], Image.Image], int], ...] = (
    ((b"\x89PNG\r\n\x1a\n",), PngImageFile, 8 * INFLATED),
    ((b"\xff\xd8\xff",), jpeg_factory, 8 * INFLATED),
    ((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), _LargeTiff, 100_000),
)
_LONGEST = 8  # bytes of these signatures


@contextmanager
def open_picture_file(path: Path, fix: str) -> Iterator[Image.Image]:
    """Yields an open image with one page; its pixels are read when they are needed.

    Args:
      path: the file.
      fix: the fix, if the file is damaged or has another format.

    Raises:
      DataError: the path does not name a PNG, JPEG or TIFF file; the file is damaged, has several pages, or is too
        small for the size that it declares; or the image does not fit into the memory of this machine.
    """
    with memory_named(path), damage_named(path, "an image", fix):
        with open(path, "rb") as file:
            start = file.read(_LONGEST)
        opener = next((each for each in _FORMATS if start.startswith(each[0])), None)
        if opener is None:
            raise UnidentifiedImageError("its first bytes are not those of a PNG, JPEG or TIFF file")
        _, make, most = opener
        with make(path) as picture:
            _check_size(picture, path, most)
            pages = getattr(picture, "n_frames", 1)
            if pages > 1 and picture.format != "MPO":  # the pictures after the first one of an MPO are previews
                raise Fault(f"has {pages} pages, not one", "store one picture per file, or convert it to NIfTI")
            yield picture


def read_pixels(picture: Image.Image, box: tuple[int, int, int, int] | None = None, mode: str = "") -> np.ndarray:
    """Returns the pixels of a picture, which are copied and converted in strips, to take little memory.

    Args:
      picture: the picture.
      box: a region as (left, top, right, bottom); None for all pixels.
      mode: Pillow's mode of the result; "" for that of the picture.
    """
    left, top, right, bottom = box or (0, 0, *picture.size)
    rows, result = max(1, _STRIP // (right - left)), np.empty(0)
    for start in range(top, bottom, rows):
        strip = picture.crop((left, start, right, min(start + rows, bottom)))
        values = np.asarray(strip.convert(mode) if mode else strip)
        if start == top:
            result = np.empty((bottom - top, *values.shape[1:]), values.dtype)
        result[start - top : start - top + rows] = values
    return result


def _check_size(picture: Image.Image, path: Path, most: int) -> None:
    pixels, size, bands = picture.width * picture.height, path.stat().st_size, len(picture.getbands())
    if picture.info.get("compression") == "raw":  # of TIFF
        most = 1 if bands > 1 else 8  # values of one byte, or of one bit
        pixels *= bands if bands > 1 else 1
    declared = f"{picture.width} x {picture.height} pixels"
    # Pillow stores up to 4 bytes per pixel, and as many of a turned picture; the result needs up to 3.
    check_room(declared, pixels, size, most, 11 * picture.width * picture.height)
