"""`dataset.json`: what a folder of records holds. It is written last, so a folder that has one is complete."""

import json
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.atomic import write_bytes
from mtf_imaging.data.grid import Grid, format_grid
from mtf_imaging.data.sampling import Sampling, format_spacing, parse_sampling, parse_spacing
from mtf_imaging.errors import DataError

FORMAT = 2
_READ = (1, 2)  # 1 had no spacing: its records all span the whole field of view
_FILE = "dataset.json"


@dataclass(frozen=True)
class Manifest:
    """Contents of a folder of records.

    Attributes:
      sampling: how all of them were sampled.
      cases: the keys of the cases, in natural order.
    """

    sampling: Sampling
    cases: list[str]


def record_path(data_dir: str | Path, key: str) -> Path:
    """File of the record of case `key`."""
    return Path(data_dir) / f"case-{key}.tfrecord"


def write_manifest(data_dir: str | Path, manifest: Manifest) -> None:
    """Writes the manifest, whole or not at all."""
    sampling = manifest.sampling
    fields = {
        "format": FORMAT,
        "resolution": format_grid(sampling.grid),
        "spacing": format_spacing(sampling.spacing),
        "cases": manifest.cases,
    }
    write_bytes(Path(data_dir) / _FILE, (json.dumps(fields, indent=1) + "\n").encode())


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
        if found in _READ:
            spacing = fields["spacing"] if found > 1 else None
            return Manifest(parse_sampling(fields["resolution"], spacing), [str(key) for key in fields["cases"]])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is no manifest of records ({error!r}). Fix: convert to a new folder.") from error
    raise DataError(
        f"{path}: records of format {found}, this program reads formats up to {FORMAT}. Fix: convert to a new folder."
    )


def open_records(data_dir: str | Path, grid: Grid | None = None, spacing: str | None = None) -> Manifest:
    """Checks that a folder holds a finished set of records.

    Args:
      data_dir: a folder that `convert` wrote.
      grid: the grid that the records must be on, or None for any.
      spacing: the spacing that they must have, as `parse_spacing` reads it, "" being the whole field of view; None for
        any.

    Returns:
      Its manifest; it names at least one case, and each has its file.

    Raises:
      DataError: the folder is missing, empty, unfinished or incomplete, or its records are sampled otherwise.
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
    found = manifest.sampling
    asked = Sampling(
        found.grid if grid is None else tuple(grid), found.spacing if spacing is None else parse_spacing(spacing)
    )
    if asked != found:
        raise DataError(
            f"{data_dir}: its records have resolution {found}, asked for was {asked}. "
            f"Fix: ask for {found}, or convert to another folder at {asked}."
        )
    lost = [str(record_path(data_dir, key)) for key in manifest.cases if not record_path(data_dir, key).is_file()]
    if lost:
        raise DataError(
            f"{', '.join(lost)}: named in {_FILE} but missing. Fix: run convert again; it adds what is missing."
        )
    return manifest
