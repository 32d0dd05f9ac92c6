"""`dataset.json`: what a folder of records holds. It is written last, so a folder that has one is complete."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mtf_imaging.data.atomic import write_bytes
from mtf_imaging.data.grid import Grid, format_grid
from mtf_imaging.errors import DataError

FORMAT = 1
_FILE = "dataset.json"


@dataclass(frozen=True)
class Manifest:
    """Contents of a folder of records.

    Attributes:
      resolution: the grid, as `x:64,y:64,z:64`.
      cases: the keys of the cases, in natural order.
      format: version of the records' format.
    """

    resolution: str
    cases: list[str]
    format: int = FORMAT


def record_path(data_dir: str | Path, key: str) -> Path:
    """File of the record of case `key`."""
    return Path(data_dir) / f"case-{key}.tfrecord"


def write_manifest(data_dir: str | Path, manifest: Manifest) -> None:
    """Writes the manifest, whole or not at all."""
    write_bytes(Path(data_dir) / _FILE, (json.dumps(asdict(manifest), indent=1) + "\n").encode())


def read_manifest(data_dir: str | Path) -> Manifest | None:
    """Reads the manifest of a folder of records.

    Returns:
      The manifest, or None where the folder or the manifest does not exist.

    Raises:
      DataError: the manifest is damaged or of another version.
    """
    path = Path(data_dir) / _FILE
    if not path.is_file():
        return None
    try:
        fields = json.loads(path.read_text())
        found = fields["format"]
        if found == FORMAT:
            return Manifest(str(fields["resolution"]), [str(key) for key in fields["cases"]])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is no manifest of records ({error!r}). Fix: convert to a new folder.") from error
    raise DataError(
        f"{path}: records of format {found}, this program reads format {FORMAT}. Fix: convert to a new folder."
    )


def open_records(data_dir: str | Path, grid: Grid | None = None) -> Manifest:
    """Checks that a folder holds a finished set of records.

    Args:
      data_dir: a folder that `convert` wrote.
      grid: the grid that the records must be on, or None for any.

    Returns:
      Its manifest; it names at least one case, and each has its file.

    Raises:
      DataError: the folder is missing, empty, unfinished or incomplete, or its records are on another grid.
    """
    data_dir = Path(data_dir)
    manifest = read_manifest(data_dir)
    if manifest is None or not manifest.cases:
        if not data_dir.is_dir():
            what = "does not exist"
        elif any(data_dir.glob("case-*.tfrecord")):
            what = f"holds records but no {_FILE}: its conversion was not finished"
        else:
            what = "holds no records"
        raise DataError(f"{data_dir}: this folder of records {what}. Fix: run convert with it as the output folder.")
    if grid is not None and manifest.resolution != format_grid(grid):
        raise DataError(
            f"{data_dir}: its records have resolution {manifest.resolution}, asked for was {format_grid(grid)}. "
            f"Fix: ask for {manifest.resolution}, or convert to another folder at {format_grid(grid)}."
        )
    lost = [str(record_path(data_dir, key)) for key in manifest.cases if not record_path(data_dir, key).is_file()]
    if lost:
        raise DataError(
            f"{', '.join(lost)}: named in {_FILE} but missing. Fix: run convert again; it adds what is missing."
        )
    return manifest
