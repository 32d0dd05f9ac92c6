"""What is done with each case that is converted: its record is made, or the one that is there is looked at."""

from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.nifti.images import read_geometry
from mtf_imaging.data.nifti.spacing_table import SpacingTable
from mtf_imaging.data.records.manifest import Source, record_path
from mtf_imaging.data.sampling.sampling import Sampling, format_spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import memory_named


@dataclass(frozen=True)
class Converted:
    """The result of converting a case.

    Attributes:
      source: what the record was made from.
      is_labeled: whether any voxel of the record is liver or lesion.
    """

    source: Source
    is_labeled: bool


@dataclass(frozen=True)
class Conversion:
    """Where cases come from and go to, and how. Its methods may be called in any process.

    They return what is wrong with a case, so that all others are seen to, too. They import records, and so TensorFlow,
    which takes seconds: only a process that works on cases has to.

    Attributes:
      input_dir: folder of the cases.
      output_dir: folder of the records.
      sampling: where the voxels of the records lie.
      known: voxel sizes of files whose headers have lost them.
    """

    input_dir: Path
    output_dir: Path
    sampling: Sampling
    known: SpacingTable

    def make(self, case: Case) -> Converted | DataError:
        """Writes the record of a case."""
        from mtf_imaging.data.records.make_record import make_record
        from mtf_imaging.data.records.record import write_record

        try:
            with memory_named(case.volume):
                record = make_record(case, self.sampling, self.known)
        except DataError as error:
            return error
        write_record(record_path(self.output_dir, case.key), record)
        return self._converted(case, record)

    def kept(self, case: Case) -> Converted | DataError | None:
        """Looks at the record that a case already has; None where it must be made again."""
        from mtf_imaging.data.records.make_record import digest
        from mtf_imaging.data.records.record import read_record

        path = record_path(self.output_dir, case.key)
        try:
            record = read_record(path)
        except DataError:  # damaged
            return None
        try:
            mm = read_geometry(case.volume, self.known).spacing
        except DataError as error:
            return error
        if record.sampling != self.sampling:
            what = f"of resolution {record.sampling}, asked for was {self.sampling}"
        elif record.key != case.key or record.source != digest(case):
            what = f"made from other files than {case.volume} and {case.labels} are now"
        elif record.spacing != mm:
            what = f"made with voxels of {format_spacing(record.spacing)} mm, which are {format_spacing(mm)} mm now"
        else:
            return self._converted(case, record)
        return DataError(f"{path}: is a record {what}. Fix: convert to another folder, or delete this one.")

    def _converted(self, case, record) -> Converted:
        source = Source(
            digest=record.source,
            volume=case.volume.relative_to(self.input_dir).as_posix(),
            labels=case.labels.relative_to(self.input_dir).as_posix(),
            shape=record.shape,
            spacing=record.spacing,
            affine=tuple(map(tuple, record.affine.tolist())),
            axis_codes=record.axis_codes,
        )
        return Converted(source, bool(record.labels.any()))
