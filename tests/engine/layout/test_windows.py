"""Window arithmetic, compared with lists of the taps of every window."""

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtf_imaging.engine.layout.windows import Window, plan_adjoint_split, plan_split
from mtf_imaging.errors import ShapeError

windows = st.builds(
    Window,
    kernel=st.integers(1, 7),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    padding=st.sampled_from(["SAME", "VALID"]) | st.tuples(st.integers(-3, 8), st.integers(-3, 8)),
)


def taps(window, size):
    """Returns the positions that each window reads, with padding as defined in TensorFlow's documentation.

    Explicit padding is that of `tf.pad`, or of a slice of at least one voxel if it is negative.
    """
    if window.padding == "SAME":
        outputs = (size + window.stride - 1) // window.stride
        first = -(max((outputs - 1) * window.stride + window.extent - size, 0) // 2)
    else:
        before, after = (0, 0) if window.padding == "VALID" else window.padding
        voxels = range(max(0, -before), size + min(0, after))
        padded = len(voxels) + max(0, before) + max(0, after) if voxels else 0
        first, outputs = -before, len(range(0, padded - window.extent + 1, window.stride))
    return [[first + o * window.stride + t * window.dilation for t in range(window.kernel)] for o in range(outputs)]


@given(windows, st.integers(1, 40))
def test_output_size_is_the_number_of_windows(window, size):
    assert window.output_size(size) == len(taps(window, size))


@given(windows, st.integers(1, 40))
def test_padding_leaves_the_right_number_of_valid_windows(window, size):
    whole = taps(window, size)
    assume(whole)
    before, after = window.pads(size)
    assert before == -whole[0][0]
    valid = Window(window.kernel, window.stride, window.dilation, "VALID")
    assert valid.output_size(before + size + after) == len(whole)
    number = len(whole)
    closer = range(after + 1, 1) if after < 0 else range(after)
    assert all(valid.output_size(before + size + n) != number for n in closer), "no voxel is added or cropped in vain"


def check_plan(window, size, parts):
    """Asserts that a plan gives every slice the voxels of its windows, and no additional window."""
    whole = taps(window, size)
    plan = plan_split(window, size, parts)
    assert plan.size == math.ceil(size / parts)
    assert plan.outputs == math.ceil(len(whole) / parts)
    for i in range(parts):
        # Start of the computation of the slice, in the whole tensor.
        begin = i * plan.size - plan.before + plan.starts[i]
        local = [
            [begin + o * window.stride + t * window.dilation for t in range(window.kernel)] for o in range(plan.outputs)
        ]
        expected = whole[i * plan.outputs : (i + 1) * plan.outputs]
        assert local[: len(expected)] == expected
        assert plan.starts[i] >= 0
        assert plan.starts[i] + plan.length <= plan.width
    assert plan.length == window.span(plan.outputs)
    if not plan.needs_cut:
        valid = Window(window.kernel, window.stride, window.dilation, "VALID")
        assert valid.output_size(plan.width) == plan.outputs
        assert set(plan.starts) == {0}


@given(windows, st.integers(1, 40), st.integers(1, 7))
def test_a_plan_gives_every_slice_the_voxels_of_its_windows(window, size, parts):
    assume(taps(window, size))
    check_plan(window, size, parts)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", range(1, 8))
def test_plans_of_all_explicit_paddings(kernel):
    """Each size is split over one number of processors. The numbers alternate."""
    pads, checked, numbers = range(-3, 9), 0, itertools.cycle((2, 3, 4, 5, 7))
    for stride, dilation, *padding in itertools.product(range(1, 5), range(1, 5), pads, pads):
        window = Window(kernel, stride, dilation, tuple(padding))
        for size in range(1, 25):
            number = len(taps(window, size))
            assert window.output_size(size) == number
            if number:
                check_plan(window, size, next(numbers))
                checked += 1
    assert checked > 10_000


@given(windows, st.integers(1, 40), st.integers(1, 7))
def test_a_halo_is_not_wider_than_necessary(window, size, parts):
    """Only slices with a window need a halo. The last one may compute windows that do not exist."""
    whole = taps(window, size)
    assume(whole)
    plan = plan_split(window, size, parts)
    reach = [(i, whole[i * plan.outputs][0]) for i in range(parts) if i * plan.outputs < len(whole)]
    assert plan.before == max(0, *(i * plan.size - first for i, first in reach))
    assert plan.after == max(0, *(first + window.span(plan.outputs) - (i + 1) * plan.size for i, first in reach))


@given(windows, st.integers(1, 40), st.integers(1, 7))
def test_an_adjoint_plan_gives_every_slice_the_windows_of_its_voxels(window, size, parts):
    whole = taps(window, size)
    assume(whole)
    plan, slices = plan_adjoint_split(window, size, parts), plan_split(window, size, parts)
    valid = Window(window.kernel, window.stride, window.dilation, "VALID")
    windows_of = plan.windows
    assert min(windows_of.before, windows_of.after) >= 0
    assert valid.output_size(plan.cut.size) == windows_of.length
    for i in range(-(-size // slices.size)):
        first = i * slices.outputs - windows_of.before + windows_of.starts[i]
        assert 0 <= windows_of.starts[i] <= windows_of.width - windows_of.length
        start = plan.cut.starts[i]
        assert 0 <= start <= plan.cut.size - slices.size
        for voxel in range(i * slices.size, min((i + 1) * slices.size, size)):
            expected = [o for o, read in enumerate(whole) if voxel in read]
            local = [first + o for o, read in enumerate(taps(valid, plan.cut.size)) if start in read]
            assert [o for o in local if 0 <= o < len(whole)] == expected
            start += 1


@pytest.mark.parametrize(
    ("window", "size", "parts", "expected"),
    [
        (Window(2, 2), 12, 2, (0, 0, (0, 0))),
        (Window(3, 2), 12, 2, (1, 0, (2, 2))),  # the last voxel of a window is the first one of the next slice
        (Window(4, 2), 12, 2, (1, 1, (3, 3))),
        (Window(3, 2, padding="VALID"), 13, 2, (1, 2, (2, 1))),  # slices of 7 voxels, but 3 windows of 2
        (Window(1, 2, padding="VALID"), 12, 2, (0, 0, (0, 0))),  # no window reads the last voxel
    ],
)
def test_adjoint_plans(window, size, parts, expected):
    plan = plan_adjoint_split(window, size, parts)
    assert (plan.windows.before, plan.windows.after, plan.cut.starts) == expected


@given(windows, st.integers(1, 40))
def test_halos_are_equal_if_and_only_if_slices_and_windows_advance_equally(window, size):
    assume(window.output_size(size) > 1)
    plan = plan_split(window, size, 2)
    assert (len(set(plan.starts)) == 1) == (plan.size == plan.outputs * window.stride)


@pytest.mark.parametrize(
    ("window", "size", "parts", "expected"),
    [
        (Window(3), 12, 2, (1, 1, (0, 0))),
        (Window(3, padding="VALID"), 12, 2, (1, 1, (1, 0))),  # slice 0 needs (0, 1), slice 1 (1, 0)
        (Window(2, 2), 12, 2, (0, 0, (0, 0))),
        (Window(3, 2), 12, 2, (0, 1, (0, 0))),  # SAME padding is asymmetric for strides above 1
        (Window(7), 12, 12, (3, 3, (0,) * 12)),  # wider than a slice
        (Window(3, padding=(1, 1)), 12, 2, (1, 1, (0, 0))),
        (Window(3, padding=(2, 0)), 12, 2, (2, 0, (0, 0))),
        (Window(3, padding=(-1, 3)), 12, 2, (0, 3, (1, 1))),  # every slice skips a voxel
        (Window(2, 2, padding=(3, -3)), 12, 2, (3, 0, (0, 0))),
    ],
)
def test_plans(window, size, parts, expected):
    plan = plan_split(window, size, parts)
    assert (plan.before, plan.after, plan.starts) == expected


@pytest.mark.parametrize(
    ("window", "size", "parts", "expected"),
    [
        (Window(3), 13, 2, (1, 1, (0, 0))),  # slices of 7 and 6 voxels
        (Window(3), 5, 4, (1, 1, (0, 0, 0, 0))),  # slices of 2, 2, 1 and 0 voxels
        (Window(2, 2), 13, 2, (0, 2, (0, 1))),  # slices of 7 voxels, but 4 windows of 2
        (Window(3, 2), 33, 16, (1, 9, tuple(range(9)) + (8,) * 7)),  # slices of 3 voxels, but 2 windows every 2 voxels
        (Window(3, padding="VALID"), 4, 3, (1, 1, (1, 0, 0))),  # 2 windows for 3 processors
    ],
)
def test_plans_of_uneven_slices(window, size, parts, expected):
    plan = plan_split(window, size, parts)
    assert (plan.before, plan.after, plan.starts) == expected


def test_a_split_whose_halo_replaces_the_slices_own_voxels_is_cut():
    """Slices start reading 3 voxels before, and do not read their last 3 voxels, in which a window would fit."""
    plan = plan_split(Window(2, 2, padding=(3, -3)), 12, 2)
    assert plan.starts == (0, 0)
    assert (plan.width, plan.length) == (9, 6)
    assert plan.needs_cut


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": 0},
        {"kernel": 3, "stride": 0},
        {"kernel": 3, "padding": "FULL"},
        *({"kernel": 3, "padding": pair} for pair in [(1,), (1, 1, 1), (1, 0.5), (True, 1), [1, 1], 1, None]),
    ],
)
def test_invalid_windows(wrong):
    with pytest.raises(ShapeError):
        Window(**wrong)


def test_an_invalid_padding_is_named():
    with pytest.raises(ShapeError) as error:
        Window(3, padding=(True, 1))
    assert str(error.value) == "padding must be 'SAME', 'VALID' or a pair of ints, not (True, 1)"


def test_padding_that_crops_every_voxel_leaves_no_window():
    assert Window(3, padding=(-5, 9)).output_size(5) == 0
    assert Window(3, padding=(-5, 9)).output_size(6) == 8


@pytest.mark.parametrize(
    ("window", "size", "same", "valid"),
    [
        (Window(3, padding=(1, 1)), 7, True, False),
        (Window(3, 2, padding=(0, 1)), 6, True, False),
        (Window(3, 2, padding=(0, 2)), 6, True, False),  # no window reads the second voxel of padding
        (Window(3, 2, padding=(1, 1)), 6, False, False),
        (Window(3, 2, padding=(1, 1)), 7, True, False),
        (Window(3, padding=(0, 0)), 7, False, True),
        (Window(1, padding=(0, 0)), 7, True, True),
        (Window(2, 2, padding=(0, -1)), 7, False, True),  # no window reads the last voxel
        (Window(3, padding=(2, 0)), 7, False, False),
        (Window(3, 1, 2, padding=(2, 2)), 7, True, False),
    ],
)
def test_explicit_padding_that_equals_a_padding_of_tensorflow(window, size, same, valid):
    assert (window.equals("SAME", size), window.equals("VALID", size)) == (same, valid)


def test_transposed_sizes():
    assert Window(2, 2).transposed_size(5) == 10
    assert Window(3, 2, padding="VALID").transposed_size(5) == 11


def test_a_transposed_window_that_skips_voxels_covers_them():
    """No window reads the voxel after each of the 5 windows of 2 voxels, so the size is 5 x 3 voxels, not 14."""
    assert Window(2, 3, padding="VALID").transposed_size(5) == 15
    assert Window(1, 4, padding="VALID").transposed_size(2) == 8


@given(windows, st.integers(1, 12))
def test_a_transposed_size_has_as_many_windows_as_voxels(window, size):
    transposed = window.transposed_size(size)
    assume(transposed > window.cropped)
    assert window.output_size(transposed) == size


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(3, 2, padding=(1, 1)), 9),
        (Window(3, 2, padding=(1, 0)), 10),
        (Window(3, 2, 2, padding=(0, -1)), 14),
        (Window(2, 3, padding=(0, 0)), 14),
        (Window(3, 2, 2, padding="VALID"), 13),
    ],
)
def test_transposed_sizes_of_explicit_padding_and_dilation(window, expected):
    assert window.transposed_size(5) == expected
