"""Reads the voxel sizes of files whose headers lack them from a CSV with the columns `case,x,y,z`."""

import csv
import io
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mtf_imaging.data.listing.image_formats import VOLUME_FORMATS
from mtf_imaging.data.listing.names import normalize_name
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.data.sampling.sampling import Spacing, format_spacing
from mtf_imaging.files.reading import Fault, faults_named
from mtf_imaging.files.text_file import read_text

_COLUMNS = ("case", *AXIS_NAMES)
_SAME = 0.01  # relative tolerance for rounded sizes in a table
# `28` for volume-28.nii.gz and segmentation-28.nii; `liver_28` for liver_28.nii.gz and nnU-Net's liver_28_0000.nii.gz
_ENDINGS = "|".join(map(re.escape, VOLUME_FORMATS.endings))
_CASE = re.compile(
    r"(?:(?P<test>test-)?(?:volume|segmentation)-(?P<number>\d+)|(?P<name>.+?)(?:_0000)?)" rf"(?i:{_ENDINGS})?"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpacingTable:
    """A table of voxel sizes by case.

    Attributes:
      sizes: voxel size in mm along the stored axes, by case key: `28` for `volume-28` and
        `segmentation-28`, otherwise the file name without `_0000` and `.nii.gz`.
      path: the CSV, for messages.
    """

    sizes: Mapping[str, Spacing] = field(default_factory=dict)
    path: Path | None = None

    def lookup(self, path: Path) -> Spacing | None:
        """Returns the voxel size of a file in mm, or None if the table does not have a row for it."""
        return self.sizes.get(_case_of(path))

    def missing_row(self, path: Path) -> str:
        """Returns a warning text about a file's missing row, or "" without a table."""
        return f" ({self.path} has no row '{_case_of(path)}')" if self.path else ""

    def check(self, path: Path, spacing: Spacing) -> None:
        """Warns if the voxel sizes in the header and the table differ; the header takes precedence."""
        own = self.lookup(path)
        if own is not None and not all(math.isclose(a, b, rel_tol=_SAME) for a, b in zip(own, spacing, strict=True)):
            shown = ",".join(f"{mm:g}" for mm in spacing)
            what = f"the voxel size is {shown} mm in the header, but {format_spacing(own)} mm in {self.path}"
            _log.warning("%s: %s; the header is used.", path, what)


NO_TABLE = SpacingTable()


def read_spacing_table(path: "str | Path | SpacingTable | None") -> SpacingTable:
    """Reads a table of voxel sizes.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "spacing.csv"
    >>> _ = path.write_text("case,x,y,z\\n28,0.57,0.57,1.6\\n29,0.78,0.78,1.6\\n")
    >>> read_spacing_table(path).lookup(Path("lits/segmentation-28.nii.gz"))
    (0.57, 0.57, 1.6)

    Args:
      path: a CSV whose first line is `case,x,y,z`, or None for an empty table. A `SpacingTable` is returned unchanged.

    Raises:
      DataError: the file is missing or malformed, a case has two rows, or a size is not positive.
    """
    if path is None:
        return NO_TABLE
    if isinstance(path, SpacingTable):
        return path
    path = Path(path)
    sizes: dict[str, Spacing] = {}
    with faults_named(
        path, "write the line 'case,x,y,z', then one row per case with three sizes in mm: 28,0.57,0.57,1.6"
    ):
        rows = csv.DictReader(io.StringIO(read_text(path)), skipinitialspace=True, restval="")
        try:
            rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
            if tuple(rows.fieldnames) != _COLUMNS:
                raise Fault(f"the first line is '{','.join(rows.fieldnames)}', not '{','.join(_COLUMNS)}'")
            for row in rows:
                key, size = _read_row(row, rows.line_num)
                if key in sizes:
                    raise Fault(f"line {rows.line_num}: case '{key}' has a second row", "keep only one row")
                sizes[key] = size
        except csv.Error as error:
            raise Fault(f"this file is not CSV text ({error})", "export the table as CSV in UTF-8") from error
    return SpacingTable(sizes, path)


def _read_row(row, line: int) -> tuple[str, Spacing]:
    words, more = [row[name].strip() for name in _COLUMNS], row.get(None, [])
    try:
        x, y, z = map(float, words[1:])
    except ValueError:
        x = y = z = math.nan
    if not words[0] or more or not all(math.isfinite(mm) and mm > 0 for mm in (x, y, z)):
        raise Fault(f"line {line}: '{','.join([*words, *more])}' is not a case and three positive sizes in mm")
    key = words[0]
    return _case_of(Path(key if key.lower().endswith(VOLUME_FORMATS.endings) else f"{key}.nii")), (x, y, z)


def _case_of(path: Path) -> str:
    name = normalize_name(path.name)
    match = _CASE.fullmatch(name)
    if match is None:
        return name
    return match["name"] or f"{match['test'] or ''}{match['number']}"
