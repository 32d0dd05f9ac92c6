"""Converts a folder of NIfTI cases to records with one resolution and spacing."""

import collections
import dataclasses
import functools
import math
from collections.abc import Mapping
from pathlib import Path

from tqdm import tqdm

from mtf_imaging.data.cases.cases import Case, find_data_set, natural_key
from mtf_imaging.data.description.description import LITS_RULES, Description
from mtf_imaging.data.description.file_labels import label_values
from mtf_imaging.data.formats.ome_zarr.array_layout import MAX_VOXELS
from mtf_imaging.data.images.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.data.images.voxel_values import any_label
from mtf_imaging.data.records.choose_sampling import choose_sampling, is_flat, propose_spacing
from mtf_imaging.data.records.chunks import parse_chunk
from mtf_imaging.data.records.conversion import Conversion, Converted
from mtf_imaging.data.records.manifest import (
    Manifest,
    Source,
    is_plain_lits,
    list_records,
    read_manifest,
    record_name,
    write_manifest,
)
from mtf_imaging.data.sampling.buckets import AnySampling, make_sampling, parse_any_sampling
from mtf_imaging.data.sampling.sampling import BOX_MULTIPLE, Sampling, Spacing, parse_spacing
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.provenance.text import as_table
from mtf_imaging.files.workers import default_workers, in_parallel
from mtf_imaging.parameters import check_value
from mtf_imaging.plain_text import some

DEFAULT_RESOLUTION = 256
_ELSEWHERE = "convert to another folder, or delete this one"


def convert(
    input_dir: str | Path,
    output_dir: str | Path,
    resolution: str | int | None = None,
    spacing: str | float | tuple[float, float, float] | None = None,
    spacing_csv: str | Path | SpacingTable | None = None,
    workers: int | None = 1,
    progress: bool = True,
    description: Description | None = None,
    grids: int = 1,
    multiple: int | None = None,
    chunk: str | int | None = None,
    crop_to_nonzero: bool = False,
) -> list[str]:
    """Converts cases to records.

    Each case is reoriented to RAS+ and resampled: the image linearly, the labels to the nearest neighbor.
    See `Sampling` for the position of a record's voxels. If the box crops mask voxels, a warning names the file and
    reports their number. Records store values before the intensity schemes are applied, so different schemes do not
    need new records.

    Call the function again to resume an interrupted conversion. Records of the same files and sampling are kept, and
    damaged records are made again. All cases that cannot be used are reported together, after all other cases are
    converted.

    Args:
      input_dir: folder of cases; see `find_cases`.
      output_dir: folder of the records; created if it does not exist.
      resolution: number of voxels in each record, `64` or `x:192,y:192,z:96`. None means 256 without a spacing. With a
        spacing, it means the smallest box that covers every case, rounded up to multiples of 16. PNG and TIFF images
        always have one voxel along z. Several grids are separated by `|` and need a spacing.
      spacing: voxel size in mm along x, y and z, for example `1.5,1.5,2`. Volumes are padded with air or cropped to the
        resolution. None means that each record spans the whole field of view of its volume.
      spacing_csv: a CSV in the format of `read_spacing_table`, with the voxel sizes of files whose headers lack them.
      workers: number of processes. 1 means only the calling process; None means one per core, or fewer if memory is
        short for the sizes of the cases.
      progress: whether to show a progress bar and print a summary.
      description: the channels, intensities, labels and masks; None for the folder's `dataset.json`, or LiTS
        if there is no such file.
      grids: the largest number of different grids. With several, each case gets the smallest grid that covers it. The
        grids are chosen for the fewest voxels in total; this requires a spacing, and no resolution.
      multiple: all chosen grid sizes are multiples of this number; None for 16.
      chunk: chunk size in voxels, `64` or `x:64,y:64,z:32`; not larger than the grid. None means 64 for new records,
        and any size for existing ones.
      crop_to_nonzero: whether images are cropped to the box of their nonzero voxels before they are resampled, even if
        the description does not say so.

    Returns:
      The case keys, in natural order.

    Raises:
      DataError: a case cannot be used, no case has a labeled voxel, or the output folder contains records of another
        conversion, which are never overwritten.
      ConfigError: another process is writing to the output folder, or `grids` or `multiple` is invalid.
    """
    mm = parse_spacing(spacing)
    _check_grids(grids, multiple, mm, resolution)
    chunk_size = None if chunk is None else parse_chunk(chunk)
    known = read_spacing_table(spacing_csv)
    fits_all = mm is not None and resolution is None
    sampling = None if fits_all else parse_any_sampling(DEFAULT_RESOLUTION if resolution is None else resolution, mm)
    if Path(input_dir).resolve() == Path(output_dir).resolve():
        what = "is the folder of the cases, which records would be mixed with"
        raise DataError(f"{output_dir}: {what}. Fix: choose another output_dir.", ["output_dir"])
    found = find_data_set(input_dir, description=description)
    description, cases, _ = found
    description = dataclasses.replace(description, crops_to_nonzero=crop_to_nonzero or description.crops_to_nonzero)
    if sampling is not None and is_flat(description):
        sampling = make_sampling(((*grid[:2], 1) for grid in sampling.grids), mm)
    if progress:
        print(as_table(found.rows()))
    if fits_all:
        sampling, text = choose_sampling(cases, mm, known, description, grids, multiple or BOX_MULTIPLE)
        if progress:
            print(text)
    _check_size(sampling, description)
    job = Conversion(Path(input_dir), Path(output_dir), sampling, known, description, chunk_size)
    workers = workers or default_workers(job.worker_bytes(cases))
    each = functools.partial(_each, workers=workers, progress=progress)
    with writing_to(output_dir):
        _check_manifest(job)
        _check_foreign(job, cases)
        # All existing records are checked before anything is written.
        existing = [case for case in cases if job.has_record(case)]
        kept = each(job.check_existing, existing, title="check existing records")
        missing = [case for case in cases if kept.get(case.key) is None]
        made = each(job.make, missing, title=f"convert to {_title(sampling)}")
        done = {case.key: kept.get(case.key) or made[case.key] for case in cases}
        _check_labels(job, done)
        sources = {key: one.source for key, one in done.items()}
        write_manifest(output_dir, Manifest(sampling, sources, description))
    if progress:
        print(_summary(sources, output_dir, len(cases) - len(missing)))
        if sampling.spacing is None and not is_flat(description):
            volumes = [(source.shape, source.spacing) for source in sources.values()]
            if proposal := propose_spacing(volumes, sampling.grids[-1]):
                print(f"  {proposal}")
    return list(sources)


def _each(function, cases: list[Case], *, workers, title, progress) -> dict[str, Converted | None]:
    """Calls a function for each case; returns the results by key, or raises one error for all failures."""
    results, faults = {}, CaseFaults()
    with tqdm(total=len(cases), desc=title, unit="case", disable=not progress or not cases, dynamic_ncols=True) as bar:
        for case, result in in_parallel(function, cases, workers):
            if isinstance(result, DataError):
                faults.add(case.key, result)
            else:
                results[case.key] = result
            bar.update()
    faults.check(case.key for case in cases)
    return results


def _check_grids(grids: int, multiple: int | None, spacing: Spacing | None, resolution: str | int | None) -> None:
    for name, value in {"grids": grids, "multiple": multiple}.items():
        check_value(name, value, int | None, [name])
    given = {"grids": grids if grids > 1 else None, "multiple": multiple}
    for name, value in given.items():
        if value is not None and spacing is None:
            what = f"{name} = {value} has no effect without a spacing, because all records then have the same grid"
            raise ConfigError(f"{what}. Fix: give spacing, too, or leave {name} out.", [name, "spacing"])
        if value is not None and resolution is not None:
            what = f"{name} = {value} and resolution = {resolution} both set the grid of the records"
            raise ConfigError(f"{what}. Fix: give only one of them.", [name, "resolution"])


def _title(sampling: AnySampling) -> str:
    return str(sampling) if isinstance(sampling, Sampling) else f"{len(sampling.grids)} grids"


def _check_size(sampling: AnySampling, description: Description) -> None:
    voxels = max(map(math.prod, sampling.grids))
    if voxels * len(description.channels) > MAX_VOXELS:
        what = (
            f"a record of {voxels} voxels in {len(description.channels)} channel(s) exceeds the limit of {MAX_VOXELS}"
        )
        fix = "choose a lower resolution, for example 512, or a coarser spacing"
        raise DataError(f"resolution {sampling}: {what}. Fix: {fix}.", ["resolution", "spacing"])


def _check_manifest(job: Conversion) -> None:
    manifest = read_manifest(job.output_dir)
    if manifest is not None and manifest.sampling != job.sampling:
        what = f"contains records of resolution {manifest.sampling}, not {job.sampling}"
        raise DataError(f"{job.output_dir}: {what}. Fix: {_ELSEWHERE}.")
    if manifest is not None:
        _check_description(job, manifest.description)


def _check_description(job: Conversion, other: Description) -> None:
    """Raises DataError if existing records have other channels or labels; different intensities are allowed."""
    if is_plain_lits(other) and is_plain_lits(job.description):
        return
    stored, wanted = (
        (f"channels {', '.join(description.channels)}", f"labels {label_values(description)}")
        for description in (other, job.description)
    )
    for old, new in zip(stored, wanted, strict=True):
        if old != new:
            what = f"contains records with the {old}, but {job.input_dir} has the {new}"
            raise DataError(f"{job.output_dir}: {what}. Fix: {_ELSEWHERE}.")


def _check_foreign(job: Conversion, cases: list[Case]) -> None:
    ours = {record_name(case.key) for case in cases}
    records = {path.name for path in list_records(job.output_dir)}
    foreign = sorted(records - ours, key=natural_key)
    if foreign:
        what = f"{len(foreign)} record(s) of cases that are not in {job.input_dir}, such as {foreign[0]}"
        raise DataError(f"{job.output_dir}: contains {what}. Fix: {_ELSEWHERE}.")


def _check_labels(job: Conversion, done: dict[str, Converted]) -> None:
    if not any(one.is_labeled for one in done.values()):
        is_lits = job.description.rules == LITS_RULES
        structures = f"the structures as in dataset.json ({label_values(job.description)})"
        masks = "the liver 1 and lesions 2" if is_lits else structures
        what = f"none of the {len(done)} cases has a voxel of {any_label(job.description)} at {job.sampling}"
        raise DataError(f"{job.input_dir}: {what}. Fix: give masks that label {masks}, or choose a finer resolution.")


def _summary(sources: dict[str, Source], output_dir: str | Path, num_kept: int) -> str:
    """Returns a summary that lists how the stored axes were mapped to x, y, z, one line per orientation."""
    lines = [f"{len(sources)} cases in {output_dir} ({num_kept} already converted)"]
    lines += stored_axes({key: source.axis_codes for key, source in sources.items()})
    return "\n  ".join(lines)


def stored_axes(codes: Mapping[str, str]) -> list[str]:
    """Returns how the stored axes of cases are mapped to x, y, z, one text per orientation.

    Args:
      codes: {case key: direction of each stored axis, for example `LPS`}.
    """
    by_codes = collections.defaultdict(list)
    for key, own in codes.items():
        by_codes[own].append(key)
    return [
        f"stored {own} -> x, y, z = R, A, S: {len(keys)} ({some(keys, 8)})" for own, keys in sorted(by_codes.items())
    ]
