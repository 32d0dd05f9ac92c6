"""Surface distances agree with surface-distance (Nikolov et al. 2018), which weights surface elements by their area."""

import numpy as np
import pytest
import surface_distance

from mtf_imaging.evaluation.volume_scores.overlap import overlap
from mtf_imaging.evaluation.volume_scores.surface import surface_distances
from tests.references.masks import CUBE, PAIRS, SPACING

# surface-distance 0.1 imports from an old name of SciPy.
pytestmark = pytest.mark.filterwarnings("ignore:Please import .* from the .scipy.ndimage. namespace:DeprecationWarning")
VOXEL = float(np.linalg.norm(SPACING))


@pytest.mark.parametrize("name", PAIRS)
def test_dice(name):
    prediction, reference = PAIRS[name]
    expected = surface_distance.compute_dice_coefficient(reference, prediction)
    assert overlap(prediction, reference).dice == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_distances_agree_within_a_voxel(name):
    """Its surfaces lie between voxels, ours at the centers of voxels, so each distance differs by a voxel at most."""
    prediction, reference = PAIRS[name]
    ours = surface_distances(prediction, reference, SPACING)
    theirs = surface_distance.compute_surface_distances(reference, prediction, SPACING)
    largest = surface_distance.compute_robust_hausdorff(theirs, 100)
    assert abs(ours.mssd - largest) <= VOXEL
    assert abs(ours.assd - np.mean(surface_distance.compute_average_surface_distance(theirs))) <= VOXEL


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("voxels", [1, 2])
def test_a_shifted_cube_has_the_distance_of_the_shift(axis, voxels):
    """The two faces across the axis of the shift have this distance in both programs."""
    moved = np.roll(CUBE, voxels, axis)
    ours = surface_distances(moved, CUBE, SPACING)
    theirs = surface_distance.compute_surface_distances(CUBE, moved, SPACING)
    assert ours.mssd == pytest.approx(voxels * SPACING[axis], abs=1e-6)
    assert surface_distance.compute_robust_hausdorff(theirs, 100) == pytest.approx(ours.mssd, abs=1e-6)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, 3.0, 100.0])
def test_the_surface_dice_of_equal_masks_is_one(tolerance):
    theirs = surface_distance.compute_surface_distances(CUBE, CUBE, SPACING)
    expected = surface_distance.compute_surface_dice_at_tolerance(theirs, tolerance)
    assert surface_distances(CUBE, CUBE, SPACING, tolerance).surface_dice == pytest.approx(expected, abs=1e-9)
