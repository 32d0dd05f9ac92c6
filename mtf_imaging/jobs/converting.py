"""Converts NIfTI cases to records."""

from collections.abc import Callable
from pathlib import Path

from mtf_imaging.data.records.convert import WORKER_BYTES
from mtf_imaging.data.records.convert import convert as convert_cases
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.files.workers import default_workers
from mtf_imaging.jobs.settings import Spacing


def convert(
    *,
    input_dir: str | Path,
    output_dir: str | Path,
    resolution: str | int | None = None,
    spacing: Spacing | None = None,
    spacing_table: str | Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    prepare: Callable[[], None] | None = None,
) -> list[str]:
    """Resamples cases to voxels that all of them share, and writes the records that `train` reads.

    A conversion that was stopped continues where it was; existing records of other cases are never overwritten.

    Args:
      input_dir: the folder of cases, named as LiTS, the Decathlon or nnU-Net name them.
      output_dir: the folder for the records.
      resolution: voxels along x, y and z, 64 or "x:192,y:192,z:96"; None for 256, or, with a spacing, for the smallest
        box that holds every case.
      spacing: the voxel size in mm; None for the whole field of view of each volume, whatever its size.
      spacing_table: a CSV file of voxel sizes for files whose headers lack them.
      workers: processes, of up to 2 GiB each; None for one per core, as far as memory is free.
      progress: whether to show progress bars and print what was done.
      prepare: what each process calls first.

    Returns:
      The keys of the cases, in natural order.

    Raises:
      DataError: cases that cannot be used, or an output folder that holds something else.
      ConfigError: another process writes to the output folder.
    """
    check_no_run(output_dir)
    return convert_cases(
        input_dir,
        output_dir,
        resolution,
        spacing,
        spacing_table,
        workers=workers or default_workers(WORKER_BYTES),
        progress=progress,
        prepare=prepare,
    )
