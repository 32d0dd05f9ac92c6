"""Converts single cases: writes a case's record, or checks an existing one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.spacing_table import SpacingTable
from mtf_imaging.data.images.voxel_values import any_labeled
from mtf_imaging.data.listing.names import path_in
from mtf_imaging.data.reading.geometry import read_image_geometry
from mtf_imaging.data.records.chunks import clip_chunk
from mtf_imaging.data.records.facts import Facts
from mtf_imaging.data.records.manifest import Source, has_hu, is_plain_lits, record_path, voxel_bytes
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, format_grid, whole_region
from mtf_imaging.data.sampling.regions import ALONG_Z
from mtf_imaging.data.sampling.sampling import Spans, format_spacing
from mtf_imaging.data.sampling.slabs import slab_bytes
from mtf_imaging.errors import DataError
from mtf_imaging.files.case_errors import CaseFaults, case_errors
from mtf_imaging.files.contained import NameTooLong

# Measured by benchmarks/whole_volume.py; includes the histograms of the statistics.
IMPORT_BYTES = 200 << 20
# In slabs of one float32 channel. All channels: source, resampled, and part of the result. One channel
# at a time: the intermediate result.
_SLAB_COPIES_OF_CHANNEL, _SLAB_COPIES = 3, 1
_LAYER_COPIES = 2  # a layer of chunks, and the slab or chunks being encoded


@dataclass(frozen=True)
class Converted:
    """The result of converting a case.

    Attributes:
      source: the origin of the record.
      is_labeled: whether any voxel of the record has a label other than the background or ignore label.
    """

    source: Source
    is_labeled: bool


@dataclass(frozen=True)
class Conversion:
    """The settings of a conversion; its methods can run in any process.

    The methods return an error instead of raising it, so that the other cases are still converted.

    Attributes:
      input_dir: folder of the cases.
      output_dir: folder of the records.
      sampling: resolution and spacing of the records, or their grids if there are several.
      known: voxel sizes of files whose headers lack them.
      description: the channels, labels and masks of the cases.
      chunk: size of a chunk in voxels along x, y, z; None for the default.
    """

    input_dir: Path
    output_dir: Path
    sampling: AnySampling
    known: SpacingTable
    description: Description = LITS
    chunk: Grid | None = None

    def record_path(self, case: Case) -> Path:
        """Returns the record path of a case."""
        return record_path(self.output_dir, case.key)

    def has_record(self, case: Case) -> bool:
        """Returns whether the record of a case exists."""
        try:
            return self.record_path(case).exists()
        except NameTooLong:  # `make` reports it
            return False

    def worker_bytes(self, cases: Iterable[Case]) -> int:
        """Returns the memory in bytes that a process needs to convert any of the cases; reads their headers."""
        most = 1
        for case in cases:
            try:
                geometry = case_geometry(case, self.known, self.description)
            except DataError:  # converting the case reports this
                continue
            spans = self.sampling.spans(geometry.shape, geometry.spacing)
            most = max(most, case_bytes(geometry.shape, spans, self.description, self.chunk))
        return most

    def make(self, case: Case) -> Converted | DataError:
        """Writes the record of a case; returns the result or the error."""
        from mtf_imaging.data.records.make_record import write_case  # imports Zarr, which few need

        try:
            with case_errors(case.volume):
                path = self.record_path(case)
                made = write_case(case, path, self.sampling, self.known, self.description, self.chunk)
                return self._converted(case, made.facts, made.grid, made.is_labeled)
        except DataError as error:
            return error

    def check_existing(self, case: Case) -> Converted | DataError | None:
        """Checks the existing record of a case.

        Returns:
          None if the record must be written again, because it is damaged or belongs to another case.
        """
        try:
            with case_errors(case.volume):
                return self._check_existing(case)
        except DataError as error:
            return error

    def _check_existing(self, case: Case) -> Converted | DataError | None:
        path = self.record_path(case)
        try:
            with case_errors(path):
                record = StoredRecord(path)
                record.check()
                facts, is_labeled = record.facts, self._is_labeled(record)
        except DataError:  # damaged
            return None
        if facts.key != case.key:  # renamed
            return None
        mm = case_geometry(case, self.known, self.description).spacing
        sampling = self.sampling.choose(facts.shape, facts.spacing)
        if record.sampling != sampling:
            what = f"has resolution {record.sampling}, not {sampling}"
        elif facts.is_cropped != self.description.crops_to_nonzero:
            what = f"has {'only the box of the nonzero voxels' if facts.is_cropped else 'the whole image'}"
        elif facts.source != case.digest():
            what = f"was not made from the present {case.volume} and {case.labels}"
        elif (fault := self._fault_of_form(record)) or (fault := self._fault_of_chunk(record)):
            what = fault
        elif facts.spacing != mm:
            old, new = map(format_spacing, (facts.spacing, mm))
            what = f"was made with voxels of {old} mm, but they are now {new} mm"
        else:
            return self._converted(case, facts, record.grid, is_labeled)
        return DataError(f"{path}: this record {what}. Fix: convert to another folder, or delete this one.")

    def _is_labeled(self, record: StoredRecord) -> bool:
        """Returns whether a record has a labeled voxel; reads its chunks layer by layer."""
        layers = ALONG_Z.parts(whole_region(record.grid), record.chunk[2])
        return any(any_labeled(record.labels(layer), self.description) for layer in layers)

    def _fault_of_form(self, record: StoredRecord) -> str:
        """Returns the reason that an existing record's values do not match the description, or ""."""
        names = self.description.channels
        if record.num_channels != len(names) or record.has_hu != has_hu(self.description):
            stored = "HU of one CT" if record.has_hu else f"the values of {record.num_channels} channel(s)"
            return f"has {stored}, but dataset.json names the channel(s) {', '.join(names)}"
        if not is_plain_lits(self.description) and not record.facts.statistics:
            return "has no statistics of its channels, which the description in dataset.json needs"
        return ""

    def _fault_of_chunk(self, record: StoredRecord) -> str:
        """Returns the reason that an existing record's chunks do not match the requested ones, or ""."""
        if self.chunk is None:
            return ""
        wanted = clip_chunk(self.chunk, record.grid)
        return "" if record.chunk == wanted else f"has chunks of {format_grid(record.chunk)}, not {format_grid(wanted)}"

    def _converted(self, case: Case, facts: Facts, grid: Grid, is_labeled: bool) -> Converted:
        has_files = len(case.channels) > 1
        source = Source(
            digest=facts.source,
            volume=path_in(self.input_dir, case.volume),
            labels=path_in(self.input_dir, case.labels),
            shape=facts.shape,
            spacing=facts.spacing,
            affine=tuple(map(tuple, facts.affine.tolist())),
            axis_codes=facts.axis_codes,
            channels=tuple(path_in(self.input_dir, path) for path in case.channels if has_files),
            statistics=facts.statistics,
            grid=grid if len(self.sampling.grids) > 1 else (),
        )
        return Converted(source, is_labeled)


def case_geometry(case: Case, known: SpacingTable, description: Description) -> Geometry:
    """Reads only the image header of a case, for its shape and spacing.

    Raises:
      DataError: the header cannot be used.
    """
    with case_errors(case.volume):
        return read_image_geometry(case.channels, description, known)


def case_geometries(cases: Sequence[Case], known: SpacingTable, description: Description) -> dict[str, Geometry]:
    """Reads the image headers of cases.

    Returns:
      {case key: geometry}.

    Raises:
      DataError: headers cannot be used; all of them are reported.
    """
    geometries, faults = {}, CaseFaults()
    for case in cases:
        with faults.collect(case.key, case.volume):
            geometries[case.key] = case_geometry(case, known, description)
    faults.check(case.key for case in cases)
    return geometries


def case_bytes(shape: Grid, spans: Spans, description: Description, chunk: Grid | None = None) -> int:
    """Estimates the memory in bytes that a process needs to convert one case.

    Args:
      shape: size of the volume in voxels along x, y, z.
      spans: the voxels of the record along x, y, z, in volume coordinates.
      description: the channels of the case.
      chunk: size of a chunk in voxels along x, y, z; None for the default.
    """
    grid = tuple(span.size for span in spans)
    copies = _SLAB_COPIES_OF_CHANNEL * len(description.channels) + _SLAB_COPIES
    slabs = copies * max(slab_bytes(shape, spans, whole_region(grid), axis) for axis in range(3))
    chunk = clip_chunk(chunk, grid)
    layer = max(math.prod(grid) // size * thick for size, thick in zip(grid, chunk, strict=True))
    return IMPORT_BYTES + slabs + _LAYER_COPIES * layer * voxel_bytes(description)
