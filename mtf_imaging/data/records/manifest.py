"""`dataset.json`: what a folder of records holds. It is written last, so a folder that has one is complete."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.data.sampling.sampling import Sampling, Spacing, format_spacing, parse_sampling, parse_spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes

FORMAT = 3
# 1 had no spacing: its records all span the whole field of view. Up to 2 the cases were their keys alone.
_READ = (1, 2, 3)
_FILE = "dataset.json"
VOXEL_BYTES = 3  # of HU and label


@dataclass(frozen=True)
class Source:
    """What a record was made from.

    Attributes:
      digest: of the bytes of the volume's and the segmentation's files.
      volume, labels: the names of these files, within the folder that was converted.
      shape: voxels of the volume along x, y, z.
      spacing: their size in mm.
      affine: `[4, 4]`, canonical voxel index -> mm in RAS+.
      axis_codes: the axes of the volume's file, for instance `LPS`.
    """

    digest: str
    volume: str
    labels: str
    shape: Grid
    spacing: Spacing
    affine: tuple[tuple[float, ...], ...]
    axis_codes: str


@dataclass(frozen=True)
class Manifest:
    """Contents of a folder of records.

    Attributes:
      sampling: how all of them were sampled.
      sources: by the keys of the cases, in natural order; None for those of earlier releases, which did not say.
    """

    sampling: Sampling
    sources: dict[str, Source | None]

    @property
    def cases(self) -> list[str]:
        """The keys of the cases, in natural order."""
        return list(self.sources)

    def check(self, path: str | Path, key: str, digest: str) -> None:
        """Checks that a record is the one that the manifest speaks of.

        Args:
          path: its file.
          key, digest: what the record says that it was made from.

        Raises:
          DataError: it is of another case, or was made from other files.
        """
        source = self.sources.get(key)
        if Path(path).name != record_path("", key).name:
            what = f"of case '{key}', which its name denies"
        elif source is not None and source.digest != digest:
            what = f"made from other files than {_FILE} says"
        else:
            return
        raise DataError(f"{path}: is a record {what}. Fix: delete it and run convert again.")


def record_path(data_dir: str | Path, key: str) -> Path:
    """File of the record of case `key`."""
    return Path(data_dir) / f"case-{key}.tfrecord"


def write_manifest(data_dir: str | Path, manifest: Manifest) -> None:
    """Writes the manifest, whole or not at all."""
    fields = {
        "format": FORMAT,
        "resolution": format_grid(manifest.sampling.grid),
        "spacing": format_spacing(manifest.sampling.spacing),
    }
    # A line a case, so that people can read it.
    cases = ",\n  ".join(json.dumps({"case": key, **vars(source)}) for key, source in manifest.sources.items())
    head = json.dumps(fields, indent=1).removesuffix("\n}")
    write_bytes(Path(data_dir) / _FILE, f'{head},\n "cases": [\n  {cases}\n ]\n}}\n'.encode())


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
            sources = dict(_source(case) if found > 2 else (str(case), None) for case in fields["cases"])
            return Manifest(parse_sampling(fields["resolution"], spacing), sources)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is no manifest of records ({error!r}). Fix: convert to a new folder.") from error
    raise DataError(
        f"{path}: records of format {found}, this program reads formats up to {FORMAT}. Fix: convert to a new folder."
    )


def _source(fields: dict) -> tuple[str, Source]:
    key = str(fields.pop("case"))
    for name in ("shape", "spacing"):
        fields[name] = tuple(fields[name])
    return key, Source(**fields | {"affine": tuple(map(tuple, fields["affine"]))})


def open_records(data_dir: str | Path | Subset, grid: Grid | None = None, spacing: str | None = None) -> Manifest:
    """Checks that a folder holds a finished set of records.

    Args:
      data_dir: a folder that `convert` wrote, or some of its records.
      grid: the grid that the records must be on, or None for any.
      spacing: the spacing that they must have, as `parse_spacing` reads it, "" being the whole field of view; None for
        any.

    Returns:
      Its manifest, that of these records; it names at least one case, and each has its file.

    Raises:
      DataError: the folder is missing, empty, unfinished or incomplete, or its records are sampled otherwise.
    """
    keys = {*data_dir.keys} if isinstance(data_dir, Subset) else None
    data_dir = Path(data_dir)
    manifest = read_manifest(data_dir)
    if manifest is not None and keys is not None:
        manifest = Manifest(manifest.sampling, {key: of for key, of in manifest.sources.items() if key in keys})
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
    paths = [record_path(data_dir, key) for key in manifest.cases]
    _refuse([path for path in paths if not path.is_file()], "named in dataset.json but missing")
    least = VOXEL_BYTES * math.prod(found.grid)
    _refuse([path for path in paths if path.stat().st_size < least], f"shorter than the {least} bytes of its voxels")
    return manifest


def _refuse(paths: list[Path], what: str) -> None:
    if paths:
        raise DataError(
            f"{', '.join(map(str, paths))}: {what}. Fix: run convert again; it makes what is missing or damaged."
        )
