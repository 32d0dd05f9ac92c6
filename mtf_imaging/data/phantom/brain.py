"""Paints a procedural brain with a tumor: two MR contrasts and the labels of a synthetic patient.

The skull is removed, as in BraTS, so all voxels outside the brain are exactly 0. The contrasts are T1-weighted after
gadolinium (T1gd) and FLAIR, and a network needs both:

- The edema is bright in FLAIR. In T1gd it looks like gray matter.
- The enhancing rim is bright in T1gd, and looks like the edema in FLAIR.
- The necrosis is dark in T1gd, like the fluid of the ventricles, and looks like gray matter in FLAIR.
- Vessels and the choroid plexus enhance in T1gd, and white matter around the ventricles is bright in FLAIR, but neither
  of them is tumor.

The origin of the patient frame lies in the middle of the brain. The result is plausible, but not anatomically exact.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

from mtf_imaging.data.phantom.scene import Scene, column, smooth_field, voxel_positions

EDEMA, NECROSIS, ENHANCING = 1, 2, 3
T1GD, FLAIR = 0, 1  # index of the channels

# (T1gd, FLAIR) relative to white matter in T1gd.
_WHITE, _GRAY, _FLUID, _VESSEL = (1.0, 0.62), (0.8, 0.8), (0.35, 0.18), (1.5, 0.75)
_EDEMA, _NECROSIS, _ENHANCING, _PLEXUS = (0.82, 1.12), (0.45, 0.75), (1.5, 1.05), (1.45, 0.85)
_RADII_MM = (66.0, 82.0, 60.0)  # radii of the cerebrum
_BEND_MM = 5.0
_NOISE = 0.065  # standard deviation, relative to white matter in T1gd


@dataclass
class _Brain(Scene):
    """The state of a brain during painting.

    Attributes:
      images: `[2, x, y, z]` float32, T1gd and FLAIR painted so far.
      folds: `[x, y, z]` float32, random bands with values in -1..1, as wide as the cortical folds.
    """

    images: np.ndarray
    folds: np.ndarray

    def paint(self, mask: np.ndarray, intensities: tuple[float, float], texture: float = 0.0) -> None:
        """Sets the voxels of `mask` to intensities of T1gd and FLAIR, with smooth variations of about `texture`."""
        variation = texture * self.folds[mask]
        for image, intensity in zip(self.images, intensities, strict=True):
            image[mask] = intensity + variation


def paint_brain(
    rng: np.random.Generator, shape: tuple[int, int, int], spacing: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Paints one patient.

    Args:
      rng: the random number generator of the patient.
      shape: number of voxels along x, y, z.
      spacing: voxel size in mm along x, y, z.

    Returns:
      Intensities of T1gd and FLAIR in arbitrary units, int16 `[2, *shape]`, 0 outside the brain, and labels, uint8
      `[*shape]`: 0 background, 1 edema, 2 necrosis, 3 enhancing tumor.
    """
    straight = voxel_positions(shape, spacing)
    scene = _Brain(
        rng=rng,
        straight=straight,
        points=_bend(rng, straight),
        labels=np.zeros(shape, np.uint8),
        images=np.zeros((2, *shape), np.float32),
        folds=np.sin(9 * smooth_field(rng, shape, 7)),
    )
    brain, depth = _tissue(scene)
    ventricles = _deep_structures(scene, brain)
    _vessels(scene, brain)
    _tumors(scene, brain & ~ventricles, depth)
    return _scan(scene, brain), scene.labels


def _bend(rng: np.random.Generator, straight: np.ndarray) -> np.ndarray:
    """Returns patient coordinates of positions `[3, x, y, z]` in mm, randomly rotated, shifted, scaled and deformed."""
    turn = Rotation.from_euler("zyx", rng.uniform(-8, 8, 3), degrees=True).as_matrix()
    points = np.einsum("dc,cxyz->dxyz", turn.astype(np.float32), straight)
    points = (points - column(rng.uniform(-6, 6, 3))) / column(rng.uniform(0.9, 1.02, 3))
    return points + _BEND_MM * np.stack([smooth_field(rng, straight.shape[1:], 5) for _ in range(3)])


def _tissue(scene: _Brain) -> tuple[np.ndarray, np.ndarray]:
    """Paints white matter, the folded cortex and the fluid between the folds.

    Returns:
      The mask of the brain, and the depth of each voxel below the surface in mm, negative outside.
    """
    x, y, z = scene.points
    depth = _depth(scene, (0, 0, 0), _RADII_MM)
    # The base of the cerebrum is flat; the cerebellum and the brain stem are below it.
    depth = np.minimum(depth, z + 42 + 0.1 * y)
    cerebellum = _depth(scene, (0, -42, -38), (46, 32, 24))
    depth = np.maximum(depth, cerebellum)
    stem = scene.tube((0, -18, -25), (0, -28, -78), 12)
    brain = (depth > 0) | stem
    scene.paint(brain, _WHITE, 0.03)
    folds = depth + 5 * scene.folds
    scene.paint(brain & ~stem & (folds < 6), _GRAY, 0.03)
    scene.paint(brain & ~stem & ((folds < 0.5) & (depth < 9)), _FLUID)
    # The fissure between the hemispheres, with gray matter on both sides.
    above = brain & (z > 20 - 0.004 * y**2) & (cerebellum < 0)
    scene.paint(above & (np.abs(x) < 5 + 2 * scene.folds), _GRAY, 0.03)
    scene.paint(above & (np.abs(x) < 1.2), _FLUID)
    return brain, depth


def _depth(scene: _Brain, center: tuple[float, ...], radii: tuple[float, ...]) -> np.ndarray:
    """Returns the approximate depth below the surface of an ellipsoid in mm."""
    return (1 - np.sqrt(scene.ellipsoid(center, radii))) * np.float32(np.mean(radii))


def _deep_structures(scene: _Brain, brain: np.ndarray) -> np.ndarray:
    """Paints basal ganglia, ventricles with the choroid plexus, and bright white matter around the ventricles.

    Returns:
      The mask of the ventricles.
    """
    rng = scene.rng
    width = rng.uniform(0.8, 1.4)  # of the ventricles; they grow with age
    ventricles, halo, plexus = (np.zeros(brain.shape, bool) for _ in range(3))
    for side in (-1, 1):
        scene.paint(scene.organ((side * 27, 6, 0), (9, 20, 12)), _GRAY, 0.03)  # putamen
        scene.paint(scene.organ((side * 11, -12, 0), (8, 14, 9)), _GRAY, 0.03)  # thalamus
        horns = ((12, 30, 8), (9, 2, 15)), ((9, 2, 15), (16, -26, 10)), ((16, -26, 10), (24, -46, 0))
        for start, end in horns:
            start, end = (np.multiply(point, (side, 1, 1)) for point in (start, end))
            ventricles |= scene.tube(start, end, 5.5 * width)
            halo |= scene.tube(start, end, 5.5 * width + rng.uniform(0, 7))
        plexus |= scene.tube((side * 14, -20, 10), (side * 19, -34, 6), rng.uniform(2, 3.5))
    ventricles |= scene.organ((0, -4, -6), (2.5 * width, 13, 10))
    ventricles &= brain
    # In many older patients, FLAIR shows bright white matter around the ventricles and in small spots.
    halo &= scene.folds > rng.uniform(-0.9, 0.5)
    white = brain & (scene.images[T1GD] > 0.9)
    for _ in range(rng.integers(0, 12)):
        halo |= scene.organ(_draw(rng, white, scene.points), rng.uniform(2, 5, 3))
    scene.paint(halo & white, (0.85, rng.uniform(0.95, 1.2)), 0.06)
    scene.paint(ventricles, _FLUID)
    scene.paint(plexus & ventricles, _PLEXUS, 0.1)
    return ventricles


def _vessels(scene: _Brain, brain: np.ndarray) -> None:
    """Paints enhancing vessels: the sinus above the fissure, arteries at the base, and branches in both hemispheres."""
    rng, (width, length, height) = scene.rng, _RADII_MM
    angles = np.radians(np.arange(20, 181, 20))
    arc = [(0, 0.97 * length * np.cos(a), 0.97 * height * np.sin(a)) for a in angles]
    paths = [(start, end, rng.uniform(2.5, 3.5)) for start, end in itertools.pairwise(arc)]
    for side in (-1, 1):
        paths.append(((0, 8, -36), (side * 24, 6, -26), 2.2))
        paths.append(((side * 24, 6, -26), (side * 52, rng.uniform(-10, 10), 2), 2.0))
    for _ in range(rng.integers(6, 12)):
        start = rng.uniform(-0.75, 0.75, 3) * (width, length, height)
        paths.append((start, start + rng.normal(0, 16, 3), rng.uniform(1.2, 2.4)))
    for start, end, radius in paths:
        scene.paint(brain & scene.tube(start, end, radius), _VESSEL, 0.1)


def _tumors(scene: _Brain, tissue: np.ndarray, depth: np.ndarray) -> None:
    """Paints one tumor and, in one of four patients, a smaller second one, each with necrosis, rim and edema."""
    rng = scene.rng
    surface = smooth_field(rng, tissue.shape, 9)
    radii = [rng.uniform(15, 21)] + [rng.uniform(12, 14)] * (rng.random() < 0.25)
    for radius in radii:
        off_middle = tissue & (np.abs(scene.points[0]) > 14) & (scene.points[2] > -30) & (scene.labels == 0)
        center = _draw(rng, off_middle & (depth > 14), scene.points)
        distance = np.sqrt(scene.ellipsoid(center, rng.uniform(0.85, 1.15, 3)))
        core = tissue & (distance + 5 * surface < radius)
        rim_mm = rng.uniform(6.5, 8.5)
        necrosis = core & (distance + 5 * surface - 2 * scene.folds < radius - rim_mm)
        # Edema spreads in white matter and spares the cortex.
        reach = radius + rng.uniform(8, 15)
        spread = tissue & (distance + 9 * surface + 3 * scene.folds < reach)
        edema = spread & (depth + 5 * scene.folds > 5) & ~core & (scene.labels == 0)
        scene.paint(edema, _vary(rng, _EDEMA), 0.06)
        scene.labels[edema] = EDEMA
        scene.paint(core, _vary(rng, _ENHANCING), 0.1)
        scene.labels[core] = ENHANCING
        scene.paint(necrosis, _vary(rng, _NECROSIS), 0.06)
        scene.labels[necrosis] = NECROSIS


def _vary(rng: np.random.Generator, intensities: tuple[float, float]) -> tuple[float, float]:
    """Returns intensities that differ from patient to patient by up to 8 percent."""
    first, second = np.multiply(intensities, rng.uniform(0.92, 1.08, 2))
    return float(first), float(second)


def _draw(rng: np.random.Generator, mask: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the patient coordinates of a random voxel of a mask."""
    return points.reshape(3, -1)[:, rng.choice(np.flatnonzero(mask))]


def _scan(scene: _Brain, brain: np.ndarray) -> np.ndarray:
    """Returns the images as a scanner stores them: blurred, with a bias field and noise, in arbitrary units."""
    rng, shape = scene.rng, brain.shape
    images = np.empty((2, *shape), np.int16)
    for image, stored in zip(scene.images, images, strict=True):
        image = ndimage.gaussian_filter(image, 0.5)  # partial volume: voxels at a border mix both sides
        image *= np.exp(0.18 * smooth_field(rng, shape, 3))
        image += np.float32(_NOISE) * rng.standard_normal(shape, np.float32)
        image *= rng.uniform(250, 900)
        stored[brain] = np.clip(np.rint(image[brain]), 1, 32767)  # only the removed skull and background are 0
        stored[~brain] = 0
    return images
