"""The kinds of phantoms: their contents, their sizes, and the meaning of their channels and labels."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.intensities.schemes import NONZERO_Z_SCORE, Intensity
from mtf_imaging.data.phantom.abdomen import Diameters, large_lesions, paint_abdomen, small_lesions
from mtf_imaging.data.phantom.brain import EDEMA, ENHANCING, NECROSIS, paint_brain
from mtf_imaging.data.phantom.file_formats import DECATHLON, LITS_FILES, NNUNET

_FIELD_MM = (310.0, 330.0)
_NOISE_HU = 14.0


@dataclass(frozen=True)
class Patient:
    """One synthetic patient, with x to the right, y to the front and z to the head.

    Attributes:
      channels: int16 `[x, y, z]` of each channel.
      labels: uint8 `[x, y, z]`.
      spacing: voxel size in mm along x, y, z.
    """

    channels: tuple[np.ndarray, ...]
    labels: np.ndarray
    spacing: tuple[float, float, float]


@dataclass(frozen=True)
class Kind:
    """The contents of one kind of phantom.

    Attributes:
      organ: the first word of the file names in the nnU-Net and Decathlon formats.
      description: the meaning of the channels and labels.
      file_formats: the names of the file formats that can store these phantoms; the first is the default.
      paint: a function that paints one patient.
    """

    organ: str
    description: Description
    file_formats: tuple[str, ...]
    paint: Callable[[np.random.Generator], Patient]


@dataclass(frozen=True)
class _Abdomens:
    """Paints CTs of abdomens in a range of sizes.

    Attributes:
      in_plane: (low, high) number of voxels along x and y, without high.
      slices: (low, high) number of voxels along z, without high.
      slice_mm: (low, high) distance between axial planes in mm.
      diameters: a function that draws the diameters of the lesions.
    """

    in_plane: tuple[int, int]
    slices: tuple[int, int]
    slice_mm: tuple[float, float]
    diameters: Diameters

    def __call__(self, rng: np.random.Generator) -> Patient:
        side = int(rng.integers(*self.in_plane))
        in_plane, between = rng.uniform(*_FIELD_MM) / side, rng.uniform(*self.slice_mm)
        spacing = tuple(np.round((in_plane, in_plane, between), 3))
        shape = (side, side, int(rng.integers(*self.slices)))
        hu, labels = paint_abdomen(rng, shape, spacing, self.diameters)
        hu = ndimage.gaussian_filter(hu, 0.5)  # partial volume: voxels at a border mix both sides
        hu += _ct_noise(rng, shape)
        return Patient((np.clip(np.rint(hu), -1024, 3071).astype(np.int16),), labels, spacing)


def _brain(rng: np.random.Generator) -> Patient:
    """Paints MR images of a brain; the sizes and spacings of patients differ along every axis."""
    shape = tuple(int(n) for n in rng.integers((100, 116, 90), (117, 129, 109)))
    spacing = tuple(float(mm) for mm in np.round(rng.uniform(1.4, 1.6, 3), 3))
    images, labels = paint_brain(rng, shape, spacing)
    return Patient(tuple(images), labels, spacing)


def _ct_noise(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Returns noise of 14 HU, correlated within axial planes as in reconstructed CT."""
    noise = ndimage.gaussian_filter(rng.standard_normal(shape, np.float32), (0.6, 0.6, 0))
    return noise * np.float32(_NOISE_HU / noise.std())


BRAIN_TUMORS = Description(
    channels=("T1gd", "FLAIR"),
    labels={"edema": EDEMA, "necrosis": NECROSIS, "enhancing_tumor": ENHANCING},
    masks={
        "whole_tumor": (EDEMA, NECROSIS, ENHANCING),
        "tumor_core": (NECROSIS, ENHANCING),
        "enhancing_tumor": (ENHANCING,),
    },
    region_order=(EDEMA, NECROSIS, ENHANCING),
    intensities=(Intensity(NONZERO_Z_SCORE),) * 2,  # the removed skull is 0
)
_DESCRIBED = (NNUNET, DECATHLON)
_CT_FORMATS = (LITS_FILES, NNUNET, DECATHLON)
KINDS = {
    "large_lesions": Kind("liver", LITS, _CT_FORMATS, _Abdomens((104, 121), (56, 65), (3.3, 3.7), large_lesions)),
    "small_lesions": Kind("liver", LITS, _CT_FORMATS, _Abdomens((208, 241), (112, 129), (1.65, 1.85), small_lesions)),
    "brain": Kind("brain", BRAIN_TUMORS, _DESCRIBED, _brain),
}
DEFAULT_KIND = "large_lesions"
