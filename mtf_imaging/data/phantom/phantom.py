"""Writes phantoms as folders of cases; the same seed gives the same bytes."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np
from nibabel import orientations
from tqdm import tqdm

from mtf_imaging.data.phantom.file_formats import (
    PATTERNS,
    case_files,
    case_key,
    case_paths,
    description_files,
    mark,
)
from mtf_imaging.data.phantom.kinds import DEFAULT_KIND, KINDS, Kind
from mtf_imaging.data.pixels.synthetic import check_other_files, write_once
from mtf_imaging.errors import DataError
from mtf_imaging.parameters import check_value

# The stored orientation differs between files of real data sets, so phantoms cycle through these codes.
STORED_AS = ("RAS", "LPS", "LAS", "RAI", "PSR")


def write_phantom(
    output_dir: str | Path,
    num_cases: int,
    seed: int,
    first_case: int = 0,
    kind: str | Kind = DEFAULT_KIND,
    file_format: str | None = None,
) -> list[str]:
    """Writes phantom cases: int16 images and uint8 labels.

    To resume an interrupted call, call it again with the same arguments. Existing files are compared with the bytes to
    be written, and never overwritten.

    Args:
      output_dir: folder for the cases; created if it does not exist.
      num_cases: number of cases.
      seed: seed of the cases. A case depends only on the seed and its number N.
      first_case: number of the first case.
      kind: "large_lesions", CTs of abdomens with about 113 x 113 x 60 voxels; "small_lesions", CTs with twice the
        resolution along each axis and many lesions below 10 mm; "brain", MR images of brain tumors with the two
        channels T1gd and FLAIR, about 108 x 122 x 99 voxels, and regions as in BraTS; or a new kind.
      file_format: "lits" for `volume-N.nii.gz` and `segmentation-N.nii.gz`; "nnunet" for `imagesTr/brain_N_0000.nii.gz`
        with a file for each channel, `labelsTr/brain_N.nii.gz` and `dataset.json`; or "decathlon" for
        `imagesTr/brain_N.nii.gz` with the channels last. The default is "lits" for CTs, and "nnunet" for brains.

    Returns:
      The case keys.

    Raises:
      DataError: the folder contains other cases, or files with the same names and different contents; or LiTS files
        cannot store this kind.
    """
    if num_cases < 1:
        raise DataError(f"num_cases {num_cases}: at least 1 case is needed. Fix: set num_cases to 1 or more.")
    painted = _kind(kind)
    file_format = file_format or painted.file_formats[0]
    if file_format not in painted.file_formats:
        raise DataError(
            f"file_format '{file_format}' does not store phantoms of kind '{kind}', which have the channels "
            f"{' and '.join(painted.description.channels)}. Fix: choose {' or '.join(painted.file_formats)}.",
            ["file_format"],
        )
    output_dir = Path(output_dir)
    numbers = range(first_case, first_case + num_cases)
    keys = [case_key(file_format, painted.organ, number) for number in numbers]
    num_channels = len(painted.description.channels)
    names = {name for key in keys for name in case_paths(file_format, key, num_channels)}
    check_other_files(output_dir, PATTERNS[file_format], names, f"cases other than {numbers[0]}..{numbers[-1]}")
    described = description_files(file_format, painted.description, painted.organ, keys)
    for name, data in described.items():
        if (output_dir / name).exists():
            write_once(output_dir / name, data, seed)
    for number, key in tqdm(list(zip(numbers, keys, strict=True)), desc="phantom", unit="case", dynamic_ncols=True):
        *channels, labels = make_case(seed, number, kind)
        for name, image in case_files(file_format, key, channels, labels).items():
            write_once(output_dir / name, gzip.compress(image.to_bytes(), 2, mtime=0), seed)
    for name, data in described.items():  # last, so a described folder is complete
        write_once(output_dir / name, data, seed)
    return keys


def make_case(seed: int, number: int, kind: str | Kind = DEFAULT_KIND) -> tuple[nibabel.Nifti1Image, ...]:
    """Returns the images of one case, which depend only on the arguments: all channels, then the segmentation."""
    rng = np.random.default_rng([seed, number])
    patient = _kind(kind).paint(rng)
    codes = STORED_AS[number % len(STORED_AS)]
    origin = rng.uniform(-40, 40, 3) - np.multiply(patient.labels.shape, patient.spacing) / 2
    return tuple(_store(image, patient.spacing, origin, codes) for image in (*patient.channels, patient.labels))


def _kind(name: str | Kind) -> Kind:
    if isinstance(name, Kind):
        return name
    check_value("kind", name, str, ["kind"], choices=tuple(KINDS))
    return KINDS[name]


def _store(canonical: np.ndarray, spacing: Sequence[float], origin: np.ndarray, codes: str) -> nibabel.Nifti1Image:
    """Converts a canonical array to an image that is stored in the orientation `codes`."""
    affine = nibabel.affines.from_matvec(np.diag(spacing), origin)
    turn = orientations.ornt_transform(orientations.axcodes2ornt("RAS"), orientations.axcodes2ornt(codes))
    stored = orientations.apply_orientation(canonical, turn)
    image = nibabel.Nifti1Image(np.ascontiguousarray(stored), affine @ orientations.inv_ornt_aff(turn, canonical.shape))
    return mark(image)
