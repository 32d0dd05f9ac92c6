import math

import numpy as np
import pytest

from mtf_imaging.data.intensities.schemes import (
    KINDS,
    Intensity,
    channel_intensity,
    parse_intensities,
    parse_intensity,
)
from mtf_imaging.data.intensities.statistics import ChannelStatistics, channel_statistics
from mtf_imaging.data.intensities.value_ranges import value_ranges
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW
from mtf_imaging.errors import DataError

IMAGE = np.where(np.arange(1000) % 3, np.random.default_rng(0).normal(200, 50, 1000), 0).astype(np.float32)
STATISTICS = channel_statistics(IMAGE)
NUMBERS = {"window": [(-160, 240)], "clip": [(-160, 240), (150, 60)]}
SCHEMES = {kind: Intensity(kind, *NUMBERS.get(kind, [])) for kind in KINDS}


@pytest.mark.parametrize(
    ("channel", "kind"),
    [
        ("CT", "window"),
        ("ct", "window"),
        ("noNorm", "none"),
        ("NONORM", "none"),
        ("zscore", "z-score"),
        ("rescale_0_1", "rescale_to_0_1"),
        ("rescale_to_0_1", "rescale_to_0_1"),
        ("rgb_to_0_1", "rgb_to_0_1"),
        ("T1w", "z-score"),
        ("CT angiography", "z-score"),
    ],
)
def test_the_scheme_follows_from_the_name_of_the_channel(channel, kind):
    assert channel_intensity(channel) == Intensity(kind, DEFAULT_WINDOW if kind == "window" else None)


def test_statistics_are_those_of_numpy():
    nonzero = IMAGE[IMAGE != 0].astype(np.float64)
    values = IMAGE.astype(np.float64)
    expected = ChannelStatistics(
        values.mean(),
        values.std(),
        nonzero.mean(),
        nonzero.std(),
        *np.percentile(values, [0.5, 99.5]),
        values.min(),
        values.max(),
    )
    for name, value in vars(expected).items():
        assert math.isclose(getattr(STATISTICS, name), value, rel_tol=1e-6), name
    assert all(type(value) is float for value in vars(STATISTICS).values())


def test_statistics_of_several_slabs(monkeypatch):
    monkeypatch.setattr("mtf_imaging.data.intensities.statistics._PART_VALUES", 7)
    several = channel_statistics(IMAGE.reshape(10, 100))
    assert vars(several) == pytest.approx(vars(STATISTICS), rel=1e-12)


def test_statistics_of_large_values_are_exact():
    statistics = channel_statistics(np.array([30000, 30002] * 5000, np.int16))
    assert (statistics.mean, statistics.sd) == (30001, 1)


def test_a_window_is_mapped_to_0_and_1():
    for low, high in (DEFAULT_WINDOW, (-160.0, 240.0), (-57.3, 164.1)):
        expected = np.clip((IMAGE.astype(np.float64) - low) / (high - low), 0, 1)
        np.testing.assert_allclose(Intensity("window", (low, high)).apply(IMAGE), expected, atol=1e-6)


def test_z_scores():
    scaled = Intensity("z-score").apply(IMAGE, STATISTICS)
    assert scaled.dtype == np.float32
    assert scaled.mean(dtype=np.float64) == pytest.approx(0, abs=1e-5)
    assert scaled.std(dtype=np.float64) == pytest.approx(1, abs=1e-5)
    assert scaled[0] == pytest.approx(-STATISTICS.mean / STATISTICS.sd)


def test_z_scores_of_nonzero_voxels_keep_zero():
    scaled = Intensity("z-score of nonzero voxels").apply(IMAGE, STATISTICS)
    assert not scaled[IMAGE == 0].any()
    others = scaled[IMAGE != 0].astype(np.float64)
    assert (others.mean(), others.std()) == pytest.approx((0, 1), abs=1e-5)


def test_percentiles_are_clipped():
    scaled = Intensity("percentiles").apply(IMAGE, STATISTICS)
    low, high = np.percentile(IMAGE, [0.5, 99.5])
    np.testing.assert_allclose(scaled, np.clip((IMAGE - low) / (high - low), 0, 1), atol=1e-6)
    assert np.count_nonzero(scaled == 1) >= 5


def test_rescaling_and_no_scaling():
    scaled = Intensity("rescale_to_0_1").apply(IMAGE, STATISTICS)
    assert (scaled.min(), scaled.max()) == (0, 1)
    np.testing.assert_array_equal(Intensity("rgb_to_0_1").apply(np.uint8([0, 51, 255])), np.float32([0, 0.2, 1]))
    same = Intensity("none").apply(IMAGE)
    np.testing.assert_array_equal(same, IMAGE)
    assert same is not IMAGE


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_a_part_of_a_case_is_scaled_like_the_whole(scheme):
    whole = scheme.apply(IMAGE, STATISTICS)
    np.testing.assert_array_equal(scheme.apply(IMAGE[100:200], STATISTICS), whole[100:200])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NUMBERS])
@pytest.mark.parametrize("value", [0.0, 1000.1])
def test_constant_channels_stay_finite(kind, value):
    constant = np.full((3, 4), value, np.float32)
    scaled = Intensity(kind).apply(constant, channel_statistics(constant))
    assert np.isfinite(scaled).all()
    if kind not in ("none", "rgb_to_0_1"):
        np.testing.assert_allclose(scaled, 0, atol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_the_scaling_states_the_same_map(scheme):
    scaling = scheme.scaling(STATISTICS)
    expected = np.clip((IMAGE.astype(np.float64) - scaling.offset) / scaling.scale, scaling.low, scaling.high)
    expected[(IMAGE == 0) & scaling.keep_zero] = 0
    np.testing.assert_allclose(scheme.apply(IMAGE, STATISTICS), expected, atol=1e-4)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_augmentation_gets_the_range_of_the_scaled_values(scheme):
    scaled = scheme.apply(IMAGE, STATISTICS).astype(np.float64)
    ranges = value_ranges("CT", scheme.scaling(STATISTICS), STATISTICS)
    beyond = scheme.apply(np.array([-1024.0]), STATISTICS)[0]
    assert ranges.beyond == beyond
    if math.isfinite(ranges.high):
        low, high = scheme.scaling(STATISTICS)[2:4]
        assert scheme.kind == "clip" or (low, high) == (0, 1)
        assert (ranges.center, ranges.unit, ranges.lowest, ranges.highest) == ((low + high) / 2, high - low, low, high)
        return
    counted = scaled[IMAGE != 0] if ranges.keep_zero else scaled
    assert (ranges.center, ranges.unit) == pytest.approx((counted.mean(), counted.std()), abs=1e-4)
    extremes = min(beyond, scaled.min()), max(beyond, scaled.max())
    assert (ranges.lowest, ranges.highest) == pytest.approx(extremes, rel=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_schemes_that_need_statistics_refuse_to_work_without(scheme):
    if scheme.needs_statistics:
        with pytest.raises(DataError, match=f"'{scheme}' needs the statistics of the case. Fix: "):
            scheme.scaling()
    else:
        assert scheme.scaling() == scheme.scaling(STATISTICS)


def test_values_that_are_no_colors():
    with pytest.raises(DataError, match=r"a\.tif: intensity 'rgb_to_0_1' needs values of 0 to 255, .*0 to 4096\. Fix"):
        Intensity("rgb_to_0_1").check(channel_statistics(np.array([0, 4096])), "a.tif")
    for scheme in SCHEMES.values():
        scheme.check(channel_statistics(np.array([0, 255])), "a.tif")


@pytest.mark.parametrize(
    "scheme",
    [*SCHEMES.values(), Intensity("window", (-57.3, 1e6)), Intensity("clip", (0, 0.1), (-0.02, 1e-3))],
    ids=str,
)
def test_a_written_scheme_is_read_again(scheme):
    assert parse_intensity(str(scheme)) == scheme


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("CT", Intensity("window", DEFAULT_WINDOW)),
        (" Z-Score  of nonzero VOXELS ", Intensity("z-score of nonzero voxels")),
        ("window(-160, 240)", Intensity("window", (-160, 240))),
        ("Window -160,240", Intensity("window", (-160, 240))),
        ("zscore", Intensity("z-score")),
        ("rescale_0_1", Intensity("rescale_to_0_1")),
    ],
)
def test_other_spellings(text, scheme):
    assert parse_intensity(text) == scheme


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("percentile", r"'percentile' is unknown\. Did you mean 'percentiles'\? Fix: use 'window LOW HIGH', "),
        ("clip 0 1", r"'clip 0 1' is unknown.*'clip LOW HIGH mean MEAN sd SD'"),
        ("clip 1 0 mean 0 sd 1", r"the lower bound must be below"),
        ("window", r"'window' has no bounds\. Fix: use 'window LOW HIGH'"),
        ("window 1", r"'window 1' is unknown"),
        ("window 1.2.3 4", r"'window 1\.2\.3 4' is unknown"),
        ("window 240 -160", r"'window 240 -160': window \(240\.0, -160\.0\): the lower bound must be below"),
        (3, r"3 is unknown"),
    ],
)
def test_unknown_schemes(text, message):
    with pytest.raises(DataError, match=rf"^here: .*{message}") as error:
        parse_intensity(text, "here")
    assert "Fix: " in str(error.value)


def test_one_scheme_per_channel():
    assert parse_intensities(["none", "z-score"], ("a", "b"), "here") == (Intensity("none"), Intensity("z-score"))
    with pytest.raises(DataError, match=r"here: 1 intensities, but 2 channel\(s\) \(a, b\)\. Fix: give one"):
        parse_intensities(["none"], ("a", "b"), "here")


@pytest.mark.parametrize(("kind", "window"), [("window", None), ("z-score", (0, 1)), ("zscore", None)])
def test_inconsistent_schemes(kind, window):
    with pytest.raises(DataError, match="Fix: "):
        Intensity(kind, window)
