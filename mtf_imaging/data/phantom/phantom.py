"""Write LiTS-shaped cases of a procedural abdomen: the same seed gives the same bytes."""

import gzip
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from nibabel import orientations
from scipy import ndimage
from tqdm import tqdm

from mtf_imaging.data.phantom.anatomy import Diameters, large_lesions, paint_abdomen, small_lesions
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import is_partial, write_bytes

# How the files of real sets are stored varies, so it does here: case N has the N-th, and so on in a circle.
STORED_AS = ("RAS", "LPS", "LAS", "RAI", "PSR")
_FIELD_MM = (310.0, 330.0)
_NOISE_HU = 14.0


@dataclass(frozen=True)
class Kind:
    """What phantoms there are.

    Attributes:
      in_plane: from so many voxels along x and y to one less than so many.
      slices: the same along z.
      slice_mm: from so many mm between slices to so many.
      diameters: of the lesions.
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
    """Writes `volume-N.nii.gz` (int16 HU) and `segmentation-N.nii.gz` (uint8 labels) for N = first_case, first_case +
    1, ...

    Called again with the same arguments it goes on where it was stopped, as what is there has the same bytes.

    Args:
      output_dir: folder to write to; made where it is missing.
      num_cases: how many.
      seed: with N it determines a case, whatever num_cases and first_case are.
      first_case: the first N.
      kind: "large_lesions", of about 113 x 113 x 60 voxels; or "small_lesions", twice as fine along each axis, with
        many lesions below 10 mm.

    Returns:
      The keys of the cases.

    Raises:
      DataError: the folder holds files of these names with other contents, or other cases.
    """
    if num_cases < 1:
        raise DataError(f"num_cases {num_cases}: at least 1 case is needed.")
    output_dir = Path(output_dir)
    numbers = range(first_case, first_case + num_cases)
    names = {f"{name}-{n}.nii.gz" for n in numbers for name in ("volume", "segmentation")}
    there = [
        p.name for name in ("volume", "segmentation") for p in output_dir.glob(f"{name}-*.nii*") if not is_partial(p)
    ]
    foreign = sorted(set(there) - names)
    if foreign:
        raise DataError(
            f"{output_dir}: holds {len(foreign)} file(s) of other cases, such as {foreign[0]}; "
            f"cases {numbers[0]}..{numbers[-1]} were asked for. Fix: write to an empty folder."
        )
    for number in tqdm(numbers, desc="phantom", unit="case", dynamic_ncols=True):
        for name, image in zip(("volume", "segmentation"), make_case(seed, number, kind), strict=True):
            _write_or_compare(output_dir / f"{name}-{number}.nii.gz", gzip.compress(image.to_bytes(), 2, mtime=0), seed)
    return [str(n) for n in numbers]


def make_case(seed: int, number: int, kind: str = DEFAULT_KIND) -> tuple[nibabel.Nifti1Image, nibabel.Nifti1Image]:
    """Makes the volume and the segmentation of one case; a function of its arguments alone."""
    rng, of = np.random.default_rng([seed, number]), KINDS[kind]
    side = int(rng.integers(*of.in_plane))
    in_plane, between = rng.uniform(*_FIELD_MM) / side, rng.uniform(*of.slice_mm)
    spacing = tuple(np.round((in_plane, in_plane, between), 3))
    shape = (side, side, int(rng.integers(*of.slices)))
    hu, labels = paint_abdomen(rng, shape, spacing, of.diameters)
    hu = ndimage.gaussian_filter(hu, 0.5)  # voxels at a border hold some of both sides
    hu += _noise(rng, shape)
    hu = np.clip(np.rint(hu), -1024, 3071).astype(np.int16)
    codes = STORED_AS[number % len(STORED_AS)]
    origin = rng.uniform(-40, 40, 3) - np.multiply(shape, spacing) / 2
    return _store(hu, spacing, origin, codes), _store(labels, spacing, origin, codes)


def _noise(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Noise of 14 HU, grainy within a slice as reconstructed CT is."""
    noise = ndimage.gaussian_filter(rng.standard_normal(shape, np.float32), (0.6, 0.6, 0))
    return noise * np.float32(_NOISE_HU / noise.std())


def _store(canonical: np.ndarray, spacing, origin, codes: str) -> nibabel.Nifti1Image:
    """An image of a canonical array whose stored axes point to `codes`."""
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
            f"{path}: exists with other contents than seed {seed} gives. "
            f"Nothing is overwritten. Fix: use an empty folder."
        )
