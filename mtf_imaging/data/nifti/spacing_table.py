"""Voxel sizes of files that have lost them, from a CSV that the user gives: `case,x,y,z`, in mm."""

import csv
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.data.sampling.sampling import Spacing, format_spacing
from mtf_imaging.errors import DataError

_COLUMNS = ("case", *AXIS_NAMES)
_SAME = 0.01  # what tables round off
# `28` for volume-28.nii.gz and segmentation-28.nii; `liver_28` for itself and for nnU-Net's liver_28_0000.
_CASE = re.compile(r"(?:(?P<test>test-)?(?:volume|segmentation)-(?P<number>\d+)|(?P<name>.+?)(?:_0000)?)\.nii(?:\.gz)?")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpacingTable:
    """Voxel sizes by case.

    Attributes:
      sizes: mm along the axes of the file, in their order there, by the case's key: `28` for `volume-28` and
        `segmentation-28`, else the file's name without `_0000` and `.nii.gz`.
      path: the file that says so, for messages.
    """

    sizes: Mapping[str, Spacing] = field(default_factory=dict)
    path: Path | None = None

    def of(self, path: Path) -> Spacing | None:
        """The voxel size of a file, or None where the table has none."""
        return self.sizes.get(_case_of(path))

    def lacks(self, path: Path) -> str:
        """What to add to a warning that a file's size is not known: the row that the table has not."""
        return f" ({self.path} has no row '{_case_of(path)}')" if self.path else ""

    def check(self, path: Path, spacing: Spacing) -> None:
        """Warns where a file whose header does say its voxel size has another one in the table; the header counts."""
        own = self.of(path)
        if own is not None and not all(math.isclose(a, b, rel_tol=_SAME) for a, b in zip(own, spacing, strict=True)):
            shown = ",".join(f"{mm:g}" for mm in spacing)
            _log.warning(
                "%s: its header says %s mm, %s says %s mm; the header counts.",
                path,
                shown,
                self.path,
                format_spacing(own),
            )


NO_TABLE = SpacingTable()


def read_spacing_table(path: "str | Path | SpacingTable | None") -> SpacingTable:
    """Reads a table.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "spacing.csv"
    >>> _ = path.write_text("case,x,y,z\\n28,0.57,0.57,1.6\\n29,0.78,0.78,1.6\\n")
    >>> read_spacing_table(path).of(Path("lits/segmentation-28.nii.gz"))
    (0.57, 0.57, 1.6)

    Args:
      path: a CSV whose first line is `case,x,y,z`; None for an empty table. A table is returned as it is.

    Raises:
      DataError: it is missing or no such table, or a case has two rows or a size that is not above 0.
    """
    if path is None:
        return NO_TABLE
    if isinstance(path, SpacingTable):
        return path
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such table. Fix: a CSV with the columns {','.join(_COLUMNS)}.")
    sizes = {}
    with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte order mark
        rows = csv.DictReader(file, skipinitialspace=True)
        try:
            rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
            if tuple(rows.fieldnames) != _COLUMNS:
                raise DataError(
                    f"{path}: its first line is '{','.join(rows.fieldnames)}', not '{','.join(_COLUMNS)}'. "
                    "Fix: one row a case, sizes of a voxel in mm."
                )
            for row in rows:
                key, size = _read_row(row, f"{path}: line {rows.line_num}")
                if key in sizes:
                    raise DataError(f"{path}: line {rows.line_num}: a second row of case '{key}'. Fix: keep one.")
                sizes[key] = size
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path}: is no CSV of text ({error}). Fix: export it as CSV, in UTF-8.") from error
    return SpacingTable(sizes, path)


def _read_row(row, where):
    words, more = [row[name] for name in _COLUMNS], row.get(None, [])
    try:
        key, *size = (word.strip() for word in words)
        size = tuple(map(float, size))
    except (AttributeError, ValueError):
        size = ()
    if len(size) != len(AXIS_NAMES) or not all(math.isfinite(mm) and mm > 0 for mm in size) or not key or more:
        raise DataError(
            f"{where}: '{','.join(word or '' for word in words + more)}' is not a case and three sizes above 0 in mm. "
            "Fix: as in '28,0.57,0.57,1.6'."
        )
    return _case_of(Path(key if key.endswith((".nii", ".nii.gz")) else f"{key}.nii")), size


def _case_of(path: Path) -> str:
    match = _CASE.fullmatch(path.name)
    if match is None:
        return path.name
    return match["name"] or f"{match['test'] or ''}{match['number']}"
