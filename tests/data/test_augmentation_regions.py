"""Tests that the regions of a sample, augmented one by one from the voxels that they need, make up the whole sample."""

import ast
import itertools
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from mtf_imaging.cli.config.gin_config import find_gin_file
from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.augmentation.coordinates import Coordinates
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.normals import normal_values
from mtf_imaging.data.augmentation.warp import draw_warp
from mtf_imaging.data.intensities.value_ranges import WINDOWED, ValueRanges
from mtf_imaging.errors import DataError
from tests.data.test_augmentation import ALL, OPTIONS

SIZES = (13, 16, 11)
SEED = 3
PARTITIONS = {
    "2 x 2": (2, 2, 1),
    "3 x 1, uneven": (3, 1, 1),
    "16 slices": (4, 1, 4),
    "planes of single voxels": (1, 16, 1),
    "rows of single voxels": (1, 16, 11),
}
RECIPE = Augmentation(
    **{
        name: ast.literal_eval(value)
        for name, value in re.findall(
            r"^Augmentation\.(\w+) = (.*?)(?:  #.*)?$", find_gin_file("unet3d_lits").read_text(), re.MULTILINE
        )
    }
)
AUGMENTATIONS = {name: Augmentation(**options) for name, options in OPTIONS.items()} | {"all": ALL, "recipe": RECIPE}
# One channel with a window, and one with a z-score of nonzero voxels.
RANGES = ValueRanges(
    *(tf.constant(values) for values in ([0.0, -np.inf], [1.0, np.inf], [0.5, 0.1], [1.0, 0.7], [0.0, -1.3])),
    *(tf.constant(values) for values in ([False, True], [0.0, -1.3], [1.0, 1.1])),
)


def volume(channels=1):
    """Returns a random image, and labels with a box of liver (1) that contains a lesion (2)."""
    image = np.random.default_rng(0).uniform(0.2, 0.8, (*SIZES, channels)).astype(np.float32)
    image[:2, ..., 1:] = 0
    labels = np.zeros(SIZES, np.uint8)
    labels[2:11, 3:13, 2:9] = 1
    labels[4:7, 5:8, 4:6] = 2
    return image, labels


def partition(counts, sizes=SIZES):
    """Returns regions of equal sizes, rounded up; the last ones along an axis may be shorter or empty.

    Of many regions, it returns six to eight, which lie at different ends of each axis.
    """
    axes = []
    for n, count in zip(sizes, counts):
        width = -(-n // count)
        axes.append([slice(min(i * width, n), min((i + 1) * width, n)) for i in range(count)])
    regions = list(itertools.product(*axes))
    return regions[:: len(regions) // 8 | 1]


def in_region(augmentation, region, sample, channels=1, source=None, ranges=WINDOWED):
    """Augments a region in a graph that reads only the voxels of the source, whose sizes it does not know."""
    image, labels = volume(channels)
    bounds = augmentation.source_bounds(region, SIZES, SEED, sample) if source is None else source

    def read(bounds):
        box = tuple(slice(*ends) for ends in bounds)
        return image[box], labels if augmentation.needs_whole_labels else labels[box]

    voxels, their_labels = tf.numpy_function(read, [bounds], [tf.float32, tf.uint8])
    voxels.set_shape([None, None, None, channels])
    their_labels.set_shape([None, None, None])
    where = {"region": region, "source": bounds, "sizes": SIZES, "ranges": ranges}
    return augmentation.in_region(voxels, their_labels, SEED, sample, **where)


def whole(augmentation, sample, channels=1, ranges=WINDOWED):
    """Augments the whole sample in a graph that knows its sizes."""
    image, labels = volume(channels)
    voxels = tf.ensure_shape(tf.numpy_function(lambda: image, [], tf.float32), image.shape)  # not a constant
    return augmentation(voxels, tf.constant(labels), SEED, sample, ranges)


def number(sample):
    return tf.constant(sample, tf.int64)


def assert_equal(found, expected, region):
    for part, mine in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, mine.numpy()[region])
        assert part.dtype == mine.dtype


@pytest.mark.mostly_slow(fast=0.03)
@pytest.mark.parametrize(
    ("name", "counts"),
    [*itertools.product([*OPTIONS, "all"], PARTITIONS), ("recipe", "2 x 2"), ("recipe", "16 slices")],
)
def test_regions_make_up_the_whole_sample(name, counts):
    augmentation, counts = AUGMENTATIONS[name], PARTITIONS[counts]
    for sample in (0, 1):
        expected = whole(augmentation, number(sample))
        for region in partition(counts):
            assert_equal(in_region(augmentation, region, number(sample)), expected, region)


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        *((name, "2 x 2") for name in ("brightness", "noise", "gamma", "lesions")),
        *(pytest.param("all", counts, marks=pytest.mark.slow) for counts in PARTITIONS),
        pytest.param("recipe", "2 x 2", marks=pytest.mark.slow),
    ],
)
def test_regions_in_graphs_make_up_the_whole_sample(name, counts):
    """The graph optimizer knows the sizes of the whole sample, and none of those of the source of a region."""
    augmentation, counts = AUGMENTATIONS[name], PARTITIONS[counts]
    regions = partition(counts)[:5]
    graph = tf.function(
        lambda sample: [whole(augmentation, sample), *(in_region(augmentation, part, sample) for part in regions)],
        input_signature=[tf.TensorSpec([], tf.int64)],
        autograph=False,
    )
    for sample in range(3):
        expected, *found = graph(number(sample))
        for part, region in zip(found, regions, strict=True):
            assert_equal(part, expected, region)


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("sample", range(3))
def test_channels_with_own_ranges(sample):
    options = {"gamma": 0.5, "contrast": 0.2, "brightness": 0.1, "noise": 0.05, "multiscale_noise": 0.1}
    options |= {"blur": 0.6, "low_resolution": 0.6}
    augmentation = Augmentation(**options, flips=("x", "y"), rotation=20.0, elastic=0.04)
    expected = whole(augmentation, number(sample), 2, RANGES)
    assert not np.array_equal(expected[0], volume(2)[0])
    for region in partition((2, 2, 1)):
        found = in_region(augmentation, region, number(sample), 2, ranges=RANGES)
        assert_equal(found, expected, region)
    if sample == 0:
        extremes = RANGES._replace(highest=tf.constant([1.0, 2.5]))
        assert not np.array_equal(expected[0][..., 1], whole(augmentation, number(0), 2, extremes)[0][..., 1])


@pytest.mark.parametrize("name", ["affine", "elastic", "all"])
def test_a_larger_source_gives_the_same_region(name):
    augmentation, region = AUGMENTATIONS[name], (slice(3, 7), slice(2, 9), slice(4, 8))
    sample = number(1)
    bounds = augmentation.source_bounds(region, SIZES, SEED, sample).numpy()
    wider = np.stack([np.maximum(bounds[:, 0] - 1, 0), np.minimum(bounds[:, 1] + 2, SIZES)], 1)
    for source in (wider, [[0, n] for n in SIZES]):
        found = in_region(augmentation, region, sample, source=tf.constant(source, tf.int64))
        assert_equal(found, whole(augmentation, sample), region)


def bounds_of(region):
    return [[along.start, along.stop] for along in region]


@pytest.mark.parametrize(
    "options", [{}, {"gamma": 0.5, "noise": 0.1, "multiscale_noise": 0.1}, {"corruption": 0.2, "lesions": 1.0}]
)
def test_without_moves_a_region_needs_its_own_voxels(options):
    for region in partition((2, 3, 1)):
        source = Augmentation(**options).source_bounds(region, SIZES, SEED, number(0))
        np.testing.assert_array_equal(source, bounds_of(region))


@pytest.mark.parametrize("options", [{"flips": ("x", "z")}, {"half_turn": 0.5}, {"flips": ("x",), "half_turn": 1.0}])
def test_mirrored_samples_need_the_mirrored_slice(options):
    augmentation, region = Augmentation(**options), (slice(2, 5), slice(0, 6), slice(3, 10))
    place = np.arange(np.prod(SIZES), dtype=np.int32).reshape(SIZES)
    image = np.zeros((*SIZES, 1), np.float32)
    seen = set()
    for sample in map(number, range(12)):
        source = augmentation.source_bounds(region, SIZES, SEED, sample).numpy()
        moved = augmentation(tf.constant(image), tf.constant(place), SEED, sample)[1].numpy()[region]
        needed = np.stack(np.unravel_index(moved, SIZES))
        expected = np.stack([needed.min((1, 2, 3)), needed.max((1, 2, 3)) + 1], 1)
        np.testing.assert_array_equal(source, expected)
        seen.add(source.tobytes())
    assert len(seen) == (4 if "z" in options.get("flips", ()) else 2)


@pytest.mark.parametrize(
    ("options", "margin"),
    [({"translation": 0.1}, 2), ({"zoom": 0.1}, 2), ({"rotation": (0, 0, 10)}, 2), ({"elastic": 0.02}, 4)],
)
def test_a_warped_region_needs_the_box_of_its_coordinates(options, margin):
    sizes, region = (64, 64, 64), (slice(16, 32), slice(40, 48), slice(0, 64))
    reach = {"translation": 6.4, "zoom": 3.2, "rotation": 7, "elastic": 2.6}[next(iter(options))]
    for sample in range(6):
        first, end = Augmentation(**options).source_bounds(region, sizes, SEED, number(sample)).numpy().T
        for axis, along in enumerate(region):
            low, high = max(0, along.start - reach - margin), min(sizes[axis], along.stop + reach + margin)
            assert low <= first[axis] < end[axis] <= high


@st.composite
def a_region(draw):
    """Returns sizes of a sample and a nonempty region of it."""
    sizes = draw(st.tuples(*[st.integers(1, 40)] * 3))
    ends = [sorted(draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True))) for n in sizes]
    return sizes, tuple(slice(*each) for each in ends)


@given(
    where=a_region(),
    seed=st.integers(0, 100),
    rotation=st.sampled_from([0, 10, (0, 0, 180)]),
    zoom=st.sampled_from([0, 0.1, 2]),
    translation=st.sampled_from([0, 0.1, 1]),
    elastic=st.sampled_from([0, 0.02]),
)
@settings(deadline=None, max_examples=30)
def test_the_box_of_a_warp_has_the_voxels_between_which_it_interpolates(where, seed, elastic, **options):
    sizes, region = where
    drawn = draw_warp(Draws(seed, number(0)), sizes, **options, elastic=elastic, points=7)
    coordinates = Coordinates(sizes, region, *drawn)
    found = coordinates.box().numpy()
    at = coordinates.planes().rows(tf.range(coordinates.shape[0])).numpy()
    for axis, n in enumerate(sizes):
        low, high = at[:, axis].min(), at[:, axis].max()
        # The bends of the control points limit those of the voxels.
        slack = 0.02 + (np.ptp(drawn[2][..., axis]) if elastic else 0)
        least, most = (np.clip([np.floor(low - more), np.floor(high + more) + 1], 0, n - 1) for more in (0, slack))
        assert most[0] <= found[axis, 0] <= least[0]
        assert least[1] <= found[axis, 1] - 1 <= most[1]


OPTION_SETS = {
    **OPTIONS,
    "softening": {"blur": 0.7, "blur_sd": (0.1, 2), "low_resolution": 0.7, "low_resolution_size": (0.1, 1)},
    "moves": {"flips": ("x", "y", "z"), "half_turn": 0.5, "rotation": 30, "zoom": 0.3, "translation": 0.4, "warp": 0.7},
}


@pytest.mark.slow
@given(
    sizes=st.tuples(*[st.integers(1, 14)] * 3),
    names=st.lists(st.sampled_from(sorted(OPTION_SETS)), min_size=1, max_size=4, unique=True),
    cuts=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    sample=st.integers(0, 10**6),
    channels=st.integers(1, 2),
)
@settings(deadline=None, max_examples=25)
def test_any_cut_of_any_sample_gives_the_parts_of_the_whole(sizes, names, cuts, sample, channels):
    augmentation = Augmentation(**{key: value for name in names for key, value in OPTION_SETS[name].items()})
    ranges = RANGES if channels == 2 else WINDOWED
    rng = np.random.default_rng(sample)
    image, labels = rng.random((*sizes, channels), np.float32), rng.integers(0, 3, sizes, np.uint8)
    expected = [
        part.numpy() for part in augmentation(tf.constant(image), tf.constant(labels), SEED, number(sample), ranges)
    ]
    halves = [(slice(0, round(cut * n)), slice(round(cut * n), n)) for cut, n in zip(cuts, sizes, strict=True)]
    for region in itertools.product(*halves):
        bounds = augmentation.source_bounds(region, sizes, SEED, number(sample))
        box = tuple(slice(*ends) for ends in bounds.numpy())
        own = labels if augmentation.needs_whole_labels else labels[box]
        place = {"region": region, "source": bounds, "sizes": sizes, "ranges": ranges}
        found = augmentation.in_region(tf.constant(image[box]), tf.constant(own), SEED, number(sample), **place)
        for part, whole in zip(found, expected, strict=True):
            np.testing.assert_array_equal(part, whole[region])


def test_a_region_that_comes_from_beyond_the_sample_reads_one_voxel_along_that_axis():
    augmentation, region = Augmentation(translation=1.0), (slice(0, 2), slice(0, 16), slice(0, 11))
    widths = set()
    for sample in map(number, range(12)):
        bounds = augmentation.source_bounds(region, SIZES, SEED, sample).numpy()
        widths.add(bounds[0, 1] - bounds[0, 0])
        assert_equal(in_region(augmentation, region, sample), whole(augmentation, sample), region)
    assert {1, 3} <= widths


@pytest.mark.parametrize("region", [(slice(13, 13), slice(0, 16), slice(0, 11)), (slice(0, 13), slice(4, 4), slice(2))])
def test_an_empty_region_needs_no_voxels(region):
    np.testing.assert_array_equal(ALL.source_bounds(region, SIZES, SEED, number(0)), np.zeros((3, 2)))
    image, labels = in_region(ALL, region, number(0), channels=2)
    assert image.shape == (*np.zeros(SIZES)[region].shape, 2)
    assert labels.shape == image.shape[:3]
    assert (image.dtype, labels.dtype) == (tf.float32, tf.uint8)


def test_lesions_and_corruption_need_the_labels_of_the_whole_sample():
    needing = {name for name, augmentation in AUGMENTATIONS.items() if augmentation.needs_whole_labels}
    assert needing == {"lesions", "corruption", "all", "recipe"}
    assert Augmentation(corruption_sd=0.1).needs_whole_labels


@pytest.mark.parametrize(
    ("region", "text"),
    [
        (
            (slice(0, 14), slice(0, 16), slice(0, 11)),
            r"slice\(0, 14, None\).*is not within the sizes \(13, 16, 11\).*Fix: give slice",
        ),
        ((slice(0, 13), slice(-2, 16), slice(0, 11)), r"slice\(-2, 16, None\).*is not within"),
        ((slice(0, 13), slice(0, 16), slice(0, 11, 2)), r"slice\(0, 11, 2\).* or a step is not 1"),
    ],
)
def test_a_region_beyond_the_sample_is_refused(region, text):
    image, labels = volume()
    with pytest.raises(DataError, match=text):
        ALL.source_bounds(region, SIZES, SEED, number(0))
    with pytest.raises(DataError, match=text):
        ALL.in_region(image, labels, SEED, number(0), region=region, source=tf.zeros([3, 2], tf.int64), sizes=SIZES)


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sizes", [(5, 6, 7), (1, 1, 1), (4, 4, 4)])
def test_normal_values_are_those_of_the_whole_sample(sizes, channels):
    seed = tf.constant([7, 8], tf.int64)
    expected = tf.random.stateless_normal([*sizes, channels], seed).numpy()
    for counts in itertools.product((1, 2, 4), repeat=3):
        for region in partition(counts, sizes):
            if expected[region].size:
                np.testing.assert_array_equal(normal_values(seed, sizes, region, channels), expected[region])
