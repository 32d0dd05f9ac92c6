"""The file formats of images, recognized by the endings of file names."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ImageFormat:
    """A file format.

    Attributes:
      name: its name in messages.
      endings: the endings of its files, the longest first.
      shown: these endings in messages.
    """

    name: str
    endings: tuple[str, ...]
    shown: str

    def stem(self, path: Path) -> str | None:
        """Returns the name of a file of this format without its ending, or None for any other file."""
        for ending in self.endings:
            if path.name.endswith(ending):
                return path.name.removesuffix(ending)
        return None


NIFTI = ImageFormat("NIfTI", (".nii.gz", ".nii"), ".nii[.gz]")
PNG = ImageFormat("PNG", (".png",), ".png")
TIFF = ImageFormat("TIFF", (".tiff", ".tif"), ".tif[f]")
OME_ZARR = ImageFormat("OME-Zarr", (".ome.zarr", ".zarr"), ".ome.zarr")
FORMATS = (NIFTI, PNG, TIFF)
ENDINGS = tuple(ending for image_format in FORMATS for ending in reversed(image_format.endings))


def format_by_ending(file_ending: str) -> ImageFormat | None:
    """Returns the format that has a file ending, or None if no format has it.

    >>> format_by_ending(".tif").name
    'TIFF'
    """
    return next((image_format for image_format in FORMATS if file_ending in image_format.endings), None)
