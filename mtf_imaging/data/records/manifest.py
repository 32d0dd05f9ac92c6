"""Names records, and reads and writes `dataset.json`, the manifest of a records folder.

The manifest is written last, so a folder with a manifest is complete.
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.data.intensities.schemes import Intensity
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.modality import is_ct
from mtf_imaging.data.records.chunks import REMAKE
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.buckets import AnySampling, Samplings, format_grids, parse_any_sampling
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.data.sampling.sampling import Sampling, Spacing, format_spacing, parse_spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.contained import contained
from mtf_imaging.files.json_file import read_object

FORMAT = 5
_FILE = "dataset.json"
_PREFIX, _ENDING = "case-", ".ome.zarr"
_OPTIONAL = ("channels", "statistics", "grid")
_LABEL_BYTES, _HU_BYTES, _VALUE_BYTES = 1, 2, 4


def record_name(key: str) -> str:
    """Returns the record name of case `key`."""
    return f"{_PREFIX}{key}{_ENDING}"


def record_path(data_dir: str | os.PathLike, key: str) -> Path:
    """Returns the record path of case `key`.

    Raises:
      DataError: the key leads out of the folder.
      NameTooLong: file systems cannot store the name.
    """
    return contained(data_dir, record_name(key))


def list_records(data_dir: str | os.PathLike) -> list[Path]:
    """Returns the paths of all records in a folder."""
    return list(Path(data_dir).glob(record_name("*")))


@dataclass(frozen=True)
class Source:
    """The origin of a record.

    Attributes:
      digest: digest of the image and segmentation files' contents.
      volume, labels: paths of these files, relative to the folder that was converted; `volume` is the first file of an
        image with one file per channel.
      shape: size of the volume in voxels along x, y, z.
      spacing: voxel size of the volume in mm along x, y, z.
      affine: `[4, 4]`, canonical voxel index -> mm in RAS+.
      axis_codes: direction of each stored axis of the volume, for example `LPS`.
      channels: paths of all files if the image has one file per channel; otherwise empty.
      statistics: the distribution of each channel in the whole case; empty for LiTS.
      grid: size of the record in voxels along x, y, z, if the records have several grids; otherwise empty.
    """

    digest: str
    volume: str
    labels: str
    shape: Grid
    spacing: Spacing
    affine: tuple[tuple[float, ...], ...]
    axis_codes: str
    channels: tuple[str, ...] = ()
    statistics: tuple[ChannelStatistics, ...] = ()
    grid: tuple[int, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Returns the attributes for JSON; those that LiTS on one grid does not use are left out if empty."""
        fields = dict(vars(self))
        for name in _OPTIONAL:
            if not fields[name]:
                del fields[name]
        return fields | ({"statistics": [vars(channel) for channel in self.statistics]} if self.statistics else {})


@dataclass(frozen=True)
class Manifest:
    """The contents of a records folder.

    Attributes:
      sampling: the grid and spacing of all records, or their grids if there are several.
      sources: the origin of each record by case key, in natural order.
      description: the channels, intensities, labels and masks.
    """

    sampling: AnySampling
    sources: dict[str, Source]
    description: Description = LITS

    @property
    def intensities(self) -> tuple[Intensity, ...]:
        """The intensity scheme of each channel."""
        return self.description.intensities

    @property
    def cases(self) -> list[str]:
        """The case keys, in natural order."""
        return list(self.sources)

    def case_sampling(self, key: str) -> Sampling:
        """Returns the grid and spacing of a case's record."""
        if isinstance(self.sampling, Sampling):
            return self.sampling
        return Sampling(self.sources[key].grid, self.sampling.spacing)

    @property
    def grids(self) -> list[Grid]:
        """The grid of each record, in case order."""
        return [self.case_sampling(key).grid for key in self.sources]

    def open_record(self, data_dir: str | os.PathLike, key: str) -> StoredRecord:
        """Opens the record of case `key`, and checks that it matches the manifest.

        Raises:
          DataError: the record is missing, damaged or not a record, has another sampling, belongs to another case, or
            was created from other files.
        """
        record = StoredRecord(record_path(data_dir, key), self.case_sampling(key))
        if record.facts.key != key:
            what = f"this record contains case '{record.facts.key}', which does not match its name"
            raise DataError(f"{record.path}: {what}. {REMAKE}")
        if record.facts.source != self.sources[key].digest:
            what = f"this record was not made from the files that {_FILE} names"
            raise DataError(f"{record.path}: {what}. Fix: delete it and run convert again.")
        return record


def is_plain_lits(description: Description) -> bool:
    """Returns whether records have no description and no statistics, as is the rule for LiTS."""
    return dataclasses.replace(description, file_ending=LITS.file_ending) == LITS


def has_hu(description: Description) -> bool:
    """Returns whether records store Hounsfield units as int16, because a CT is the only channel."""
    return len(description.channels) == 1 and is_ct(description.channels[0])


def voxel_bytes(description: Description) -> int:
    """Returns the bytes of one voxel in a record: the values of all channels and the label."""
    return (_HU_BYTES if has_hu(description) else _VALUE_BYTES * len(description.channels)) + _LABEL_BYTES


def write_manifest(data_dir: str | Path, manifest: Manifest) -> None:
    """Writes the manifest atomically."""
    is_plain = is_plain_lits(manifest.description) and isinstance(manifest.sampling, Sampling)
    fields = {
        "format": FORMAT,
        "resolution": format_grids(manifest.sampling.grids),
        "spacing": format_spacing(manifest.sampling.spacing),
        **({} if is_plain else as_fields(manifest.description)),
    }
    # One line per case keeps the file readable.
    cases = ",\n  ".join(json.dumps({"case": key, **source.fields()}) for key, source in manifest.sources.items())
    head = json.dumps(fields, indent=1).removesuffix("\n}")
    write_bytes(Path(data_dir) / _FILE, f'{head},\n "cases": [\n  {cases}\n ]\n}}\n'.encode())


def read_manifest(data_dir: str | Path) -> Manifest | None:
    """Reads the manifest of a records folder.

    Returns:
      The manifest, or None if the folder or the manifest does not exist.

    Raises:
      DataError: the manifest is damaged or has another format.
    """
    path = Path(data_dir) / _FILE
    if not path.is_file():
        return None
    fields = read_object(path, "convert to a new folder")
    try:
        version = fields["format"]
        if version == FORMAT:
            cases = [_source(case) for case in fields["cases"]]
            sources = dict(cases)
            if len(sources) < len(cases):
                raise ValueError("a case is listed twice")
            _check_names(sources)
            description = from_fields(fields, str(path)) if "channel_names" in fields else LITS
            return Manifest(parse_any_sampling(fields["resolution"], fields["spacing"]), sources, description)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(f"{path}: not a manifest of records ({error!r}). Fix: convert to a new folder.") from error
    what = f"the records have format {version}, but this program reads format {FORMAT}"
    raise DataError(f"{path}: {what}. Fix: convert to a new folder.")


def _check_names(sources: Mapping[str, Source]) -> None:
    """Raises ValueError if a key cannot be part of a file name, or a source has no name."""
    for key, source in sources.items():
        if "/" in key or "\0" in key:
            raise ValueError(f"the case {key!r} has a name with a slash")
        for name in (source.volume, source.labels, *source.channels):
            if not isinstance(name, str) or "\0" in name:
                raise ValueError(f"case '{key}' was made from {name!r}, which is not the name of a file")


def _source(fields: object) -> tuple[str, Source]:
    if not isinstance(fields, dict):
        raise TypeError(f"the case {fields!r} is not an object")
    key = str(fields.pop("case"))
    for name in ("shape", "spacing", "channels", "grid"):
        fields[name] = tuple(fields.get(name, ()))
    numbers = (*fields["shape"], *fields["spacing"], *fields["grid"])
    if not all(isinstance(number, int | float) and 0 < number < math.inf for number in numbers):
        raise ValueError(f"case '{key}' has sizes that are not positive numbers")
    fields["statistics"] = tuple(ChannelStatistics(**channel) for channel in fields.get("statistics", ()))
    return key, Source(**fields | {"affine": tuple(map(tuple, fields["affine"]))})


def open_records(data_dir: str | Path | Subset, grid: Grid | None = None, spacing: str | None = None) -> Manifest:
    """Checks that a folder contains a complete set of records, and returns its manifest.

    Args:
      data_dir: a folder that `convert` wrote, or a subset of its records.
      grid: the required grid of the records, or None for any, including several grids.
      spacing: the required spacing, in the format of `parse_spacing`; "" means the whole field of view, and None
        accepts any spacing.

    Returns:
      The manifest of the folder or of the subset. It names at least one case, and every named record exists.

    Raises:
      DataError: the folder is missing, empty, unfinished or incomplete, or its records have another sampling.
    """
    keys = {*data_dir.keys} if isinstance(data_dir, Subset) else None
    data_dir = Path(data_dir)
    manifest = read_manifest(data_dir)
    if manifest is not None and keys is not None:
        kept = {key: source for key, source in manifest.sources.items() if key in keys}
        manifest = dataclasses.replace(manifest, sources=kept)
    if manifest is None or not manifest.cases:
        if not data_dir.is_dir():
            what = "does not exist"
        elif list_records(data_dir):
            what = f"contains records but no {_FILE}, so its conversion is unfinished"
        else:
            what = "contains no records"
        raise DataError(f"{data_dir}: this folder of records {what}. Fix: run convert with this output folder.")
    actual, mm = manifest.sampling, manifest.sampling.spacing if spacing is None else parse_spacing(spacing)
    if isinstance(actual, Samplings) and grid is not None:
        fix = "leave resolution out to use all grids, or convert to another folder with one grid"
        what = f"the records have {len(actual.grids)} grids, {actual}"
        wanted = f"the resolution {format_grid(grid)} is required"
        raise DataError(f"{data_dir}: {what}, but {wanted}. Fix: {fix}.", ["resolution"])
    expected = dataclasses.replace(actual, spacing=mm) if grid is None else Sampling(tuple(grid), mm)
    if expected != actual:
        fix = f"set the resolution to {actual}, or convert to another folder at {expected}"
        raise DataError(f"{data_dir}: the records have resolution {actual}, not {expected}. Fix: {fix}.")
    paths = [record_path(data_dir, key) for key in manifest.cases]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        what = f"{', '.join(missing)}: named in {_FILE} but missing"
        raise DataError(f"{what}. Fix: run convert again; it adds missing records and replaces damaged ones.")
    return manifest
