"""Names the image formats that this program cannot read, and the tools that convert them."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.data.listing.image_formats import NIFTI, ImageFormat
from mtf_imaging.plain_text import some

_NIBABEL, _GUNZIP = "nibabel (load, save)", "gzip, after unpacking it"


class Foreign(NamedTuple):
    """A format that this program cannot read.

    Attributes:
      name: its name.
      target: the format to which it should be converted.
      tool: a tool that converts it.
    """

    name: str
    target: str
    tool: str


_TO_NIFTI, _TO_PNG = "NIfTI", "PNG"
_COMPRESSED = {"bz2": "bzip2", "zst": "Zstandard", "xz": "xz", "zip": "ZIP"}
_PICTURES = ("bmp", "webp", "gif", "heic", "avif", "jp2", "jfif")
_FORMATS = {
    **dict.fromkeys((".img", ".hdr", ".img.gz"), Foreign("Analyze or a pair of NIfTI files", _TO_NIFTI, _NIBABEL)),
    ".mnc": Foreign("MINC", _TO_NIFTI, _NIBABEL),
    **{f".nii.{end}": Foreign(f"NIfTI in {name}", _TO_NIFTI, _GUNZIP) for end, name in _COMPRESSED.items()},
    **{f".{end}": Foreign(end.upper(), _TO_PNG, "Pillow") for end in _PICTURES},
}


def foreign_format(name: str) -> Foreign | None:
    """Returns the foreign format of a file, by its ending.

    >>> foreign_format("a/CT_1.MNC").name, foreign_format(".img").name, foreign_format("a.nii.gz")
    ('MINC', 'Analyze or a pair of NIfTI files', None)
    """
    lower = name.lower()
    endings = sorted(_FORMATS, key=len, reverse=True)
    return next((_FORMATS[ending] for ending in endings if lower.endswith(ending)), None)


def foreign_files(names: Iterable[str], image_format: ImageFormat) -> list[str]:
    """Returns the names of files that could be converted to a format: volumes or photos in other formats."""
    target = (
        _TO_NIFTI if NIFTI.endings[0] in image_format.endings else _TO_PNG if ".jpg" in image_format.endings else None
    )
    found = ((name, foreign_format(name)) for name in names if not name.startswith("."))
    return [name for name, foreign in found if foreign is not None and foreign.target == target]


def how_to_convert(names: Iterable[str]) -> str:
    """Returns a fix that converts files in other formats, or "" if there are no such files."""
    foreign = dict.fromkeys(one for name in names if (one := foreign_format(name)) is not None)
    return "; ".join(f"convert {one.name} to {one.target}, for instance with {one.tool}" for one in foreign)


def skipped_text(paths: Iterable[Path]) -> str:
    """Returns text about files in foreign formats, such as "2 file(s) in other formats (a.mnc, b.mnc)"."""
    names = [path.name for path in sorted(paths)]
    return f"{len(names)} file(s) in other formats ({some(names)})"
