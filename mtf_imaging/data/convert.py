"""Convert a folder of NIfTI cases to records, all sampled alike."""

import collections
import hashlib
import math
from pathlib import Path

from tqdm import tqdm

from mtf_imaging.data.cases import Case, find_cases, natural_key
from mtf_imaging.data.cropping import warn_of_cropped_labels
from mtf_imaging.data.grid import AXIS_NAMES
from mtf_imaging.data.manifest import Manifest, read_manifest, record_path, write_manifest
from mtf_imaging.data.nifti import read_geometry, read_labels, read_volume
from mtf_imaging.data.records import Record, read_record, write_record
from mtf_imaging.data.resample import resample_linear, resample_nearest
from mtf_imaging.data.sampling import BOX_MULTIPLE, Sampling, Spacing, parse_sampling, parse_spacing, smallest_box
from mtf_imaging.data.voxel_values import AIR_HU
from mtf_imaging.errors import DataError

DEFAULT_RESOLUTION = 256
_MAX_VOXELS = 700_000_000  # of 3 bytes each in one protocol buffer, which ends at 2 GiB


def convert(
    input_dir: str | Path,
    output_dir: str | Path,
    resolution: str | int | None = None,
    spacing: str | float | None = None,
    progress: bool = True,
) -> list[str]:
    """Converts cases to records: made canonical (RAS+) and resampled, the image linearly and the labels to the nearest.

    `Sampling` says where the voxels of the records lie, with a spacing and without. Where a box of a spacing crops
    liver or lesion away, a warning names the file and counts the voxels.

    A conversion that was stopped goes on where it was: records of the same files and sampling are kept. A record that
    cannot be read is made again.

    Args:
      input_dir: folder of cases, as `find_cases` reads it.
      output_dir: folder of the records; made where it is missing.
      resolution: voxels of each record, `64`, or `x:192,y:192,z:96`; None for 256, or, with a spacing, for the smallest
        box that holds every case, rounded up to multiples of 16.
      spacing: size of a voxel in mm along x, y, z, `1.5,1.5,2`, padded with air and cropped to the resolution; None for
        the whole field of view of each volume.
      progress: whether to show a progress bar and print what was done.

    Returns:
      The keys of the cases, in natural order.

    Raises:
      DataError: a case cannot be used, or the output folder holds another run's records. Nothing of those is
        overwritten.
    """
    mm = parse_spacing(spacing)
    fits_all = mm is not None and resolution is None
    sampling = None if fits_all else parse_sampling(DEFAULT_RESOLUTION if resolution is None else resolution, mm)
    cases = find_cases(input_dir)
    if fits_all:
        sampling, text = _sampling_of_all(cases, mm)
        if progress:
            print(text)
    _check_size(sampling)
    output_dir = Path(output_dir)
    _check_manifest(output_dir, sampling)
    _check_foreign(output_dir, input_dir, cases)
    # All that is there is looked at before anything is written.
    kept = {case.key: _kept_axis_codes(output_dir, case, sampling) for case in cases}
    axis_codes = {}
    for case in tqdm(cases, desc=f"convert to {sampling}", unit="case", disable=not progress, dynamic_ncols=True):
        axis_codes[case.key] = kept[case.key] or _convert_case(output_dir, case, sampling)
    keys = [case.key for case in cases]
    write_manifest(output_dir, Manifest(sampling, keys))
    if progress:
        print(_summary(axis_codes, output_dir, sum(map(bool, kept.values()))))
    return keys


def make_record(case: Case, sampling: Sampling) -> Record:
    """Reads a case and samples it; warns where liver or lesion is cropped away.

    Raises:
      DataError: one of its files cannot be used.
    """
    volume = read_volume(case.volume)
    labels = read_labels(case.labels, volume)
    geometry = volume.geometry
    warn_of_cropped_labels(case.labels, labels, geometry, sampling)
    spans = sampling.spans(geometry.shape, geometry.spacing)
    return Record(
        key=case.key,
        hu=resample_linear(volume.hu, spans, AIR_HU).round().astype("int16"),
        labels=resample_nearest(labels, spans),
        affine=geometry.canonical_affine,
        shape=geometry.shape,
        spacing=geometry.spacing,
        sampled_at=sampling.spacing,
        axis_codes=geometry.axis_codes,
        source=_digest(case),
    )


def _sampling_of_all(cases: list[Case], spacing: Spacing) -> tuple[Sampling, str]:
    """The smallest box that holds every case, and what to say of it: one odd file may make it large."""
    geometries = {case.key: read_geometry(case.volume) for case in cases}
    box = smallest_box(((g.shape, g.spacing) for g in geometries.values()), spacing)
    sampling = Sampling(box, spacing)
    extents = {key: [n * mm for n, mm in zip(g.shape, g.spacing, strict=True)] for key, g in geometries.items()}
    largest = []
    for axis, name in enumerate(AXIS_NAMES):
        key = max(extents, key=lambda key: extents[key][axis])
        largest.append(f"{name} {extents[key][axis]:.0f} mm (case {key})")
    return sampling, (
        f"box: {sampling}, the smallest that holds every case, in multiples of {BOX_MULTIPLE} voxels; "
        f"the largest cases: {', '.join(largest)}"
    )


def _check_size(sampling: Sampling) -> None:
    voxels = math.prod(sampling.grid)
    if voxels > _MAX_VOXELS:
        raise DataError(
            f"resolution {sampling}: has {voxels} voxels, and a record holds {_MAX_VOXELS} at most. "
            f"Fix: fewer voxels, for instance 512, or larger ones."
        )


def _convert_case(output_dir: Path, case: Case, sampling: Sampling) -> str:
    record = make_record(case, sampling)
    write_record(record_path(output_dir, case.key), record)
    return record.axis_codes


def _check_manifest(output_dir: Path, sampling: Sampling) -> None:
    manifest = read_manifest(output_dir)
    if manifest is not None and manifest.sampling != sampling:
        raise DataError(
            f"{output_dir}: holds records of resolution {manifest.sampling}, asked for was {sampling}. "
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


def _kept_axis_codes(output_dir: Path, case: Case, sampling: Sampling) -> str | None:
    """Axes of the record that the case already has, or None where it must be made."""
    path = record_path(output_dir, case.key)
    if not path.exists():
        return None
    try:
        record = read_record(path)
    except DataError:  # damaged: made again
        return None
    if record.sampling != sampling:
        what = f"of resolution {record.sampling}, asked for was {sampling}"
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
