"""Window arithmetic, compared with lists of the taps of every window."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtf_imaging.errors import ShapeError
from mtf_imaging.layout.windows import Window, check_split, nearest_legal_sizes, plan_split

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
    """Asserts that a plan of a legal split gives every slice the voxels of its windows, and no additional window."""
    whole = taps(window, size)
    plan = plan_split(window, size, parts)
    assert plan.size * parts == size
    assert plan.outputs * parts == len(whole)
    for i in range(parts):
        begin = (
            i * plan.size - plan.before + plan.starts[i]
        )  # start of the computation of the slice, in the whole tensor
        local = [
            [begin + o * window.stride + t * window.dilation for t in range(window.kernel)] for o in range(plan.outputs)
        ]
        assert local == whole[i * plan.outputs : (i + 1) * plan.outputs]
        assert plan.starts[i] >= 0
        assert plan.starts[i] + plan.length <= plan.width
    assert plan.length == window.span(plan.outputs)
    if not plan.needs_cut:
        valid = Window(window.kernel, window.stride, window.dilation, "VALID")
        assert valid.output_size(plan.width) == plan.outputs
        assert set(plan.starts) == {0}


@given(windows, st.integers(1, 40), st.integers(1, 6))
def test_a_plan_gives_every_slice_the_voxels_of_its_windows(window, size, parts):
    assume(taps(window, size) and not check_split(window, size, parts))
    check_plan(window, size, parts)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", range(1, 8))
def test_plans_of_all_explicit_paddings(kernel):
    pads, checked = range(-3, 9), 0
    for stride, dilation, *padding in itertools.product(range(1, 5), range(1, 5), pads, pads):
        window = Window(kernel, stride, dilation, tuple(padding))
        for size in range(1, 25):
            number = len(taps(window, size))
            assert window.output_size(size) == number
            for parts in (2, 3, 4, 5, 7):
                assert bool(check_split(window, size, parts)) == bool(size % parts or number % parts)
                if number and not check_split(window, size, parts):
                    check_plan(window, size, parts)
                    checked += 1
    assert checked > 10_000


@given(windows, st.integers(1, 40), st.integers(1, 6))
def test_a_halo_is_not_wider_than_necessary(window, size, parts):
    whole = taps(window, size)
    assume(whole and not check_split(window, size, parts))
    plan = plan_split(window, size, parts)
    reach = [(i, whole[i * plan.outputs][0], whole[(i + 1) * plan.outputs - 1][-1]) for i in range(parts)]
    assert plan.before == max(0, *(i * plan.size - first for i, first, _ in reach))
    assert plan.after == max(0, *(last - (i + 1) * plan.size + 1 for i, _, last in reach))


@given(windows, st.integers(1, 40))
def test_halos_are_equal_if_and_only_if_slices_and_windows_advance_equally(window, size):
    assume(window.output_size(size) and not check_split(window, size, 2))
    plan = plan_split(window, size, 2)
    assert (len(set(plan.starts)) == 1) == (plan.size == plan.outputs * window.stride)


@given(windows, st.integers(1, 40), st.integers(1, 6))
def test_nearest_legal_sizes_are_legal_and_nearest(window, size, parts):
    below, above = nearest_legal_sizes(window, size, parts)

    def legal(n):
        return len(taps(window, n)) > 0 and n % parts == 0 and len(taps(window, n)) % parts == 0

    assert below is None or ((legal(below) and not any(legal(n) for n in range(below + 1, size + 1))) or below == size)
    assert above is None or (legal(above) and not any(legal(n) for n in range(size, above)))
    if above is None:
        assert not any(legal(n) for n in range(size, size + 60))


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


def test_legal_splits_whose_halos_differ():
    assert not check_split(Window(3, padding="VALID"), 12, 2)
    assert not check_split(Window(3, 3), 10, 2)


def test_an_illegal_split_names_both_sizes():
    assert check_split(Window(3, 2), 6, 2) == (("output", 3),)
    with pytest.raises(ShapeError, match="output size 3 is not divisible by 2"):
        plan_split(Window(3, 2), 6, 2)


def test_nearest_legal_sizes_without_a_legal_size():
    # x = 4t gives 2t - 1 outputs, which is never divisible by 4.
    assert nearest_legal_sizes(Window(3, 2, padding="VALID"), 10, 4) == (None, None)


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
