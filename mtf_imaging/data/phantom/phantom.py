"""Writes phantoms as cases with LiTS file names; the same seed gives the same bytes."""

import gzip
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from nibabel import orientations
from scipy import ndimage
from tqdm import tqdm

from mtf_imaging.data.phantom.abdomen import Diameters, large_lesions, paint_abdomen, small_lesions
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import is_partial, write_bytes

# The stored orientation differs between files of real data sets, so phantoms cycle through these codes.
STORED_AS = ("RAS", "LPS", "LAS", "RAI", "PSR")
_FIELD_MM = (310.0, 330.0)
_NOISE_HU = 14.0


@dataclass(frozen=True)
class Kind:
    """The size and lesions of one kind of phantom.

    Attributes:
      in_plane: (low, high) number of voxels along x and y, without high.
      slices: (low, high) number of voxels along z, without high.
      slice_mm: (low, high) distance between axial planes in mm.
      diameters: draws the diameters of the lesions.
    """

    in_plane: tuple[int, int]
    slices: tuple[int, int]
    slice_mm: tuple[float, float]
    diameters: Diameters


KINDS = {
    "large_lesions": Kind((104, 121), (56, 65), (3.3, 3.7), large_lesions),
    "small_lesions": Kind((208, 241), (112, 129), (1.65, 1.85), small_lesions),
}
DEFAULT_KIND = "large_lesions"


def write_phantom(
    output_dir: str | Path, num_cases: int, seed: int, first_case: int = 0, kind: str = DEFAULT_KIND
) -> list[str]:
    """Writes phantom cases as `volume-N.nii.gz` (int16 HU) and `segmentation-N.nii.gz` (uint8 labels).

    To resume an interrupted call, call it again with the same arguments. Existing files are compared with the bytes to
    be written, and never overwritten.

    Args:
      output_dir: folder for the cases; created if it does not exist.
      num_cases: number of cases.
      seed: seed of the cases. A case depends only on the seed and its number N.
      first_case: number of the first case.
      kind: "large_lesions", volumes of about 113 x 113 x 60 voxels, or "small_lesions", volumes with twice the
        resolution along each axis and many lesions below 10 mm.

    Returns:
      The keys of the cases.

    Raises:
      DataError: the folder contains other cases, or files with the same names and different contents.
    """
    if num_cases < 1:
        raise DataError(f"num_cases {num_cases}: at least 1 case is needed. Fix: set num_cases to 1 or more.")
    output_dir = Path(output_dir)
    numbers = range(first_case, first_case + num_cases)
    names = {f"{name}-{n}.nii.gz" for n in numbers for name in ("volume", "segmentation")}
    existing = [
        p.name for name in ("volume", "segmentation") for p in output_dir.glob(f"{name}-*.nii*") if not is_partial(p)
    ]
    foreign = sorted(set(existing) - names)
    if foreign:
        raise DataError(
            f"{output_dir}: contains {len(foreign)} file(s) of cases other than {numbers[0]}..{numbers[-1]}, such as "
            f"{foreign[0]}. Fix: write to an empty folder."
        )
    for number in tqdm(numbers, desc="phantom", unit="case", dynamic_ncols=True):
        for name, image in zip(("volume", "segmentation"), make_case(seed, number, kind), strict=True):
            _write_or_compare(output_dir / f"{name}-{number}.nii.gz", gzip.compress(image.to_bytes(), 2, mtime=0), seed)
    return [str(n) for n in numbers]


def make_case(seed: int, number: int, kind: str = DEFAULT_KIND) -> tuple[nibabel.Nifti1Image, nibabel.Nifti1Image]:
    """Returns the volume and the segmentation of one case, which depend only on the arguments."""
    rng, size = np.random.default_rng([seed, number]), KINDS[kind]
    side = int(rng.integers(*size.in_plane))
    in_plane, between = rng.uniform(*_FIELD_MM) / side, rng.uniform(*size.slice_mm)
    spacing = tuple(np.round((in_plane, in_plane, between), 3))
    shape = (side, side, int(rng.integers(*size.slices)))
    hu, labels = paint_abdomen(rng, shape, spacing, size.diameters)
    hu = ndimage.gaussian_filter(hu, 0.5)  # partial volume: voxels at a border mix both sides
    hu += _noise(rng, shape)
    hu = np.clip(np.rint(hu), -1024, 3071).astype(np.int16)
    codes = STORED_AS[number % len(STORED_AS)]
    origin = rng.uniform(-40, 40, 3) - np.multiply(shape, spacing) / 2
    return _store(hu, spacing, origin, codes), _store(labels, spacing, origin, codes)


def _noise(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Returns noise of 14 HU, correlated within axial planes as in reconstructed CT."""
    noise = ndimage.gaussian_filter(rng.standard_normal(shape, np.float32), (0.6, 0.6, 0))
    return noise * np.float32(_NOISE_HU / noise.std())


def _store(canonical: np.ndarray, spacing, origin, codes: str) -> nibabel.Nifti1Image:
    """Returns an image of a canonical array, stored in the orientation `codes`."""
    affine = nibabel.affines.from_matvec(np.diag(spacing), origin)
    turn = orientations.ornt_transform(orientations.axcodes2ornt("RAS"), orientations.axcodes2ornt(codes))
    stored = orientations.apply_orientation(canonical, turn)
    image = nibabel.Nifti1Image(np.ascontiguousarray(stored), affine @ orientations.inv_ornt_aff(turn, canonical.shape))
    image.header.set_xyzt_units("mm")
    return image


def _write_or_compare(path: Path, data: bytes, seed: int) -> None:
    if not path.exists():
        write_bytes(path, data)
    elif path.read_bytes() != data:
        raise DataError(
            f"{path}: the contents of this file differ from the phantom of seed {seed}; nothing was overwritten. "
            "Fix: use an empty folder."
        )
