"""Tests the position of voxels of a fixed size in a volume, and the way back to the volume."""

import itertools
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.manifest import open_records, record_path
from mtf_imaging.data.sampling.sampling import (
    Sampling,
    Span,
    format_spacing,
    parse_spacing,
    smallest_box,
    way_back,
    whole_field,
)
from mtf_imaging.errors import DataError
from tests.data.resampling import resample_linear, resample_nearest, resample_to_labels
from tests.records import read_record

sizes = st.tuples(*[st.integers(1, 30)] * 3)
spacings = st.tuples(*[st.floats(0.3, 6.0)] * 3)


def labels_back(labels, spans, shape):
    """Resamples labels from the grid to the volume, as the prediction of a perfect network."""
    part, back = way_back(spans, shape)
    return resample_to_labels(np.eye(3)[labels[part]], back)


@given(sizes, spacings, sizes, spacings)
def test_a_box_has_voxels_of_its_spacing_around_the_middle_and_begins_at_a_voxel(shape, own, grid, mm):
    for axis, span in enumerate(Sampling(grid, mm).spans(shape, own)):
        assert span.step * own[axis] == pytest.approx(mm[axis])
        middle = span.start + span.length / 2
        assert abs(middle - shape[axis] / 2) <= span.step
        assert span.start / span.step == pytest.approx(round(span.start / span.step), abs=1e-6)


@given(sizes, spacings, sizes, spacings)
def test_the_inverse_of_a_span_is_where_the_volume_lies_on_the_grid(shape, own, grid, mm):
    for n, span in zip(shape, Sampling(grid, mm).spans(shape, own), strict=True):
        for voxel in (0, n - 1):
            center = span.inverse(n).start + (voxel + 0.5) * span.inverse(n).step
            assert span.start + center * span.step == pytest.approx(voxel + 0.5)
        twice = span.inverse(n).inverse(span.size)
        assert (twice.start, twice.length) == (pytest.approx(span.start), pytest.approx(span.length))


@given(st.lists(st.tuples(sizes, spacings), min_size=1, max_size=4), spacings)
def test_the_smallest_box_crops_nothing_and_one_step_smaller_would(volumes, mm):
    box = smallest_box(volumes, mm)
    assert all(size % 16 == 0 for size in box)
    for shape, own in volumes:
        spans = Sampling(box, mm).spans(shape, own)
        on_box = [span.inverse(n) for span, n in zip(spans, shape, strict=True)]
        assert [span.inside(g) for span, g in zip(on_box, box, strict=True)] == [slice(0, n) for n in shape]
    for axis in range(3):
        longest = max(shape[axis] * own[axis] for shape, own in volumes)
        assert longest > (box[axis] - 16) * mm[axis]


@pytest.mark.parametrize(("mm", "box"), [(3.001, 16), (3.045, 16), (3.05, 32)])
def test_an_excess_of_a_quarter_of_a_voxel_needs_no_further_voxel_and_loses_no_plane(mm, box):
    volume = (16, 16, 16), (3.0, 3.0, mm)
    assert smallest_box([volume], (3.0, 3.0, 3.0)) == (16, 16, box)
    span = Sampling((16, 16, 16), (3.0, 3.0, 3.0)).spans(*volume)[2]
    assert span.inverse(16).inside(16) == slice(0, 16)
    assert (span.start == 0) == (box == 16)


def test_headers_of_32_bit_numbers_do_not_move_the_box_by_a_voxel():
    own = tuple(float(np.float32(mm)) for mm in (0.7, 0.7, 2.5))
    assert smallest_box([((512, 512, 64), own)], (0.7, 0.7, 2.5)) == (512, 512, 64)
    for factor in (1 - 1e-7, 1 + 1e-7):
        spans = Sampling((16, 16, 16), (0.7, 0.7, 0.7)).spans((16, 10, 20), (0.7 * factor,) * 3)
        assert [round(span.start, 3) for span in spans] == [0, -3, 2]
        assert [span.inside(n) for span, n in zip(spans, (16, 10, 20), strict=True)] == [
            slice(0, 16),
            slice(3, 13),
            slice(0, 16),
        ]


# Odd and even, padded and cropped, along each axis.
@pytest.mark.parametrize("grid", [(7, 6, 5), (16, 16, 16), (9, 9, 8), (4, 4, 4), (3, 10, 2)])
def test_at_its_own_spacing_a_volume_is_padded_and_cropped_by_whole_voxels(arrays, grid):
    hu, labels = arrays()
    spacing = (0.7, 0.7, 2.5)
    spans = Sampling(grid, spacing).spans(hu.shape, spacing)
    on_grid = resample_linear(hu, spans, -1024), resample_nearest(labels, spans)
    starts = [round(-span.start) for span in spans]
    for index in np.ndindex(grid):
        source = tuple(j - start for j, start in zip(index, starts, strict=True))
        inside = all(0 <= i < n for i, n in zip(source, hu.shape, strict=True))
        assert on_grid[0][index] == (hu[source] if inside else -1024)
        assert on_grid[1][index] == (labels[source] if inside else 0)
    returned = labels_back(on_grid[1], spans, hu.shape)
    kept = np.zeros(hu.shape, bool)
    kept[tuple(slice(max(0, -s), max(0, -s) + g) for s, g in zip(starts, grid, strict=True))] = True
    np.testing.assert_array_equal(returned, np.where(kept, labels, 0))


def test_labels_at_the_end_of_the_field_of_view_are_restored():
    """The last 2 mm voxel of the box lies half outside the volume; air beyond it must not affect the 7th 1 mm voxel."""
    labels = np.ones((7, 7, 7), np.uint8)
    for grid in (4, 8, 16):
        spans = Sampling((grid,) * 3, (2.0,) * 3).spans(labels.shape, (1.0,) * 3)
        on_grid = resample_nearest(labels, spans)
        assert np.count_nonzero(on_grid) == 4**3
        np.testing.assert_array_equal(labels_back(on_grid, spans, labels.shape), labels)


def test_voxels_beyond_get_the_given_value_and_do_not_affect_voxels_inside():
    ones = np.ones((5, 5, 5))
    spans = Sampling((8, 8, 8), (0.8, 1.0, 3.0)).spans(ones.shape, (1.0, 1.0, 1.0))
    result = resample_linear(ones, spans, beyond=-1024)
    inside = tuple(span.inside(5) for span in spans)
    np.testing.assert_allclose(result[inside], 1)
    result[inside] = -1024
    assert np.all(result == -1024)
    assert Span(0.0, 10.0, 5).inside(0) == slice(0, 0)


@pytest.mark.parametrize("size", [5, 8, 16])
def test_voxels_inside_are_those_that_overlap_the_axis(size):
    for start in np.arange(-13, 13) / 4:
        ends = start + np.arange(size + 1) * 10 / size
        overlapping = np.flatnonzero((ends[1:] > 1e-6) & (ends[:-1] < 6 - 1e-6))
        assert Span(start, 10.0, size).inside(6) == slice(overlapping[0], overlapping[-1] + 1)


@given(sizes, sizes)
def test_a_grid_over_the_whole_field_ignores_the_spacing(shape, grid):
    assert Sampling(grid).spans(shape, (1.5, 0.1, 7.0)) == whole_field(shape, grid)
    assert [s.inside(n) for s, n in zip(whole_field(shape, grid), shape, strict=True)] == [slice(0, g) for g in grid]


def test_spacing_strings():
    assert parse_spacing(" 1.5; 1.5,2 ") == (1.5, 1.5, 2.0)
    assert parse_spacing((1.5, 1, 2)) == (1.5, 1.0, 2.0)
    assert parse_spacing(0.7) == (0.7, 0.7, 0.7)
    assert parse_spacing("") is parse_spacing(None) is None
    for mm in ((0.1, 1 / 3, 2.0), (1e-7, 1.0, 30.0)):
        assert parse_spacing(format_spacing(mm)) == mm
    for bad in ("1.5,1.5", "1,1,0", "1,1,-2", "1,1,nan", "inf", "x:1,y:1,z:1", "1.5mm"):
        with pytest.raises(DataError, match=r"spacing '.*': needs a positive size in mm along x, y and z\. Fix"):
            parse_spacing(bad)


def other_warnings(caplog):
    """Returns the warnings, except that the images of `cases_of` are constant."""
    return [record for record in caplog.records if "this image is constant" not in record.getMessage()]


def cases_of(folder, store, shapes, spacing=(1.5, 2.0, 3.0), codes=("RAS", "LPS", "SAL")):
    """Writes cases that are liver everywhere, with a lesion in the last plane along z."""
    for number, (shape, stored) in enumerate(zip(shapes, itertools.cycle(codes), strict=False)):
        labels = np.ones(shape, np.uint8)
        labels[..., -1] = 2
        store(folder / f"volume-{number}.nii", np.full(shape, -400, np.int16), stored, spacing)
        store(folder / f"segmentation-{number}.nii", labels, stored, spacing)
    return folder


def test_conversion_without_a_resolution_uses_and_prints_the_smallest_box(tmp_path, store, capsys, caplog):
    cases = cases_of(tmp_path / "cases", store, [(7, 6, 5), (8, 6, 20), (12, 5, 4)])
    convert(cases, tmp_path / "out", spacing="1.5,2,3")
    manifest = open_records(tmp_path / "out")
    assert manifest.sampling == Sampling((16, 16, 32), (1.5, 2.0, 3.0))
    assert manifest.cases == ["0", "1", "2"]
    out = capsys.readouterr().out
    assert "box: x:16,y:16,z:32 of 1.5,2,3 mm, the smallest that covers every case, in multiples of 16 voxels" in out
    assert "largest extents: x 18 mm (case 2), y 12 mm (case 0), z 60 mm (case 1)" in out
    assert not other_warnings(caplog)
    for case in find_cases(cases):
        record = read_record(record_path(tmp_path / "out", case.key), manifest.sampling)
        assert np.count_nonzero(record.labels) == np.prod(record.shape)
        np.testing.assert_array_equal(record.image, np.where(record.labels > 0, -400, -1024))
    convert(cases, tmp_path / "out", spacing=(1.5, 2, 3), progress=False)  # a second time, with all records present
    with pytest.raises(DataError, match=r"contains records of resolution x:16,y:16,z:32 of 1.5,2,3 mm, not x:16"):
        convert(cases, tmp_path / "out", 16, spacing=(1.5, 2, 3), progress=False)
    with pytest.raises(DataError, match=r", not x:16,y:16,z:32\. Fix"):
        convert(cases, tmp_path / "out", "x:16,y:16,z:32", progress=False)
    (tmp_path / "out/dataset.json").unlink()
    with pytest.raises(
        DataError, match=r"case-0\.ome\.zarr: this record has resolution x:16,y:16,z:32 of 1.5,2,3 mm, not"
    ):
        convert(cases, tmp_path / "out", "x:16,y:16,z:32", progress=False)


def test_a_record_that_no_disk_holds_is_refused_at_once(tmp_path, store):
    cases = cases_of(tmp_path / "cases", store, [(7, 6, 5)])
    with pytest.raises(DataError, match=r"a record of 1000000000000000000000000000 voxels in 1 channel\(s\) exceeds"):
        convert(cases, tmp_path / "out", 10**9, progress=False)
    assert not (tmp_path / "out").exists()


def test_cropped_liver_and_lesion_voxels_are_counted_by_name(tmp_path, store, caplog):
    caplog.set_level(logging.WARNING)
    cases = cases_of(tmp_path / "cases", store, [(7, 6, 5), (4, 4, 4), (4, 4, 8)])
    convert(cases, tmp_path / "out", "x:7,y:6,z:5", "1.5,2,3", progress=False)
    (warning,) = other_warnings(caplog)
    assert warning.getMessage() == (
        f"{cases}/segmentation-2.nii: 48 of 128 liver voxels and 16 of 16 lesion voxels lie outside the box "
        "x:7,y:6,z:5 of 1.5,2,3 mm and are cropped. Fix: increase the resolution, or choose a coarser spacing."
    )
    assert warning.settings == ("resolution", "spacing")


def test_records_are_opened_only_at_their_spacing(tmp_path, lits_dir):
    boxes, cubes = tmp_path / "boxes", tmp_path / "cubes"
    convert(lits_dir, boxes, 8, "1.5,2,3", progress=False)
    convert(lits_dir, cubes, 8, progress=False)
    assert open_records(boxes).sampling == open_records(boxes, (8, 8, 8), "1.5,2,3").sampling
    assert open_records(boxes).sampling == Sampling((8, 8, 8), (1.5, 2.0, 3.0))
    assert open_records(cubes, spacing="").sampling == Sampling((8, 8, 8))
    with pytest.raises(DataError, match=r"records have resolution x:8,y:8,z:8, not x:8,y:8,z:8 of 1.5,2,3 mm"):
        open_records(cubes, spacing="1.5,2,3")
    with pytest.raises(DataError, match=r"records have resolution x:8,y:8,z:8 of 1.5,2,3 mm, not x:8,y:8,z:8\."):
        open_records(boxes, spacing="")
