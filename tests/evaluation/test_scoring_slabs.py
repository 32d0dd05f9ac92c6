"""Scores in slabs: exactly those of the whole volume, and no read is larger than a slab."""

import itertools
import math

import nibabel
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.evaluation.volume_report.planes import find_focus
from mtf_imaging.evaluation.volume_scores import surface, voxels
from mtf_imaging.evaluation.volume_scores.case import score_case
from mtf_imaging.evaluation.volume_scores.components import find_components, mask_components
from mtf_imaging.evaluation.volume_scores.surface import distances_between, surface_voxels
from mtf_imaging.evaluation.volume_scores.views import stored_view
from mtf_imaging.evaluation.volume_scores.voxels import VoxelView
from mtf_imaging.files import growing
from tests.data.oriented import turned
from tests.evaluation.descriptions import ORGANS, REGIONS

SHAPE, SPACING = (12, 9, 7), (0.7, 0.76, 2.5)
PLANE = SHAPE[1] * SHAPE[2]
CODES = ("RAS", "LPS", "SAL", "PIR")


def labels_of(seed, description=LITS, shape=SHAPE, smooth=0.7):
    """Returns random labels whose components have bent shapes; all labels occur, and the ignore label."""
    rng = np.random.default_rng(seed)
    field = ndimage.gaussian_filter(rng.normal(size=shape), smooth)
    values = [*description.labels.values(), *([] if description.ignore is None else [description.ignore])]
    coarse = rng.choice(values, size=tuple(-(-n // 3) for n in shape))
    blocks = np.kron(coarse, np.ones((3,) * len(shape), np.uint8))[tuple(slice(n) for n in shape)]
    return np.where(field > -0.2 * field.std(), blocks, 0).astype(np.uint8)


def geometry_of(codes, shape=SHAPE, spacing=SPACING):
    """Returns the geometry of a file whose axes are stored along `codes`, and whose canonical shape is `shape`."""
    stored, affine = turned(np.empty(shape), codes, np.diag([*spacing, 1.0]))
    header = nibabel.Nifti1Header()
    header.set_data_shape(stored.shape)
    header.set_zooms(np.abs(affine[:3, :3]).sum(axis=0))
    geometry = Geometry(header, affine)
    assert geometry.shape == shape
    return geometry


@pytest.fixture
def thickness(monkeypatch):
    """Returns a function that limits slabs to a number of voxels."""
    return lambda num_voxels: monkeypatch.setattr(voxels, "SLAB_VOXELS", num_voxels)


@pytest.mark.parametrize("num_voxels", [1, PLANE, 2 * PLANE + 5, 5 * PLANE])
@pytest.mark.parametrize(
    ("description", "codes", "shape"),
    [
        *((LITS, codes, SHAPE) for codes in (None, *CODES)),
        (ORGANS, None, SHAPE),
        (ORGANS, None, (1, 12, 9)),
        (ORGANS, None, (12, 9)),
        (REGIONS, None, SHAPE),
    ],
    ids=lambda value: "-".join(value.masks) if isinstance(value, Description) else str(value),
)
@pytest.mark.parametrize("smooth", [0.01, 0.7])
def test_a_case_in_slabs_has_exactly_the_scores_of_the_whole(thickness, description, codes, shape, smooth, num_voxels):
    pair = [labels_of(seed, description, shape, smooth) for seed in range(2)]
    file = codes and geometry_of(codes, shape)
    whole = score_case("0", *pair, SPACING[: len(shape)], file, description)
    assert any(whole.lesions_by_mask.values())
    thickness(num_voxels)
    assert score_case("0", *pair, SPACING[: len(shape)], file, description) == whole


def test_no_read_is_larger_than_a_slab(thickness):
    sizes = []

    def spied(labels):
        def read(region):
            sizes.append(math.prod(at.stop - at.start for at in region))
            return labels[region]

        return VoxelView(labels.shape, read)

    pair = [labels_of(seed) for seed in range(2)]
    expected = score_case("0", *pair, SPACING, geometry_of("SAL"))
    thickness(3 * PLANE)
    assert score_case("0", *map(spied, pair), SPACING, geometry_of("SAL")) == expected
    assert find_focus(*map(spied, pair)) == find_focus(*pair)
    assert 0 < max(sizes) <= 3 * PLANE < math.prod(SHAPE)


def test_zarr_arrays_are_scored_like_arrays(thickness):
    pair = [labels_of(seed) for seed in range(2)]
    expected = score_case("0", *pair, SPACING)
    thickness(3 * PLANE)
    arrays = [zarr.create_array(zarr.storage.MemoryStore(), data=labels, chunks=(5, 5, 5)) for labels in pair]
    assert score_case("0", *arrays, SPACING) == expected


@st.composite
def winding_masks(draw):
    """Draws a mask whose components pass through many planes, or touch only at edges and corners; also empty ones."""
    shape = draw(st.tuples(*[st.integers(1, 9)] * 3))
    x, y, z = np.indices(shape)
    comb = (y % 2 == 0) & (z % 2 == 0)  # bars along x
    mask = draw(
        st.sampled_from(
            [
                comb,
                comb | (x == draw(st.integers(0, 8))),  # bars that meet in one plane
                np.where(x % 2 == 0, y % 2 == 0, (y == 0) & (z == x // 2 % 3)),  # bars along z, some of them joined
                np.where(x % 2 == 0, y + z < 9, (y == (x // 2 % 2) * (shape[1] - 1)) & (z == 0)),  # one winding path
                (x + y + z) % 2 == 0,
                (x == y) & (y == z),
                (x == y) & (y == z) & (x == 1),
                x >= 0,
                x < 0,
            ]
        )
    )
    axes = draw(st.permutations(range(3)))
    noise = np.random.default_rng(draw(st.integers(0, 99))).random(shape) < draw(st.sampled_from([0.0, 0.1]))
    return (mask ^ noise).transpose(axes)


def points_of(surface):
    """Returns the indices of the voxels of a surface."""
    return np.empty((0, 3)) if surface is None else surface.points((1, 1, 1))


@settings(max_examples=60)
@given(mask=winding_masks(), data=st.data())
def test_winding_components_and_their_surfaces_equal_those_of_whole_arrays(mask, data):
    other = np.roll(mask, data.draw(st.tuples(*[st.integers(-1, 1)] * 3)), (0, 1, 2))
    numbers, others = (ndimage.label(each)[0] for each in (mask, other))
    neighbors = ndimage.generate_binary_structure(3, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(voxels, "SLAB_VOXELS", data.draw(st.integers(1, 4)) * mask[0].size)
        found = find_components(mask, other)
        for components, expected in ((found.prediction, numbers), (found.reference, others)):
            np.testing.assert_array_equal(np.concatenate([*components.slabs()]), expected[components.box])
            np.testing.assert_array_equal(components.sizes[1:], np.bincount(expected.ravel())[1:])
        surfaces = surface_voxels(mask[region] for region in voxels.slabs(voxels.whole(mask.shape)))
    expected = np.argwhere(mask & ~ndimage.binary_erosion(mask, neighbors))
    np.testing.assert_array_equal(points_of(surfaces.get(1)), expected)
    both = (numbers > 0) & (others > 0)
    shared = np.zeros_like(found.shared)
    np.add.at(shared, (numbers[both] - 1, others[both] - 1), 1)
    np.testing.assert_array_equal(found.shared, shared)


@pytest.mark.parametrize("num_planes", [1, 2, 5, 12])
def test_the_surface_of_a_group_ends_at_other_groups(num_planes):
    groups = np.random.default_rng(0).choice([0, 1, 1, 1, 1, 1, 1, 3], size=SHAPE).astype(np.int32)
    groups[:7] = np.where(groups[:7] == 3, 3, 1)
    found = surface_voxels(groups[at : at + num_planes] for at in range(0, len(groups), num_planes))
    offsets = [step for step in itertools.product((-1, 0, 1), repeat=3) if 0 < np.abs(step).sum() <= 2]
    padded = np.pad(groups, 1)
    for group in (1, 3):
        expected = [
            at
            for at in np.argwhere(groups == group)
            if any(padded[tuple(at + 1 + step)] != group for step in map(np.array, offsets))
        ]
        np.testing.assert_array_equal(points_of(found[group]), expected)
    assert found.keys() == {1, 3}
    assert len(found[1]) < np.count_nonzero(groups == 1)


@pytest.mark.parametrize(("at_once", "searched"), [(7, 5), (1, 1), (1000, 40), (1000, 1000)])
@pytest.mark.parametrize("shift", [0, 9])
def test_distances_in_parts_equal_those_of_all_pairs_of_points(monkeypatch, at_once, searched, shift):
    rng = np.random.default_rng(shift)
    masks = np.zeros((2, 24, 9, 7), np.uint8)
    masks[0, :12], masks[1, shift : shift + 12] = rng.random((2, 12, 9, 7)) < 0.3
    first, second = (surface_voxels([mask])[1] for mask in masks)
    monkeypatch.setattr(surface, "_POINTS", at_once)
    monkeypatch.setattr(surface, "_TREE_POINTS", searched)
    monkeypatch.setattr(growing, "_IN_MEMORY", 8 * at_once)
    found = distances_between(first, second, SPACING, tolerance=1.0)
    pairs = np.linalg.norm(first.points(SPACING)[:, np.newaxis] - second.points(SPACING), axis=-1)
    there, back = pairs.min(axis=1), pairs.min(axis=0)
    both = np.concatenate([there, back])
    expected = both.mean(), np.sqrt(np.square(both).mean()), both.max()
    assert (found.assd, found.rmsd, found.mssd) == pytest.approx(expected, rel=1e-12)
    assert found.hd95 == pytest.approx(max(np.percentile(there, 95), np.percentile(back, 95)), rel=1e-12)
    assert found.surface_dice == (both <= 1 + 1e-6).mean()


def test_an_empty_mask_has_no_surface_and_no_components():
    empty = np.zeros(SHAPE, bool)
    assert surface_voxels([empty]) == {}
    assert mask_components(empty).count == 0
    assert find_components(empty, empty).shared.shape == (0, 0)


@pytest.mark.parametrize("codes", CODES)
def test_a_view_has_the_stored_axes_of_a_file(codes):
    labels, geometry = np.arange(math.prod(SHAPE)).reshape(SHAPE), geometry_of(codes)
    view, stored = stored_view(labels, geometry), geometry.to_stored(labels)
    assert view.shape == stored.shape
    region = tuple(slice(1, n - 2) for n in stored.shape)
    np.testing.assert_array_equal(view[region], stored[region])


@pytest.mark.parametrize("description", [LITS, ORGANS], ids=["lits", "organs"])
@pytest.mark.parametrize("num_voxels", [1, 3 * PLANE])
def test_the_focus_in_slabs_is_that_of_the_whole(thickness, description, num_voxels):
    hollow = np.zeros(SHAPE, np.uint8)
    hollow[1:11, 1:8, 1:6] = 1
    hollow[3:9, 3:6, 2:5] = 0
    none = np.zeros(SHAPE, np.uint8)
    pairs = [*itertools.product((labels_of(0, description), labels_of(1, description), hollow, none), repeat=2)]
    whole = [find_focus(*pair, description) for pair in pairs]
    thickness(num_voxels)
    assert [find_focus(*pair, description) for pair in pairs] == whole
    assert hollow[find_focus(hollow, none, description).point] == 1  # the middle of the box is background
