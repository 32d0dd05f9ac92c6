"""Paints a procedural abdomen: the Hounsfield units and labels of a synthetic patient.

The origin of the patient frame lies in the middle of the body at the height of the liver. The result is plausible, but
not anatomically exact. It lets you run, test and demonstrate a whole job without patient data.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.spatial.transform import Rotation

from mtf_imaging.data.phantom.scene import Scene, column, smooth_field, voxel_positions

LIVER, LESION = 1, 2
_BEND_MM = 9.0
# Draws the number of lesions, and returns an iterator that draws the diameter of each lesion in mm.
Diameters = Callable[[np.random.Generator], Iterator[float]]


@dataclass
class _Abdomen(Scene):
    """The state of an abdomen during painting.

    Attributes:
      texture: `[x, y, z]` float32, a smooth random field with values in about -1..1.
      hu: `[x, y, z]` float32, the image painted so far.
    """

    texture: np.ndarray
    hu: np.ndarray

    def paint(self, mask: np.ndarray, hu: float, texture: float = 0.0) -> None:
        """Sets the voxels of `mask` to `hu`, with smooth variations of up to about `texture` HU."""
        self.hu[mask] = hu + texture * self.texture[mask]


def large_lesions(rng: np.random.Generator) -> Iterator[float]:
    """Draws 0 to 6 lesions of 3 to 30 mm, most of them large enough to see at 64^3 voxels."""
    count = rng.choice(7, p=(0.05, 0.03, 0.12, 0.2, 0.25, 0.2, 0.15))
    # The first lesion is always large; one in six of the others is tiny.
    tiny = (number > 0 and rng.random() < 1 / 6 for number in range(count))
    return (rng.uniform(3, 10) if is_tiny else rng.uniform(24, 30) for is_tiny in tiny)


def small_lesions(rng: np.random.Generator) -> Iterator[float]:
    """Draws 8 to 14 lesions of 5 to 30 mm, two in five of them below 10 mm, to show the effect of resolution."""
    return (float(np.exp(rng.uniform(np.log(5), np.log(30)))) for _ in range(rng.integers(8, 15)))


def paint_abdomen(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    spacing: tuple[float, float, float],
    diameters: Diameters = large_lesions,
) -> tuple[np.ndarray, np.ndarray]:
    """Paints one patient.

    Args:
      rng: the random number generator of the patient.
      shape: number of voxels along x, y, z.
      spacing: voxel size in mm along x, y, z.
      diameters: a function that draws the diameters of the lesions.

    Returns:
      HU without noise, float32 `[*shape]`, and labels, uint8 `[*shape]`: 0 background, 1 liver, 2 lesion.
    """
    straight = voxel_positions(shape, spacing)
    scene = _Abdomen(
        rng=rng,
        straight=straight,
        points=_bend(rng, straight),
        texture=smooth_field(rng, shape, 14),
        hu=np.full(shape, -1000, np.float32),
        labels=np.zeros(shape, np.uint8),
    )
    wall, abdomen = _trunk(scene)
    _soft_organs(scene, abdomen)
    _liver(scene, abdomen, diameters)
    _skeleton(scene, wall)
    return scene.hu, scene.labels


def _bend(rng: np.random.Generator, straight: np.ndarray) -> np.ndarray:
    """Returns patient coordinates of positions `[3, x, y, z]` in mm, randomly rotated, shifted, scaled and deformed."""
    turn = Rotation.from_euler("zx", rng.uniform(-6, 6, 2), degrees=True).as_matrix()
    points = np.einsum("dc,cxyz->dxyz", turn.astype(np.float32), straight)
    # The field of view is centered on the liver, slightly above the origin, and includes the base of the lungs.
    points = (points - column(rng.uniform((-12, -12, -28), (12, 12, -8)))) / column(rng.uniform(0.88, 0.98, 3))
    return points + _BEND_MM * np.stack([smooth_field(rng, straight.shape[1:], 5) for _ in range(3)])


def _trunk(scene: _Abdomen) -> tuple[np.ndarray, np.ndarray]:
    """Paints skin, fat, muscle, lungs and heart.

    Returns:
      The squared distance from the middle of the body in units of the chest wall, and the mask of the abdominal cavity.
    """
    rng, (x, y, z) = scene.rng, scene.points
    fat = rng.uniform(8, 22)
    width, depth = rng.uniform(132, 146), rng.uniform(92, 104)
    waist = (1 - 0.05 * np.tanh((z + 90) / 50) ** 2) ** 2
    body = scene.ellipsoid((0, 0, 0), (width + fat, depth + fat, 1e6)) < waist
    wall = scene.ellipsoid((0, 0, 0), (width, depth, 1e6)) / waist
    inner = wall < 0.86
    scene.paint(body, -100, 12)
    scene.paint(wall < 1, 52, 12)
    back = scene.tube((-34, -78, -250), (-34, -78, 250), 24) | scene.tube((34, -78, -250), (34, -78, 250), 24)
    # The diaphragm has a dome on each side; the right dome is higher because the liver is under it.
    right, left = ((x - 65) / 60) ** 2 + ((y - 5) / 75) ** 2, ((x + 65) / 55) ** 2 + (y / 75) ** 2
    dome = 92 + 22 * np.exp(-right) + 8 * np.exp(-left) - 75 * np.maximum(wall - 0.3, 0)
    chest = inner & (z > dome)
    scene.paint(chest, -850, 40)
    scene.paint(chest & scene.organ((-22, 25, 140), (52, 45, 48)), 120, 15)
    abdomen = inner & ~chest
    scene.paint(abdomen, -85, 25)
    scene.paint(back & (wall < 1), 55, 15)
    return wall, abdomen


def _soft_organs(scene: _Abdomen, abdomen: np.ndarray) -> None:
    """Paints bowel, stomach, spleen, kidneys and the great vessels."""
    rng = scene.rng
    bowel = abdomen & (scene.points[2] < -10 - 0.4 * scene.points[0]) & (scene.texture > -0.05)
    scene.paint(bowel, 35, 40)
    stomach = abdomen & scene.organ((-55, 45, 45), (42, 32, 48))
    scene.paint(stomach, 22, 15)
    scene.paint(stomach & (scene.points[1] > 62), -900)  # swallowed air rises to the front
    scene.paint(abdomen & scene.organ((-98, -35, 52), (24, 38, 46)), rng.uniform(105, 125), 5)
    for side in (-1, 1):
        center = (side * rng.uniform(56, 64), -52, rng.uniform(-62, -42))
        scene.paint(abdomen & scene.organ(center, (28, 26, 54)), rng.uniform(150, 190), 10)
        scene.paint(abdomen & scene.organ((center[0] - side * 8, -48, center[2]), (12, 12, 30)), 15)
    scene.paint(scene.tube((-10, -42, -250), (-14, -40, 250), rng.uniform(9, 12)), rng.uniform(170, 230))
    scene.paint(scene.tube((18, -36, -250), (26, -30, 100), rng.uniform(10, 13)), rng.uniform(130, 160))


def _liver(scene: _Abdomen, abdomen: np.ndarray, diameters: Diameters) -> None:
    """Paints the two lobes of the liver within the cavity, their vessels, the gallbladder and the lesions."""
    rng = scene.rng
    right = scene.organ((68, 2, 38), (66, 78, 84))
    left = scene.organ((4, 42, 62), (74, 36, 40))
    x, y, z = scene.points
    visceral = z < -0.55 * x - 0.1 * y + rng.uniform(-8, 8)  # the slanted lower face
    liver = abdomen & (right | left) & ~visceral & ~scene.organ((22, -45, 30), (34, 34, 200))
    parts, count = ndimage.label(liver)
    if count > 1:
        liver = parts == 1 + np.argmax(np.bincount(parts.ravel())[1:])
    level = rng.uniform(100, 125)
    scene.paint(liver, level, 6)
    hilum = np.array([28, 5, 28])
    for tip in ((100, 10, 70), (95, -35, 20), (60, 45, 60), (-25, 50, 68), (70, -20, 95)):
        middle = (hilum + tip) / 2 + rng.uniform(-10, 10, 3)
        radius = rng.uniform(4.5, 6.5)
        vessels = scene.tube(hilum, middle, radius) | scene.tube(middle, tip + rng.uniform(-12, 12, 3), 0.7 * radius)
        scene.paint(liver & vessels, level + rng.uniform(55, 80))
    scene.paint(abdomen & ~liver & scene.organ((42, 38, 2), (15, 22, 24)), 12)  # gallbladder
    scene.labels[liver] = LIVER
    _lesions(scene, liver, level, diameters(rng))


def _lesions(scene: _Abdomen, liver: np.ndarray, level: float, diameters: Iterator[float]) -> None:
    """Paints dark lesions within the liver."""
    rng = scene.rng
    inner = np.flatnonzero(ndimage.binary_erosion(liver, iterations=3))
    if not inner.size:
        return
    for diameter in diameters:
        at = np.unravel_index(rng.choice(inner), liver.shape)
        radii = diameter / 2 * rng.uniform(0.9, 1, 3)
        offsets = (scene.straight - scene.straight[(slice(None), *at)][:, None, None, None]) / column(radii)
        lesion = liver & (
            np.einsum("cxyz,cxyz->xyz", offsets, offsets) < 1 - 0.3 * np.abs(scene.texture)
        )  # uneven surface
        lesion[at] = True  # a lesion smaller than a voxel still fills one voxel
        scene.paint(lesion, level - rng.uniform(60, 80), 4)
        scene.labels[lesion] = LESION


def _skeleton(scene: _Abdomen, wall: np.ndarray) -> None:
    """Paints vertebrae with disks, and ribs that slope down toward the front within the chest wall."""
    rng, (x, y, z) = scene.rng, scene.points
    bony = (z % 32) > 7
    body = scene.ellipsoid((0, -66, 0), (21, 16, 1e6))
    scene.paint((body < 1) & ~bony, 80)
    scene.paint((body < 1) & bony, 450, 40)
    scene.paint((body < 0.65) & bony, rng.uniform(180, 260), 40)
    scene.paint(scene.ellipsoid((0, -90, 0), (17, 11, 1e6)) < 1, 500, 60)
    scene.paint(scene.ellipsoid((0, -88, 0), (8, 7, 1e6)) < 1, 25)
    slope = (z + 0.45 * y) % 30
    margin = -10 - 0.5 * np.abs(x) + 0.6 * np.maximum(y, 0)  # no ribs below the costal arch in front
    ribs = (wall > 0.875) & (wall < 0.965) & (slope < 11) & (z > margin) & (np.abs(x) > 14)
    scene.paint(ribs, rng.uniform(350, 500), 60)
