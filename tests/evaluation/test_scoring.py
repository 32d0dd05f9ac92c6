"""Compares our own measures with voxel counts on random and empty masks; see `test_official` for official scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtf_imaging.evaluation.volume_scores.case import score_case
from mtf_imaging.evaluation.volume_scores.components import find_components
from mtf_imaging.evaluation.volume_scores.lesions import Lesion, find_lesions
from mtf_imaging.evaluation.volume_scores.overlap import Overlap, overlap
from mtf_imaging.evaluation.volume_scores.summary import summarize
from mtf_imaging.evaluation.volume_scores.surface import surface_distances, surface_voxels
from tests.evaluation import by_hand

spacings = st.tuples(*[st.sampled_from([0.5, 0.7, 1.0, 2.5])] * 3)


@st.composite
def label_arrays(draw, number=2):
    """Draws label arrays of one shape with values 0, 1 and 2, from empty to almost full."""
    shape = draw(st.tuples(*[st.integers(1, 6)] * 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arrays = []
    for _ in range(number):
        share = draw(st.sampled_from([0.0, 0.1, 0.4, 0.8]))
        arrays.append((rng.random(shape) < share) * rng.integers(1, 3, shape).astype(np.uint8))
    return arrays


@settings(max_examples=300)
@given(label_arrays(), spacings)
def test_a_case_equals_counts_of_voxels(labels, spacing):
    case = score_case("0", *labels, spacing)
    for name, is_in in (("liver", lambda a: a >= 1), ("lesion", lambda a: a == 2)):
        p, r = (by_hand.voxels(is_in(a)) for a in labels)
        counts = case.overlaps[name]
        assert (counts.intersection, counts.prediction, counts.reference) == (len(p & r), len(p), len(r))
        if p or r:
            assert counts.dice == pytest.approx(2 * len(p & r) / (len(p) + len(r)))
            assert counts.voe == pytest.approx(1 - len(p & r) / len(p | r))
        if r:
            assert counts.rvd == pytest.approx((len(p) - len(r)) / len(r))
        assert (case.distances[name] is None) == (not p or not r)
    pairs = by_hand.lesions(*(a == 2 for a in labels))
    assert sorted(shape_of(x.overlap) for x in case.lesions) == sorted((len(p & r), len(p), len(r)) for p, r in pairs)
    check_detection(summarize([case])["detection"], pairs)


def check_detection(found, pairs):
    for name, least in (("iou_above_0", 0.0), ("iou_above_0.5", 0.5)):
        true = sum(len(p & r) / len(p | r) > least for p, r in pairs)
        counts = [found[name][key] for key in ("true_positives", "false_positives", "false_negatives")]
        assert counts == [true, sum(bool(p) for p, _ in pairs) - true, sum(bool(r) for _, r in pairs) - true]
        by_size = found[name]["by_size"].values()
        assert sum(size["true_positives"] for size in by_size) == true


def shape_of(overlap):
    return overlap.intersection, overlap.prediction, overlap.reference


def row(text):
    """Returns a mask along x from a row of dots and crosses."""
    return np.array([c != "." for c in text])[:, None, None]


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("xxx.xxx..", "xx.xxxx..", [(2, 3, 2), (3, 3, 4)]),
        ("xxxxxxx..", "xxx.xxx..", [(6, 7, 6)]),  # a predicted lesion merges two reference lesions
        ("xxx.xxx..", "xxxxxxx..", [(6, 6, 7)]),  # a reference lesion merges two predicted lesions
        (".xxxx.xx.", "xx.xxxxx.", [(5, 6, 7)]),  # both at once; the first lesion wins a tie
        ("xx...x...", "xx......x", [(0, 0, 1), (0, 1, 0), (2, 2, 2)]),  # missed, false, found
        (".........", ".........", []),
    ],
)
def test_lesions_connected_by_a_lesion_of_the_other_mask_are_merged(prediction, reference, expected):
    found = find_lesions(find_components(row(prediction), row(reference)), (1, 1, 1))
    assert sorted(shape_of(lesion.overlap) for lesion in found) == expected


def test_a_lesion_at_half_its_union_is_not_detected():
    (lesion,) = find_lesions(find_components(row("xx"), row(".x")), (1, 1, 1))
    assert [lesion.is_detected(iou) for iou in (0.0, 0.49, 0.5)] == [True, True, False]


def test_sizes_are_diameters_of_spheres_of_the_same_volume():
    ball = np.indices((25, 25, 9)) - np.array([12, 12, 4])[:, None, None, None]
    ball = (np.square(ball * np.array([1, 1, 3])[:, None, None, None]).sum(0)) < 100  # 20 mm across, voxels of 3 mm
    (lesion,) = find_lesions(find_components(ball, np.zeros_like(ball)), (1, 1, 3))
    assert lesion.diameter == pytest.approx(20, abs=0.5)
    (smaller,) = find_lesions(find_components(np.zeros_like(ball), ball), (0.4, 0.4, 1.2))
    assert (smaller.size_bin, smaller.diameter) == ("below 10 mm", pytest.approx(0.4 * lesion.diameter))


@pytest.mark.parametrize(
    ("prediction", "reference", "voxels"),
    [("xx......", "xxxxxxxx", 8), ("xxxxxxxx", "xx......", 2), ("xxxx....", "........", 4)],
)
def test_the_diameter_of_a_lesion_is_that_of_its_reference(prediction, reference, voxels):
    """The size bins count reference lesions; only a lesion without a reference has its predicted size."""
    (lesion,) = find_lesions(find_components(row(prediction), row(reference)), (1, 1, 2))
    assert np.pi / 6 * lesion.diameter**3 == pytest.approx(voxels * 2)


@pytest.mark.parametrize(("diameter", "size_bin"), [(9.9, "below 10 mm"), (10, "10 to 20 mm"), (20, "above 20 mm")])
def test_a_size_bin_includes_its_lower_bound(diameter, size_bin):
    assert Lesion(Overlap(0, 0, 1), None, diameter).size_bin == size_bin


def test_surfaces_end_at_the_edge_of_the_volume():
    everything = np.ones((3, 3, 3), bool)
    found = surface_distances(everything, everything & (np.indices((3, 3, 3))[0] < 2), (1, 1, 5))
    assert (found.mssd, found.hd95) == (1.0, 1.0)


def test_the_surface_includes_voxels_with_an_outside_neighbor_across_an_edge():
    """A cube with 5 voxels per side lacks one edge; with 18 neighbors, the voxels behind this edge are surface."""
    cube = np.ones((5, 5, 5), bool)
    notched = cube.copy()
    notched[0, 0, :] = False
    found = surface_distances(notched, cube, (1, 1, 1))
    # 5 surface voxels of the cube lie 1 mm from the other surface, and 3 of the notched cube.
    assert len(surface_voxels([cube])[1]) == 98
    assert len(surface_voxels([notched])[1]) == 98 - 5 + 3
    assert found.assd == pytest.approx((5 + 3) / (98 + 96))
    assert found.mssd == 1.0


def test_hd95_is_the_larger_percentile_of_both_directions():
    """A far voxel of the prediction counts in one direction only."""
    reference = row("xxxxxxxxxxxxxxxxxxxx...................")
    prediction = row("xxxxxxxxxxxxxxxxxxxx..................x")
    found = surface_distances(prediction, reference, (2, 1, 1))
    assert found.hd95 == pytest.approx(np.percentile([0] * 20 + [2 * 19], 95))
    assert found.mssd == 38


def test_empty_masks():
    full, empty = np.ones((2, 2, 2), np.uint8), np.zeros((2, 2, 2), np.uint8)
    right = summarize([score_case("0", full, full, (1, 1, 1)), score_case("1", empty, empty, (1, 1, 1))])
    assert right["liver"]["dice_per_case"] == right["lesion"]["dice_per_case"] == right["lesion"]["dice_global"] == 1
    assert right["liver"]["undefined"] == {"voe": 0, "rvd": 0, "assd": 1, "rmsd": 1, "mssd": 1, "hd95": 1}
    assert right["lesion"]["assd"] is None
    assert right["tumor_burden"] == {"rmse": 0.0, "max_error": 0.0, "undefined": 1}
    assert right["detection"]["iou_above_0"]["f1"] is None
    wrong = summarize([score_case("0", full, empty, (1, 1, 1)), score_case("1", empty, full, (1, 1, 1))])
    assert (wrong["liver"]["dice_per_case"], wrong["liver"]["voe"]) == (0, 1)
    assert (wrong["liver"]["rvd"], wrong["liver"]["undefined"]["rvd"]) == (-1, 1)
    assert wrong["tumor_burden"] == {"rmse": None, "max_error": None, "undefined": 2}


def test_dice_per_case_and_global_dice():
    """A wrong small case counts as much as a large case in the mean over cases, but little in the global Dice."""
    large = np.full((8, 1, 1), 2, np.uint8)
    small = [np.array(labels, np.uint8)[:, None, None] for labels in ([2, 0, 0, 0], [0, 0, 0, 2])]
    found = summarize([score_case("0", large, large, (1, 1, 1)), score_case("1", *small, (1, 1, 1))])["lesion"]
    assert (found["dice_per_case"], found["dice_global"]) == (0.5, pytest.approx(16 / 18))
    assert overlap(large == 2, large == 2).dice == 1
