"""Labels of regions of a volume: the same as those of the whole volume, from few voxels of the grid."""

import dataclasses
import itertools

import numpy as np
import pytest

from mtf_imaging.data.description.description import LITS, UNCLEAR, Description
from mtf_imaging.data.sampling import label_region
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.data.sampling.interpolation import needed_region
from mtf_imaging.data.sampling.label_region import label_slabs, labels_of_region, region_of_slice, resampled_region
from mtf_imaging.data.sampling.regions import region_shape
from mtf_imaging.data.sampling.sampling import AVERAGE, LINE, NEAREST, SPLINE, Sampling, Span, way_back
from tests.data.resampling import resample_to_labels

SHAPE, SPACING = (13, 22, 17), (1.1, 0.8, 1.5)
SAMPLINGS = {
    "coarser": Sampling((8, 8, 8)),
    "finer": Sampling((16, 32, 24)),
    "the same": Sampling(SHAPE),
    "padded": Sampling((16, 28, 24), SPACING),
    "cropped": Sampling((6, 9, 7), (1.5, 1.5, 2.0)),
}
CUTS = {8: [0, 3, 3, 8], 16: [0, 4, 8, 12, 16]}


def pieces(grid):
    """Returns regions that divide a grid; some are empty."""
    cuts = [CUTS.get(n, [0, n // 3, n, n]) for n in grid]
    return [tuple(slice(*ends) for ends in corner) for corner in itertools.product(*map(itertools.pairwise, cuts))]


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_slices_of_the_grid_give_the_labels_of_the_whole_volume(sampling, dtype):
    part, back = way_back(sampling.spans(SHAPE, SPACING), SHAPE)
    probabilities = np.random.default_rng(0).random((*sampling.grid, 3)).astype(dtype)[part]
    grid, labels = probabilities.shape[:3], np.full(SHAPE, 9, np.uint8)
    expected = resample_to_labels(probabilities, back)
    for piece in pieces(grid):
        region = region_of_slice(grid, back, piece)
        needed = needed_region(grid, back, region)
        assert (labels[region] == 9).all(), "regions overlap"
        labels[region] = labels_of_region(probabilities[needed], grid, back, region)
    np.testing.assert_array_equal(labels, expected)
    assert len(np.unique(expected)) == 3


def test_a_region_needs_its_slice_and_one_voxel_around_it():
    grid, (_, back) = (8, 8, 8), way_back(Sampling((8, 8, 8)).spans((16, 16, 16), SPACING), (16, 16, 16))
    region = region_of_slice(grid, back, (slice(2, 4), slice(0, 8), slice(6, 8)))
    assert region == (slice(4, 8), slice(0, 16), slice(12, 16))
    assert needed_region(grid, back, region) == (slice(1, 5), slice(0, 8), slice(5, 8))
    assert needed_region(grid, back, (slice(4, 4), slice(0, 16), slice(0, 16))) == (slice(0, 0),) * 3


@pytest.mark.parametrize(("nbytes", "planes"), [(1, 1), (4 * 3 * 13 * 22 * 5, 5), (1 << 25, 17)])
def test_slabs_are_as_thick_as_memory_allows(monkeypatch, nbytes, planes):
    monkeypatch.setattr(label_region, "_SLAB_BYTES", nbytes)
    _, back = way_back(Sampling(SHAPE).spans(SHAPE, SPACING), SHAPE)
    slabs = list(label_slabs(SHAPE, back, whole_region(SHAPE), 3))
    assert [slab[2].stop - slab[2].start for slab in slabs[:-1]] == [planes] * (len(slabs) - 1)
    assert slabs[0][2].start == 0
    assert slabs[-1][2].stop == SHAPE[2]
    assert {region_shape(slab)[:2] for slab in slabs} == {SHAPE[:2]}


REGIONS = Description(
    channels=("CT",),
    labels={"liver": 1, "lesion": 2},
    masks={"liver": (1, 2), "lesion": (2,)},
    region_order=(1, 2),
)
DESCRIPTIONS = {
    "classes": (LITS, 3),
    "logits": (dataclasses.replace(LITS, has_logits=True), 3),
    "regions": (REGIONS, 2),
    "logits of regions": (dataclasses.replace(REGIONS, has_logits=True), 2),
    "one label twice": (dataclasses.replace(REGIONS, region_order=(1, 1)), 2),
}


@pytest.mark.parametrize("factors", [None, (0.5, 2.0, 3.0)], ids=["as they are", "weighted"])
@pytest.mark.parametrize("kernel", [AVERAGE, LINE, SPLINE, NEAREST])
@pytest.mark.parametrize(("description", "values"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_labels_equal_those_of_interpolated_values(monkeypatch, description, values, kernel, factors):
    monkeypatch.setattr(label_region, "_PART_VALUES", 60)
    rng, grid = np.random.default_rng(7), (12, 10, 9)
    back = tuple(Span(0.0, n, size, kernel=kernel) for n, size in zip(grid, (29, 17, 30), strict=True))
    factors = None if factors is None else np.array(factors[:values])
    for noise in (0.0, 0.2, 1.0):
        # Blocks of voxels with one label each, and values close to the decision.
        blocks = np.kron(rng.random((3, 3, 3, values)), np.ones((4, 4, 4, 1)))[:12, :10, :9]
        field = (noise * rng.random((*grid, values)) + (1 - noise) * np.rint(2 * blocks) / 2).astype(np.float32)
        field = 4 * field - 2 if description.has_logits else field
        resampled = resampled_region(field, grid, back, whole_region((29, 17, 30)))
        if factors is None:
            expected = description.to_labels(resampled)
        else:
            expected = description.of_probabilities.to_labels(description.probabilities(resampled) * factors)
        labels = labels_of_region(field, grid, back, whole_region((29, 17, 30)), description, factors)
        np.testing.assert_array_equal(labels, expected)
        assert len(np.unique(expected)) > 1


def test_weights_of_splines_can_make_another_label_than_that_of_all_voxels():
    field = np.zeros((8, 8, 8, 2), np.float32)
    field[..., 1] = 0.1
    field[4, ..., 1] = 9.0
    back = tuple(Span(0.0, 8, 24, kernel=SPLINE) for _ in range(3))
    assert LITS.to_labels(field).all()
    assert not labels_of_region(field, (8, 8, 8), back, whole_region((24, 24, 24))).all()


@pytest.mark.parametrize(("description", "values"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_close_decisions_are_unclear(description, values):
    decided = np.full((2, values), 0.0 if description.has_logits else 0.5, np.float32)
    decided[0, 1], decided[1, 1] = decided[0, 1] + 1e-6, decided[1, 1] + 0.3
    if description.region_order is not None:
        decided[1, 0] -= 0.2
    sure = UNCLEAR if description.region_order == (1, 1) else description.to_labels(decided)[1]
    assert description.clear_labels(decided).tolist() == [UNCLEAR, sure]
