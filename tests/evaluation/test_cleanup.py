"""Clean-up rules on small masks, and on random masks against a plain flood fill."""

import itertools
import logging
from pathlib import Path

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup.cleanup import Cleanup
from tests.data.oriented import store_nifti
from tests.evaluation.oracle import HU_OF_LABEL, oracle
from tests.kinds.volumes import predict_cases


def keep_largest_liver(labels):
    return Cleanup(largest_liver=True)(labels, (1.0, 1.0, 1.0), Path())


def drop_lesions_outside(labels):
    return Cleanup(lesions_in_liver=True)(labels, (1.0, 1.0, 1.0), Path())


FUNCTIONS = (keep_largest_liver, drop_lesions_outside)


def mask(**blocks):
    """Returns labels 8 x 8 x 8 with cubes name=(label, corner, size); later cubes overwrite earlier ones."""
    labels = np.zeros((8, 8, 8), np.uint8)
    for label, corner, size in blocks.values():
        labels[tuple(slice(at, at + size) for at in corner)] = label
    return labels


def components(mask):
    """Returns the sets of voxels connected through faces, ordered by their first voxel, found by a flood fill."""
    left, result = dict.fromkeys(map(tuple, np.argwhere(mask).tolist())), []
    while left:
        component, front = set(), [next(iter(left))]
        while front:
            voxel = front.pop()
            if voxel in left:
                del left[voxel]
                component.add(voxel)
                front += neighbors(voxel)
        result.append(component)
    return result


def neighbors(voxel):
    for axis, step in itertools.product(range(3), (-1, 1)):
        yield tuple(at + step * (a == axis) for a, at in enumerate(voxel))


def test_the_largest_component_of_liver_and_lesions_stays():
    labels = mask(liver=(1, (0, 0, 0), 4), lesion=(2, (1, 1, 3), 2), other=(1, (6, 6, 6), 2), far=(2, (0, 6, 6), 1))
    kept = keep_largest_liver(labels)
    np.testing.assert_array_equal(kept, mask(liver=(1, (0, 0, 0), 4), lesion=(2, (1, 1, 3), 2)))
    assert labels[7, 7, 7] == 1, "the argument is unchanged"
    # Lesions count: 8 + 1 voxels are more than 8.
    labels = mask(a=(1, (0, 0, 0), 2), b=(1, (4, 4, 4), 2), lesion=(2, (6, 4, 4), 1))
    np.testing.assert_array_equal(keep_largest_liver(labels), mask(b=(1, (4, 4, 4), 2), lesion=(2, (6, 4, 4), 1)))


def test_edges_do_not_connect():
    labels = mask(a=(1, (0, 0, 0), 3), b=(1, (3, 3, 0), 2))
    np.testing.assert_array_equal(keep_largest_liver(labels), mask(a=(1, (0, 0, 0), 3)))
    labels = mask(liver=(1, (0, 0, 0), 3), lesion=(2, (3, 3, 0), 2))
    np.testing.assert_array_equal(drop_lesions_outside(labels), mask(liver=(1, (0, 0, 0), 3)))


@pytest.mark.parametrize(("first", "second"), [((0, 4, 4), (4, 0, 0)), ((0, 0, 4), (0, 4, 0)), ((0, 0, 0), (0, 0, 4))])
@pytest.mark.parametrize("order", "CF")
def test_of_equal_components_the_first_along_x_then_y_then_z_stays(first, second, order):
    labels = np.asarray(mask(a=(1, second, 2), b=(1, first, 2)), order=order)
    np.testing.assert_array_equal(keep_largest_liver(labels), mask(b=(1, first, 2)))


def test_lesions_that_share_a_face_with_the_liver_stay():
    within, rim = (2, (2, 2, 2), 1), (2, (1, 1, 5), 2)
    labels = mask(liver=(1, (0, 0, 0), 5), within=within, rim=rim, outside=(2, (6, 6, 6), 2))
    np.testing.assert_array_equal(drop_lesions_outside(labels), mask(liver=(1, (0, 0, 0), 5), within=within, rim=rim))
    only = mask(lesion=(2, (2, 2, 2), 3))
    assert not drop_lesions_outside(only).any()
    assert only.any()


def test_masks_with_nothing_to_remove_are_returned_unchanged():
    liver = mask(liver=(1, (0, 0, 0), 8), lesion=(2, (0, 0, 0), 2))
    for function, labels in itertools.product(FUNCTIONS, (mask(), liver, mask(liver=(1, (7, 7, 7), 1)))):
        assert function(labels) is labels


@pytest.mark.parametrize("seed", range(5))
def test_random_masks_against_a_flood_fill(seed):
    labels = np.random.default_rng(seed).choice(3, (9, 8, 7), p=[0.7, 0.15, 0.15]).astype(np.uint8)
    largest = max(components(labels > 0), key=len)  # the first component wins a tie
    expected = np.zeros_like(labels)
    expected[tuple(np.transpose(list(largest)))] = 1
    np.testing.assert_array_equal(keep_largest_liver(labels), labels * expected)

    expected = labels.copy()
    at = {tuple(voxel): labels[tuple(voxel)] for voxel in np.argwhere(labels).tolist()}
    for lesion in components(labels == 2):
        if not any(at.get(other) == 1 for voxel in lesion for other in neighbors(voxel)):
            expected[tuple(np.transpose(list(lesion)))] = 0
    np.testing.assert_array_equal(drop_lesions_outside(labels), expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_do_not_depend_on_orientation_or_memory_order(function):
    labels = np.random.default_rng(3).choice(3, (9, 8, 7), p=[0.8, 0.1, 0.1]).astype(np.uint8)
    labels[2:7, 2:7, 2:7] = 1  # one component is the largest, so the order of the axes decides no tie
    expected = function(labels)
    for axes in itertools.permutations(range(3)):
        for flips in itertools.product((1, -1), repeat=3):
            turn = tuple(slice(None, None, flip) for flip in flips)
            np.testing.assert_array_equal(function(labels.transpose(axes)[turn]), expected.transpose(axes)[turn])


def test_the_rules_apply_in_order_and_log_what_they_remove(caplog):
    caplog.set_level(logging.INFO)
    labels = mask(liver=(1, (0, 0, 0), 3), outside=(2, (4, 4, 4), 2), small=(1, (7, 7, 0), 1), its=(2, (7, 7, 1), 1))
    path, spacing = Path("volume-3.nii"), (0.5, 0.5, 2.0)
    assert Cleanup()(labels, spacing, path) is labels
    assert not caplog.records
    kept = Cleanup(lesions_in_liver=True)(labels, spacing, path)
    np.testing.assert_array_equal(kept, np.where(mask(outside=(1, (4, 4, 4), 2)), 0, labels))
    assert "volume-3.nii: the rule lesions_in_liver removed 8 voxels, 4 mm^3" in caplog.text
    kept = Cleanup(True, True)(labels, spacing, path)
    np.testing.assert_array_equal(kept, mask(liver=(1, (0, 0, 0), 3)))
    assert "the rule largest_liver removed 10 voxels, 5 mm^3" in caplog.text
    # If the largest "liver" consists of lesion alone, the second rule removes it.
    only = mask(lesion=(2, (0, 0, 0), 3), liver=(1, (6, 6, 6), 1))
    assert not Cleanup(True, True)(only, spacing, path).any()


def test_rules_must_be_true_or_false():
    with pytest.raises(ConfigError) as error:
        Cleanup(largest_liver="no")
    assert str(error.value) == "largest_liver must be True or False, not 'no'."
    assert error.value.settings == ("largest_liver",)


@pytest.mark.parametrize("codes", ["RAS", "LPS", "SAL"])
def test_predictions_are_cleaned_up_in_any_orientation(tmp_path, codes):
    labels = mask(liver=(1, (0, 0, 0), 4), lesion=(2, (1, 1, 1), 1), tie=(1, (4, 4, 4), 4), far=(2, (0, 6, 6), 1))
    store_nifti(tmp_path / "volume-1.nii", HU_OF_LABEL[labels], codes, np.diag([1.5, 1.5, 1.5, 1]))
    for cleanup, expected in (
        (Cleanup(), labels),
        (Cleanup(lesions_in_liver=True), np.where(mask(far=(1, (0, 6, 6), 1)), 0, labels)),
        (Cleanup(largest_liver=True), mask(liver=(1, (0, 0, 0), 4), lesion=(2, (1, 1, 1), 1))),
    ):
        out = tmp_path / "out.nii"
        options = {"progress": False, "overwrite": True, "cleanup": cleanup}
        predict_cases(tmp_path / "volume-1.nii", out, Sampling((8, 8, 8)), oracle, **options)
        written = np.asarray(nibabel.as_closest_canonical(nibabel.load(out)).dataobj)
        np.testing.assert_array_equal(written, expected)
