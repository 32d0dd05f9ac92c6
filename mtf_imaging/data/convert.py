"""Convert a folder of NIfTI cases to records on a grid."""

import collections
import hashlib
from pathlib import Path

from tqdm import tqdm

from mtf_imaging.data.cases import Case, find_cases, natural_key
from mtf_imaging.data.grid import Grid, format_grid, parse_grid
from mtf_imaging.data.manifest import Manifest, read_manifest, record_path, write_manifest
from mtf_imaging.data.nifti import read_labels, read_volume
from mtf_imaging.data.records import Record, read_record, write_record
from mtf_imaging.data.resample import resample_linear, resample_nearest
from mtf_imaging.errors import DataError


def convert(input_dir: str | Path, output_dir: str | Path, resolution: str | int, progress: bool = True) -> list[str]:
    """Converts cases to records: made canonical (RAS+), resampled to the grid, the image linearly and the labels to the
    nearest.

    A conversion that was stopped goes on where it was: records of the same files on the same grid are kept. A record
    that cannot be read is made again.

    Args:
      input_dir: folder of cases, as `find_cases` reads it.
      output_dir: folder of the records; made where it is missing.
      resolution: `64`, or `x:192,y:192,z:96`.
      progress: whether to show a progress bar and print a summary of the axes.

    Returns:
      The keys of the cases, in natural order.

    Raises:
      DataError: a case cannot be used, or the output folder holds another run's records. Nothing of those is
        overwritten.
    """
    grid = parse_grid(resolution)
    cases = find_cases(input_dir)
    output_dir = Path(output_dir)
    _check_manifest(output_dir, grid)
    _check_foreign(output_dir, input_dir, cases)
    # All that is there is looked at before anything is written.
    kept = {case.key: _kept_axis_codes(output_dir, case, grid) for case in cases}
    axis_codes = {}
    for case in tqdm(
        cases, desc=f"convert to {format_grid(grid)}", unit="case", disable=not progress, dynamic_ncols=True
    ):
        axis_codes[case.key] = kept[case.key] or _convert_case(output_dir, case, grid)
    keys = [case.key for case in cases]
    write_manifest(output_dir, Manifest(format_grid(grid), keys))
    if progress:
        print(_summary(axis_codes, output_dir, sum(map(bool, kept.values()))))
    return keys


def make_record(case: Case, grid: Grid) -> Record:
    """Reads a case and resamples it to the grid.

    Raises:
      DataError: one of its files cannot be used.
    """
    volume = read_volume(case.volume)
    labels = read_labels(case.labels, volume)
    geometry = volume.geometry
    return Record(
        key=case.key,
        hu=resample_linear(volume.hu, grid).round().astype("int16"),
        labels=resample_nearest(labels, grid),
        affine=geometry.canonical_affine,
        shape=geometry.shape,
        spacing=geometry.spacing,
        axis_codes=geometry.axis_codes,
        source=_digest(case),
    )


def _convert_case(output_dir: Path, case: Case, grid: Grid) -> str:
    record = make_record(case, grid)
    write_record(record_path(output_dir, case.key), record)
    return record.axis_codes


def _check_manifest(output_dir: Path, grid: Grid) -> None:
    manifest = read_manifest(output_dir)
    if manifest is not None and manifest.resolution != format_grid(grid):
        raise DataError(
            f"{output_dir}: holds records of resolution {manifest.resolution}, asked for was {format_grid(grid)}. "
            f"Fix: convert to another folder, or delete this one."
        )


def _check_foreign(output_dir: Path, input_dir: str | Path, cases: list[Case]) -> None:
    ours = {record_path(output_dir, case.key).name for case in cases}
    foreign = sorted((p.name for p in output_dir.glob("case-*.tfrecord") if p.name not in ours), key=natural_key)
    if foreign:
        raise DataError(
            f"{output_dir}: holds {len(foreign)} record(s) of cases that {input_dir} does not have, "
            f"such as {foreign[0]}. Fix: convert to another folder, or delete this one."
        )


def _kept_axis_codes(output_dir: Path, case: Case, grid: Grid) -> str | None:
    """Axes of the record that the case already has, or None where it must be made."""
    path = record_path(output_dir, case.key)
    if not path.exists():
        return None
    try:
        record = read_record(path)
    except DataError:  # damaged: made again
        return None
    if record.grid != grid:
        what = f"of resolution {format_grid(record.grid)}, asked for was {format_grid(grid)}"
    elif record.source != _digest(case):
        what = f"made from other files than {case.volume} and {case.labels} are now"
    else:
        return record.axis_codes
    raise DataError(f"{path}: is a record {what}. Fix: convert to another folder, or delete this one.")


def _digest(case: Case) -> str:
    """Digest of the bytes of a case's files: dates change when files are copied, contents do not."""
    digest = hashlib.blake2b(digest_size=16)
    for path in (case.volume, case.labels):
        with open(path, "rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def _summary(axis_codes: dict[str, str], output_dir: Path, num_kept: int) -> str:
    """Says how the axes of the files were mapped to x, y, z, a line for each way of storing."""
    by_codes = collections.defaultdict(list)
    for key, codes in axis_codes.items():
        by_codes[codes].append(key)
    lines = [f"{len(axis_codes)} cases in {output_dir} ({num_kept} were there already)"]
    for codes, keys in sorted(by_codes.items()):
        shown = ", ".join(keys[:8]) + (", ..." if len(keys) > 8 else "")
        lines.append(f"  stored {codes} -> x, y, z = R, A, S: {len(keys)} ({shown})")
    return "\n".join(lines)
