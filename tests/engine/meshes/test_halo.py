"""Slices widened by the voxels of their neighbors, and the adjoint, compared with NumPy on the whole tensor."""

import collections
import math
from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.engine.layout.windows import Window, plan_split
from mtf_imaging.engine.meshes.halo import Margin, exchanges, narrow, widen
from mtf_imaging.engine.meshes.halo.gathering import gathered_margins
from mtf_imaging.engine.meshes.halo.steps import cut
from mtf_imaging.engine.meshes.transport import InProcess
from tests.engine.meshes.processors import array, laid_out, make_mesh


@dataclass(frozen=True)
class Split:
    """A tensor `[batch, spatial..., channels]` that is split over a mesh.

    Attributes:
      grid: (mesh sizes, number of devices).
      sizes: number of voxels of a slice along each spatial dimension.
      reaches: margins (before, after) of each spatial dimension, in voxels; negative numbers crop.
      axes: the mesh axis that splits each spatial dimension, or None.
      channels: number of channels. It determines the bytes of a row, and thereby whether rows are gathered.
    """

    grid: tuple
    sizes: tuple
    reaches: tuple
    axes: tuple
    channels: int = 2

    def __str__(self):
        return f"{self.grid}-{self.sizes}-{self.reaches}-{self.axes}-{self.channels}"

    def mesh(self):
        return make_mesh(*self.grid)

    def margins(self):
        each = zip(self.sizes, self.reaches, self.axes, strict=True)
        return [Margin(1 + i, size, *reach, axis) for i, (size, reach, axis) in enumerate(each)]

    @property
    def slice_shape(self):
        return (2, *self.sizes, self.channels)

    def every_dimension(self):
        """Returns margins of the spatial dimensions, and of the batch, which the remaining mesh dimension splits."""
        unused = [Margin(0, 2, 0, 0, axis) for axis in range(len(self.grid[0])) if axis not in self.axes]
        assert len(unused) <= 1
        return self.margins() + unused

    def whole_shape(self):
        shape = list(self.slice_shape)
        for m in self.every_dimension():
            shape[m.dim] *= 1 if m.mesh_axis is None else self.grid[0][m.mesh_axis]
        return shape

    def windows(self, whole, fill):
        """Cuts the widened slices of all processors from the padded whole tensor."""
        pads = [(0, 0)] * whole.ndim
        for m in self.margins():
            pads[m.dim] = (max(0, m.before), max(0, m.after))
        padded, slices = np.pad(whole, pads, constant_values=fill), []
        for at in np.ndindex(*self.grid[0]):
            index = [slice(None)] * whole.ndim
            for m in self.every_dimension():
                begin = max(0, -m.before) if m.mesh_axis is None else at[m.mesh_axis] * m.size
                index[m.dim] = slice(begin, begin + m.before + m.size + m.after)
            slices.append(padded[tuple(index)])
        return np.reshape(slices, [*self.grid[0], *slices[0].shape])

    def cut(self, whole):
        """Cuts the slices of all processors without margins."""
        no_margins = ((0, 0),) * len(self.sizes)
        return Split(self.grid, self.sizes, no_margins, self.axes, self.channels).windows(whole, 0)


SPLITS = [
    # One dimension is split, with one slice per device, two slices per device, or one device.
    Split(((4,), 4), (3, 5), ((1, 2), (0, 0)), (0, None)),
    Split(((4,), 4), (3, 5), ((2, 0), (0, 0)), (0, None)),
    Split(((4,), 4), (3, 5), ((0, 3), (0, 0)), (0, None)),
    Split(((4,), 2), (3, 5), ((1, 2), (1, 1)), (0, None)),
    Split(((4,), 1), (3, 5), ((1, 2), (2, 1)), (0, None)),
    Split(((4,), 1), (3, 5), ((2, 1), (1, 3)), (0, None), 8),
    Split(((4,), 1), (3, 5), ((2, 1), (1, 2)), (None, 0), 8),
    # The margins of both neighbors overlap in a slice, with one slice per device.
    Split(((4,), 4), (3, 5), ((2, 2), (1, 0)), (0, None)),
    # Two dimensions are split, so corners must be exchanged. Rows are gathered from 48 bytes (6 channels) up.
    Split(((2, 2), 1), (3, 2), ((1, 2), (2, 1)), (0, 1)),
    Split(((2, 2), 1), (3, 2), ((1, 2), (2, 1)), (0, 1), 8),
    Split(((2, 2), 4), (3, 2), ((1, 2), (2, 1)), (0, 1)),
    Split(((4, 2), 4), (2, 3), ((1, 2), (1, 3)), (0, 1)),
    Split(((4, 2), 4), (2, 3), ((1, 2), (1, 3)), (0, 1), 8),  # y is gathered first, then x is sent
    Split(((3, 2), 2), (2, 2), ((1, 2), (2, 1)), (0, 1), 1),  # x is gathered, y is sent
    Split(((3, 2), 2), (3, 2), ((1, 2), (0, 1)), (1, 0), 8),
    Split(((2, 3), 1), (3, 2), ((1, 2), (0, 1)), (1, 0), 8),
    Split(((2, 4), 8), (2, 3), ((1, 2), (3, 1)), (1, 0)),
    Split(((2, 3), 1), (2, 3), ((1, 2), (1, 1)), (1, None), 8),
    Split(((2, 4), 8), (2, 3), ((1, 2), (1, 1)), (1, None)),
    # Three dimensions are split.
    Split(((2, 2, 2), 1), (2, 2, 3), ((1, 2), (1, 0), (2, 1)), (0, 1, 2), 8),
    Split(((2, 2, 2), 1), (2, 2, 3), ((1, 2), (1, 0), (2, 1)), (0, 1, 2)),
    Split(((2, 2, 2), 2), (2, 2, 3), ((1, 2), (1, 1), (0, 1)), (2, 1, 0), 8),
    Split(((2, 2, 2), 4), (2, 2, 2), ((1, 2), (1, 1), (0, 1)), (2, 0, 1), 8),
    Split(((2, 2, 2), 8), (2, 2, 2), ((1, 1), (0, 1), (2, 1)), (0, 1, 2)),
    Split(((2, 3), 2), (2, 3, 2), ((1, 1), (1, 2), (2, 1)), (0, None, 1), 8),
    # The halo reaches past the next slice, on the same device or on others.
    Split(((8,), 4), (1, 5), ((3, 0), (0, 0)), (0, None)),
    Split(((8,), 8), (1, 5), ((3, 4), (1, 0)), (0, None)),
    Split(((8,), 1), (2, 5), ((5, 6), (1, 0)), (0, None)),
    Split(((8,), 1), (1, 2), ((3, 2), (1, 0)), (None, 0), 2),
    Split(((8,), 2), (2, 3), ((0, 5), (0, 0)), (0, None)),
    Split(((8,), 4), (3, 1), ((1, 2), (3, 0)), (None, 0)),  # x is padded after y has been sent
    Split(((8,), 2), (1, 3), ((20, 9), (1, 1)), (0, None)),  # past all slices
    Split(((4, 2), 4), (2, 3), ((5, 3), (1, 1)), (0, 1)),
    Split(((4, 2), 2), (2, 3), ((1, 1), (4, 5)), (0, 1)),
    Split(((2, 4), 8), (3, 1), ((1, 1), (2, 3)), (0, 1)),
    Split(((4, 4), 4), (1, 1), ((3, 2), (2, 3)), (0, 1)),
    Split(((4, 4), 1), (1, 2), ((3, 2), (5, 3)), (0, 1), 32),
    Split(((4, 4), 2), (1, 2), ((3, 2), (5, 3)), (0, 1), 32),
    Split(((3, 2), 2), (2, 2), ((1, 3), (3, 1)), (0, 1), 1),
    Split(((2, 3, 2), 4), (2, 1, 2), ((1, 1), (2, 1), (2, 0)), (0, 1, 2)),
    # A dimension that is not split is cropped.
    Split(((4,), 4), (3, 5), ((1, 2), (-1, -2)), (0, None)),
    Split(((4,), 1), (3, 5), ((1, 2), (2, -1)), (0, None), 8),
    Split(((4,), 1), (5, 3), ((-3, 1), (1, 2)), (None, 0), 8),
    Split(((8,), 8), (5, 1), ((-2, 0), (3, 4)), (None, 0)),
    Split(((2, 2), 4), (3, 5, 2), ((1, 2), (-1, 3), (2, 1)), (0, None, 1)),
]

splits = pytest.mark.parametrize("split", SPLITS, ids=str)


@splits
def test_widened_slices_equal_slices_of_the_padded_whole_tensor(split):
    mesh = split.mesh()
    whole = np.random.default_rng(0).standard_normal(split.whole_shape())
    wide = widen(mesh, laid_out(mesh, split.cut(whole)), split.margins(), fill=-7)
    np.testing.assert_array_equal(array(mesh, wide.tensor_list), split.windows(whole, -7))


@splits
def test_narrow_adds_every_copy_to_its_source_voxel(split):
    mesh, shape = split.mesh(), split.whole_shape()
    sources = split.windows(np.arange(np.prod(shape)).reshape(shape), -1)
    gradients, expected = np.random.default_rng(0).integers(-9, 9, sources.shape).astype(float), np.zeros(shape)
    np.add.at(expected.reshape(-1), sources[sources >= 0], gradients[sources >= 0])
    narrowed = narrow(mesh, laid_out(mesh, gradients), split.margins())
    np.testing.assert_array_equal(array(mesh, narrowed.tensor_list), split.cut(expected))


@splits
def test_narrow_is_the_adjoint(split):
    """`<widen(x), y> = <x, narrow(y)>` holds exactly for integers."""
    mesh, rng = split.mesh(), np.random.default_rng(0)
    x = split.cut(rng.integers(-9, 9, split.whole_shape()).astype(float))
    wide = widen(mesh, laid_out(mesh, x), split.margins())
    y = rng.integers(-9, 9, [*mesh.grid.mesh, *wide.slice_shape]).astype(float)
    narrowed = narrow(mesh, laid_out(mesh, y), split.margins())
    assert np.sum(array(mesh, wide.tensor_list) * y) == np.sum(x * array(mesh, narrowed.tensor_list))


@splits
def test_a_mesh_records_exchanges(split):
    mesh, margins = split.mesh(), split.margins()
    x = laid_out(mesh, split.cut(np.zeros(split.whole_shape())))
    for adjoint, fn in ((False, widen), (True, narrow)):
        mesh.exchanged.clear()
        x = fn(mesh, x, margins)
        counts = collections.Counter(mesh.exchanged)
        assert counts == collections.Counter(exchanges(mesh, margins, split.slice_shape, 8, adjoint))
        assert all(exchange.sent_by_all(mesh.grid.mesh) for exchange in counts), "every exchange has a sender"


@splits
def test_exchanges_are_the_messages_between_devices(split, monkeypatch):
    mesh, margins, sent = split.mesh(), split.margins(), []
    grid = mesh.grid
    exchange = InProcess.exchange

    def noted(self, messages, values):
        sent.extend(np.prod(m.shape) * values[0].dtype.size for m in messages if m.source != m.target)
        return exchange(self, messages, values)

    monkeypatch.setattr(InProcess, "exchange", noted)
    x = laid_out(mesh, split.cut(np.zeros(split.whole_shape())))
    for fn in (widen, narrow):
        sent.clear()
        mesh.exchanged.clear()
        x = fn(mesh, x, margins)
        expected = 0
        for halo in mesh.exchanged:
            (axis,) = halo.axes
            expected += (
                halo.nbytes * (grid.shards[axis] - 1) * abs(halo.distance) * math.prod(grid.mesh) // grid.mesh[axis]
            )
        if all(abs(halo.distance) == 1 for halo in mesh.exchanged):
            assert sum(sent) == expected
        else:
            assert sum(sent) <= expected, "slices of a device share the voxels of halos that reach past the next slice"


@pytest.mark.parametrize(
    ("grid", "axes", "channels", "expected"),
    [
        (((2, 2), 1), (0, 1), 6, 2),  # the rows behind y have 6 x 8 bytes
        (((2, 2), 1), (0, 1), 5, 1),  # the rows behind y have 40 bytes, the rows behind x 5 times that
        (((2, 2), 1), (0, None), 6, 1),
        (((2, 2), 1), (None, 0), 6, 2),
        (((2, 1), 1), (0, 1), 6, 1),
        (((2, 2), 2), (0, 1), 6, 2),  # only y: the neighbors along x are on another device
        (((2, 2), 2), (1, 0), 6, 1),
        (((2, 2), 4), (0, 1), 6, 0),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_dimensions_with_long_rows_on_one_device_are_gathered(grid, axes, channels, expected, order):
    mesh, sizes = make_mesh(*grid), (3, 5)
    margins = [Margin(1 + i, size, 1, 1, axis) for i, (size, axis) in enumerate(zip(sizes, axes, strict=True))]
    gathered = gathered_margins(mesh.grid, margins[::order], (2, *sizes, channels), 8)
    on_one_device = {axis for axis, shards in enumerate(mesh.grid.shards) if shards == 1}
    for m in margins:
        assert (m in gathered) == (m.dim <= expected and m.mesh_axis in on_one_device)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("far", [False, True])
def test_values_keep_their_type_and_the_border_is_zero_by_default(dtype, devices, far):
    split = Split(((4,), devices), (3, 2), ((4, 1) if far else (1, 1), (1, 1)), (0, None))
    mesh, whole = split.mesh(), np.arange(np.prod(split.whole_shape())).reshape(split.whole_shape())
    x = mesh.map_stacks(lambda stack: tf.cast(stack, dtype), laid_out(mesh, split.cut(whole)))
    wide = widen(mesh, x, split.margins())
    assert wide.dtype == dtype
    np.testing.assert_array_equal(array(mesh, wide.tensor_list), split.windows(whole, 0))


def test_the_border_of_a_maximum_is_minus_infinity():
    for split in SPLITS:
        mesh, whole = split.mesh(), np.ones(split.whole_shape())
        wide = widen(mesh, laid_out(mesh, split.cut(whole)), split.margins(), fill=-np.inf)
        np.testing.assert_array_equal(array(mesh, wide.tensor_list), split.windows(whole, -np.inf))


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_nothing_to_widen(devices):
    split = Split(((4,), devices), (3, 2), ((0, 0), (0, 0)), (0, None))
    mesh, whole = split.mesh(), np.ones(split.whole_shape())
    x = laid_out(mesh, split.cut(whole))
    assert widen(mesh, x, split.margins()) is x
    assert narrow(mesh, x, split.margins()) is x
    assert widen(mesh, x, []) is x
    assert mesh.exchanged == []


@pytest.mark.parametrize("grid", [((4, 2), 4), ((4, 2), 1), ((3, 2), 2), ((2, 4), 8)], ids=str)
def test_margins_may_be_given_in_any_order(grid):
    split = Split(grid, (3, 2, 2), ((1, 2), (2, 1), (0, 1)), (0, 1, None), 8)
    mesh, whole = split.mesh(), np.random.default_rng(0).standard_normal(split.whole_shape())
    wide = widen(mesh, laid_out(mesh, split.cut(whole)), split.margins()[::-1], fill=-7)
    np.testing.assert_array_equal(array(mesh, wide.tensor_list), split.windows(whole, -7))


WINDOWS = [
    # (window, voxels, number of slices): slices start reading at different positions of their widened slice
    (Window(3, padding="VALID"), 12, 2),
    (Window(4, padding="VALID"), 15, 3),
    (Window(3, 3), 10, 2),
    (Window(5, padding="VALID"), 8, 4),  # every window starts in a different slice
    (Window(4, 3, padding="VALID"), 16, 1),
    (Window(2, 3, 2, padding="VALID"), 20, 2),
    (Window(3, padding=(-1, 3)), 12, 2),  # every slice starts one voxel late
    (Window(2, 2, padding=(3, -3)), 12, 2),  # the halo replaces 3 voxels of each slice
    (Window(2, padding=(-2, -1)), 12, 4),
    (Window(3, padding=(8, 6)), 12, 3),
]


def _cut_margin(window, size, parts):
    plan = plan_split(window, size, parts)
    return Margin(1, plan.size, plan.before, plan.after, 0, plan)


def _read(window, size, parts):
    """Returns the indices of the voxels of the whole tensor that the windows of each slice read; -1 for padding."""
    outputs, pad = window.output_size(size) // parts, window.pads(size)[0]
    first = np.arange(parts)[:, None] * outputs * window.stride - pad
    at = first + np.arange(window.span(outputs))
    return np.where((at >= 0) & (at < size), at, -1)


@pytest.mark.parametrize(("window", "size", "parts"), WINDOWS, ids=str)
@pytest.mark.parametrize("one_device", [False, True])
def test_each_slice_is_cut_where_its_windows_begin(window, size, parts, one_device):
    mesh, margin = make_mesh((parts,), 1 if one_device else parts), _cut_margin(window, size, parts)
    whole = np.random.default_rng(0).standard_normal([2, size, 3])
    slices = np.stack(np.split(whole, parts, axis=1))
    read = _read(window, size, parts)
    expected = np.where(read[:, None, :, None] < 0, -7, np.stack([whole[:, at] for at in read]))
    wide = widen(mesh, laid_out(mesh, slices), [margin], fill=-7)
    actual = array(mesh, wide.tensor_list)
    # If slices are not cut, a tail shorter than the stride may remain, which no window reads.
    assert actual.shape[2] - expected.shape[2] < window.stride
    np.testing.assert_array_equal(actual[:, :, : expected.shape[2]], expected)

    gradients = np.random.default_rng(1).integers(-9, 9, actual.shape).astype(float)
    gradients[:, :, expected.shape[2] :] = 0
    total = np.zeros([2, size, 3])
    for at, gradient in zip(read, gradients, strict=True):
        np.add.at(total, (slice(None), at[at >= 0]), gradient[:, : len(at)][:, at >= 0])
    narrowed = narrow(mesh, laid_out(mesh, gradients), [margin])
    np.testing.assert_array_equal(array(mesh, narrowed.tensor_list), np.stack(np.split(total, parts, axis=1)))


def test_the_windows_above_are_cut():
    assert [plan_split(*window).needs_cut for window in WINDOWS].count(True) >= 8


def test_voxels_are_cut_out_of_stacks_of_many_axes():
    """TensorFlow slices at most 8 axes."""
    stack = np.arange(3**3 * 2**7).reshape([3, 3, 3, *[2] * 7])
    found = cut(tf.constant(stack), {0: (1, 2), 1: (0, 1), 6: (1, 1)})
    np.testing.assert_array_equal(found, stack[:, 1:3, :1, :, :, :, :, 1:2])
