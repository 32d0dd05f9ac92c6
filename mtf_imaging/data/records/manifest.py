"""Reads and writes `dataset.json`, the manifest of a records folder.

The manifest is written last, so a folder with a manifest is complete.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.data.intensities import ChannelStatistics, Intensity
from mtf_imaging.data.modality import is_ct
from mtf_imaging.data.records.formats import ENDINGS, TFRECORD, ZARR, check_format, list_records, record_path
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.buckets import AnySampling, Samplings, format_grids, group_by_grid, parse_any_sampling
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.data.sampling.sampling import Sampling, Spacing, format_spacing, parse_spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.json_file import read_object

FORMAT = 5
# Format 1 has no spacing: its records span the whole field of view. Formats 1 and 2 store only case keys.
# Format 4 has a data set description, channel statistics and possibly several grids. Format 5 names the
# record format. TFRecord files are still written with the formats that earlier releases read: 3 for LiTS on one
# grid, otherwise 4.
_READ = (1, 2, 3, 4, 5)
_FORMAT_OF_LITS, _FORMAT_OF_TFRECORD = 3, 4
_FILE = "dataset.json"
_OPTIONAL = ("channels", "statistics", "grid")
_LABEL_BYTES, _HU_BYTES, _VALUE_BYTES = 1, 2, 4


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
      sources: the origin of each record by case key, in natural order. It is None for records of earlier
        releases, which did not store it.
      description: the channels, intensities, labels and masks; LiTS for records of earlier releases.
      record_format: the file format of the records, "zarr" or "tfrecord".
    """

    sampling: AnySampling
    sources: dict[str, Source | None]
    description: Description = LITS
    record_format: str = ZARR

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
        source = self.sources[key]
        assert source is not None, "records with several grids store the origin of each case"
        return Sampling(source.grid, self.sampling.spacing)

    @property
    def grids(self) -> list[Grid]:
        """The grid of each record, in case order."""
        return [self.case_sampling(key).grid for key in self.sources]

    def record_path(self, data_dir: str | Path, key: str) -> Path:
        """Returns the record path of case `key` in the folder of this manifest."""
        return record_path(data_dir, key, self.record_format)

    def check(self, path: str | Path, key: str, digest: str) -> None:
        """Checks that a record matches the manifest.

        Args:
          path: path of the record.
          key, digest: the case key and the source digest that the record stores.

        Raises:
          DataError: the record belongs to another case, or was created from other files.
        """
        source = self.sources.get(key)
        if Path(path).name != self.record_path("", key).name:
            raise DataError(
                f"{path}: this record contains case '{key}', which does not match its name. "
                "Fix: run convert again; it replaces damaged records."
            )
        if source is not None and source.digest != digest:
            raise DataError(
                f"{path}: this record was not made from the files that {_FILE} names. "
                "Fix: delete it and run convert again."
            )


def is_plain_lits(description: Description) -> bool:
    """Returns whether records have the format of earlier releases, without descriptions and statistics."""
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
    version = _FORMAT_OF_LITS if is_plain else _FORMAT_OF_TFRECORD
    is_earlier = manifest.record_format == TFRECORD
    fields = {
        **({"format": version} if is_earlier else {"format": FORMAT, "record_format": manifest.record_format}),
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
      DataError: the manifest is damaged or has a newer format.
    """
    path = Path(data_dir) / _FILE
    if not path.is_file():
        return None
    fields = read_object(path, "convert to a new folder")
    try:
        version = fields["format"]
        if version in _READ:
            spacing = fields["spacing"] if version > 1 else None
            cases = [_source(case) if version > 2 else (str(case), None) for case in fields["cases"]]
            sources = dict(cases)
            if len(sources) < len(cases):
                raise ValueError("a case is listed twice")
            _check_names(sources)
            description = from_fields(fields, str(path)) if "channel_names" in fields else LITS
            record_format = check_format(fields["record_format"]) if version > _FORMAT_OF_TFRECORD else TFRECORD
            return Manifest(parse_any_sampling(fields["resolution"], spacing), sources, description, record_format)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(f"{path}: not a manifest of records ({error!r}). Fix: convert to a new folder.") from error
    raise DataError(
        f"{path}: the records have format {version}, but this program reads formats 1 to {FORMAT}. "
        "Fix: convert to a new folder."
    )


def _check_names(sources: Mapping[str, Source | None]) -> None:
    """Raises ValueError if a key cannot be part of a file name, or a source has no name."""
    for key, source in sources.items():
        if "/" in key or "\0" in key:
            raise ValueError(f"the case {key!r} has a name with a slash")
        for name in () if source is None else (source.volume, source.labels, *source.channels):
            if not isinstance(name, str) or "\0" in name:
                raise ValueError(f"case '{key}' was made from {name!r}, which is not the name of a file")


def _source(fields: Any) -> tuple[str, Source]:
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
        elif any(list_records(data_dir, record_format) for record_format in ENDINGS):
            what = f"contains records but no {_FILE}, so its conversion is unfinished"
        else:
            what = "contains no records"
        raise DataError(f"{data_dir}: this folder of records {what}. Fix: run convert with this output folder.")
    actual, mm = manifest.sampling, manifest.sampling.spacing if spacing is None else parse_spacing(spacing)
    if isinstance(actual, Samplings) and grid is not None:
        raise DataError(
            f"{data_dir}: the records have {len(actual.grids)} grids, {actual}, but the resolution {format_grid(grid)} "
            "is required. Fix: leave resolution out to use all grids, or convert to another folder with one grid.",
            ["resolution"],
        )
    expected = dataclasses.replace(actual, spacing=mm) if grid is None else Sampling(tuple(grid), mm)
    if expected != actual:
        raise DataError(
            f"{data_dir}: the records have resolution {actual}, not {expected}. "
            f"Fix: set the resolution to {actual}, or convert to another folder at {expected}."
        )
    paths = [manifest.record_path(data_dir, key) for key in manifest.cases]
    _refuse([path for path in paths if not path.exists()], f"named in {_FILE} but missing")
    if manifest.record_format == TFRECORD:
        _check_sizes(manifest, paths)
    return manifest


def _check_sizes(manifest: Manifest, paths: Sequence[Path]) -> None:
    """Checks that uncompressed records are at least as large as their voxels."""
    for size, at in group_by_grid(manifest.grids).items():
        least = voxel_bytes(manifest.description) * math.prod(size)
        short = [paths[number] for number in at if paths[number].stat().st_size < least]
        _refuse(short, f"shorter than the {least} bytes of the voxels")


def _refuse(paths: list[Path], what: str) -> None:
    if paths:
        raise DataError(
            f"{', '.join(map(str, paths))}: {what}. "
            "Fix: run convert again; it adds missing records and replaces damaged ones."
        )
