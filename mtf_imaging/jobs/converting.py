"""Converts NIfTI cases to records."""

from collections.abc import Callable
from pathlib import Path

from mtf_imaging.data.records.convert import convert as convert_cases
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.all_kinds import check_volumes
from mtf_imaging.kinds.settings import Spacing


def convert(
    *,
    input_dir: str | Path,
    output_dir: str | Path,
    resolution: str | int | None = None,
    spacing: Spacing | None = None,
    spacing_table: str | Path | None = None,
    grids: int = 1,
    multiple: int | None = None,
    record_format: str | None = None,
    chunk: str | int | None = None,
    workers: int | None = None,
    progress: bool = True,
    prepare: Callable[[], None] | None = None,
) -> list[str]:
    """Resamples cases to a common grid of voxels, and writes the records that `train` reads.

    An interrupted conversion resumes where it stopped. Existing records of other cases are never overwritten.

    Args:
      input_dir: the folder of cases, with file names as in LiTS, the Medical Segmentation Decathlon or nnU-Net.
      output_dir: the folder for the records.
      resolution: voxels along x, y and z, such as 64 or "x:192,y:192,z:96". None means 256 without a spacing, and the
        smallest box that fits every case with a spacing.
      spacing: the voxel size in mm; None to resample the whole field of view of each volume, whatever its size.
      spacing_table: a CSV file with voxel sizes for files whose headers lack them.
      grids: the largest number of different grids for cases of different sizes. `train` then builds a network for each
        grid, with the same weights. Several grids require a spacing, and no resolution.
      multiple: the number of which the sizes of chosen grids are multiples; None for 16.
      record_format: "zarr" for folders in OME-Zarr 0.5, or "tfrecord" for one file per record. None means
        the format of the records in the output folder, or Zarr if it has none.
      chunk: voxels of a chunk of a Zarr record along x, y and z, such as 64 or "x:64,y:64,z:32"; None for 64.
      workers: number of processes; None for one per core, as far as memory allows by the sizes of the cases.
      progress: whether to show progress bars and print a summary.
      prepare: a function that each process calls first.

    Returns:
      The keys of the cases, in natural order.

    Raises:
      DataError: a case is unusable, or the output folder contains other files.
      ConfigError: another process is writing to the output folder, or `grids`, `multiple`, `record_format` or `chunk`
        is invalid.
    """
    check_no_run(output_dir)
    check_volumes(input_dir, "{kind} need no conversion: train reads them directly, with the data set {data_set}.")
    return convert_cases(
        input_dir,
        output_dir,
        resolution,
        spacing,
        spacing_table,
        workers=workers,
        progress=progress,
        prepare=prepare,
        grids=grids,
        multiple=multiple,
        record_format=record_format,
        chunk=chunk,
    )
