"""Reads the text headers of NRRD and MetaImage files, without SimpleITK."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from mtf_imaging.files.reading import Fault, damage_named

PROVENANCE_KEY = "mtf_imaging_provenance"  # of the header field or key/value pair of our segmentations

_DATA_KEYS = {"datafile", "elementdatafile"}
_MOST_BYTES = 1 << 20  # of a header
_ESCAPES = re.compile(r"\\[n\\]")  # in the pairs of NRRD
_LOCAL = "LOCAL"
_RAW_ENCODINGS = {"raw"}


@dataclasses.dataclass(frozen=True)
class ItkHeader:
    """The text header of a NRRD or MetaImage file.

    Attributes:
      path: the file.
      is_nrrd: whether the file is NRRD.
      fields: the values by key, in lower case and without spaces.
      data: the file of the voxels; `path` itself if they follow the header.
      offset: number of bytes before the voxels in this file.
      pairs: the key/value pairs of a NRRD file, which programs may add.
    """

    path: Path
    is_nrrd: bool
    fields: Mapping[str, str]
    data: Path
    offset: int
    pairs: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_raw(self) -> bool:
        """Whether the voxels are stored without compression, so that each of them has a known place."""
        if self.is_nrrd:
            return self.fields.get("encoding", "").lower() in _RAW_ENCODINGS
        return self.fields.get("compresseddata", "false").lower() not in ("true", "1")

    @property
    def has_directions(self) -> bool:
        """Whether the header states the directions of the axes in the patient."""
        if self.is_nrrd:
            return "space" in self.fields and "spacedirections" in self.fields
        return any(key in self.fields for key in ("transformmatrix", "orientation", "rotation"))

    @property
    def has_size(self) -> bool:
        """Whether the header states the voxel size."""
        keys = ("spacedirections", "spacings") if self.is_nrrd else ("elementspacing", "elementsize")
        return any(key in self.fields for key in keys)


def read_itk_header(path: Path) -> ItkHeader:
    """Reads the header of a NRRD or MetaImage file.

    Args:
      path: a .nrrd, .nhdr, .mha or .mhd file.

    Raises:
      DataError: the file is missing, it has no such header, or the voxels are in several files, or in a file of another
        folder.
    """
    with damage_named(path, "NRRD or MetaImage"):
        with open(path, "rb") as file:
            is_nrrd = file.read(5) == b"NRRD0"
            file.seek(0)
            fields: dict[str, str] = {}
            pairs: dict[str, str] = {}
            while line := file.readline(_MOST_BYTES - file.tell()):
                text = line.decode("utf-8", "replace").strip()
                if is_nrrd and not text:
                    break
                _add_field(fields, pairs, text, is_nrrd)
                if not is_nrrd and ("elementdatafile" in fields or "\0" in text):
                    break
            end = file.tell()
        needed = {"type", "dimension", "sizes"} if is_nrrd else {"ndims", "dimsize", "elementdatafile"}
        if missing := sorted(needed - {key for key, value in fields.items() if value}):
            raise ValueError(f"its header lacks {', '.join(missing)}")
        axes, sizes = (fields[key] for key in (("dimension", "sizes") if is_nrrd else ("ndims", "dimsize")))
        if int(axes) != len(sizes.split()):  # ITK crashes if the number is negative
            raise ValueError(f"it has {axes} axes, but the sizes {sizes}")
        data = _data_file(path, fields)
    return ItkHeader(path, is_nrrd, fields, data, end if data == path else 0, pairs)


def _add_field(fields: dict[str, str], pairs: dict[str, str], text: str, is_nrrd: bool) -> None:
    if text.startswith("#"):
        return
    key, separator, value = text.partition(":" if is_nrrd else "=")
    if is_nrrd and separator and value.startswith("="):
        pairs.setdefault(key, _ESCAPES.sub(lambda escape: "\n" if escape[0] == r"\n" else "\\", value[1:]))
    elif separator:
        fields.setdefault("".join(key.split()).lower(), value.strip())


def _data_file(path: Path, fields: Mapping[str, str]) -> Path:
    name = next((fields[key] for key in _DATA_KEYS if key in fields), _LOCAL)
    if name.upper() == _LOCAL:
        return path
    if name.split()[0:1] == ["LIST"] or "%" in name:
        raise Fault(f"its voxels are in several files ({name})", "store them in one file")
    if Path(name).name != name or name in (".", ".."):
        what = f"its voxels are in the file {name}, which is in another folder"
        raise Fault(what, "move the file next to its header, and name it there without a folder")
    return path.with_name(name)
