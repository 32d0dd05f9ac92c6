"""Converts single cases: writes a case's record, or checks an existing one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.spacing_table import SpacingTable
from mtf_imaging.data.images.voxel_values import any_labeled
from mtf_imaging.data.listing.names import path_in
from mtf_imaging.data.reading.channels import read_image_geometry
from mtf_imaging.data.reading.images import read_geometry
from mtf_imaging.data.records.formats import ZARR, clip_chunk, record_path
from mtf_imaging.data.records.manifest import Source, has_hu, is_plain_lits
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, format_grid, whole_region
from mtf_imaging.data.sampling.regions import ALONG_Z
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.case_errors import CaseFaults, case_errors
from mtf_imaging.files.contained import NameTooLong

if TYPE_CHECKING:
    from mtf_imaging.data.records.record import Facts
    from mtf_imaging.data.records.stored import StoredRecord


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

    The methods return an error instead of raising it, so that the other cases are still converted. Importing TensorFlow
    takes seconds, so the methods import it, only in processes that work on cases.

    Attributes:
      input_dir: folder of the cases.
      output_dir: folder of the records.
      sampling: resolution and spacing of the records, or their grids if there are several.
      known: voxel sizes of files whose headers lack them.
      description: the channels, labels and masks of the cases.
      record_format: the file format of the records, "zarr" or "tfrecord".
      chunk: size of a chunk in voxels along x, y, z; None for the default.
    """

    input_dir: Path
    output_dir: Path
    sampling: AnySampling
    known: SpacingTable
    description: Description = LITS
    record_format: str = ZARR
    chunk: Grid | None = None

    def record_path(self, case: Case) -> Path:
        """Returns the record path of a case."""
        return record_path(self.output_dir, case.key, self.record_format)

    def has_record(self, case: Case) -> bool:
        """Returns whether the record of a case exists."""
        try:
            return self.record_path(case).exists()
        except NameTooLong:  # `make` reports it
            return False

    def worker_bytes(self, cases: Iterable[Case]) -> int:
        """Returns the memory in bytes that a process needs to convert any of the cases; reads their headers."""
        from mtf_imaging.data.records.case_memory import case_bytes

        most = 1
        for case in cases:
            try:
                geometry = case_geometry(case, self.known, self.description)
            except DataError:  # converting the case reports this
                continue
            spans = self.sampling.spans(geometry.shape, geometry.spacing)
            needed = case_bytes(geometry.shape, spans, self.description, self.record_format, self.chunk)
            most = max(most, needed)
        return most

    def make(self, case: Case) -> Converted | DataError:
        """Writes the record of a case; returns the result or the error."""
        from mtf_imaging.data.records.make_record import write_case

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
        from mtf_imaging.data.records.make_record import digest
        from mtf_imaging.data.records.opening import open_record

        path = self.record_path(case)
        try:
            with case_errors(path):
                record = open_record(path)
                record.check()
                is_labeled = self._is_labeled(record)
        except DataError:  # damaged
            return None
        if record.key != case.key:  # renamed
            return None
        mm = case_geometry(case, self.known, self.description).spacing
        sampling = self.sampling.choose(record.shape, record.spacing)
        if record.sampling != sampling:
            what = f"has resolution {record.sampling}, not {sampling}"
        elif record.source != digest(case):
            what = f"was not made from the present {case.volume} and {case.labels}"
        elif (fault := self._fault_of_form(record)) or (fault := self._fault_of_chunk(record)):
            what = fault
        elif record.spacing != mm:
            what = (
                f"was made with voxels of {format_spacing(record.spacing)} mm, but they are now {format_spacing(mm)} mm"
            )
        else:
            return self._converted(case, record.facts, record.grid, is_labeled)
        return DataError(f"{path}: this record {what}. Fix: convert to another folder, or delete this one.")

    def _is_labeled(self, record: "StoredRecord") -> bool:
        """Returns whether a record has a labeled voxel; reads its chunks layer by layer."""
        thickness = record.grid[2] if record.chunk is None else record.chunk[2]
        layers = ALONG_Z.parts(whole_region(record.grid), thickness)
        return any(any_labeled(record.labels(layer), self.description) for layer in layers)

    def _fault_of_form(self, record: "StoredRecord") -> str:
        """Returns the reason that an existing record's values do not match the description, or ""."""
        names = self.description.channels
        if record.num_channels != len(names) or record.has_hu != has_hu(self.description):
            stored = "HU of one CT" if record.has_hu else f"the values of {record.num_channels} channel(s)"
            return f"has {stored}, but dataset.json names the channel(s) {', '.join(names)}"
        if not is_plain_lits(self.description) and not record.statistics:
            return "has no statistics of its channels, which the description in dataset.json needs"
        return ""

    def _fault_of_chunk(self, record: "StoredRecord") -> str:
        """Returns the reason that an existing record's chunks do not match the requested ones, or ""."""
        if self.chunk is None or record.chunk is None:
            return ""
        wanted = clip_chunk(self.chunk, record.grid)
        return "" if record.chunk == wanted else f"has chunks of {format_grid(record.chunk)}, not {format_grid(wanted)}"

    def _converted(self, case: Case, facts: "Facts", grid: Grid, is_labeled: bool) -> Converted:
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
        if is_plain_lits(description):
            return read_geometry(case.volume, known)
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
