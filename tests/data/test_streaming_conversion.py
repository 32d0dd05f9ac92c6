"""A case that is converted in slabs has the record of one that is read and resampled whole, in little memory."""

import tracemalloc

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.cases.cases import Case, find_cases
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images import sources, stored
from mtf_imaging.data.intensities.statistics import channel_statistics
from mtf_imaging.data.records import conversion
from mtf_imaging.data.records.make_record import write_case
from mtf_imaging.data.sampling import slabs
from mtf_imaging.data.sampling.sampling import Sampling, whole_field
from mtf_imaging.errors import DataError
from tests.data.resampling import resample_linear, resample_nearest
from tests.records import names, read_record

SHAPE = (9, 7, 8)
SAMPLINGS = {
    "coarser": Sampling((4, 4, 3)),
    "finer": Sampling((12, 15, 11)),
    "mixed": Sampling((12, 3, 8)),
    "same": Sampling(SHAPE),
    "padded": Sampling((12, 12, 24), (1.5, 1.5, 1.5)),
    "cropped": Sampling((4, 4, 6), (1.5, 2.0, 3.0)),
}
# The stored axes of the image and of the mask. Those of "another order" follow each other along other axes.
CODES = {"RAS": ("RAS", "RAS"), "LPI": ("LPI", "LPI"), "another order": ("SAL", "RAI")}


@pytest.fixture
def small_slabs(monkeypatch):
    monkeypatch.setattr(stored, "_SLAB_VOXELS", 100)
    monkeypatch.setattr(sources, "_SLAB_VOXELS", 100)
    monkeypatch.setattr(slabs, "_SLAB_BYTES", 800)


def write(folder, store, codes, suffix="nii.gz", dtype=np.int16):
    rng = np.random.default_rng(0)
    hu, labels = rng.integers(-1000, 1000, SHAPE).astype(dtype), rng.integers(0, 3, SHAPE).astype(np.uint8)
    store(folder / f"volume-0.{suffix}", hu, codes[0])
    store(folder / f"segmentation-0.{suffix}", labels, codes[1])
    return find_cases(folder)[0], hu, labels


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
@pytest.mark.parametrize("suffix", ["nii.gz", "nii"])
def test_a_record_written_in_slabs_equals_the_whole(tmp_path, store, sampling, codes, suffix, small_slabs):
    case, hu, labels = write(tmp_path / "cases", store, codes, suffix)
    made = write_case(case, tmp_path / "case-0.ome.zarr", sampling, chunk=(5, 4, 3))
    record = read_record(tmp_path / "case-0.ome.zarr")
    spans = sampling.spans(SHAPE, (1.5, 2.0, 3.0))
    np.testing.assert_array_equal(record.image, np.rint(resample_linear(hu, spans, -1024)).astype(np.int16))
    np.testing.assert_array_equal(record.labels, resample_nearest(labels, spans))
    assert (made.grid, made.is_labeled, made.facts.shape) == (sampling.grid, True, SHAPE)
    assert record.axis_codes == codes[0]


@pytest.mark.parametrize("codes", [("RAS", "RAS"), ("LPI", "SAL")], ids="-".join)
@pytest.mark.parametrize("channels", [("T1w", "CT"), ("T1w",)], ids="-".join)
def test_channels_written_in_slabs_equal_the_whole(tmp_path, store, codes, channels, small_slabs):
    rng = np.random.default_rng(0)
    values = [rng.normal(100, 300, SHAPE).astype(np.float32) for _ in channels]
    paths = [
        store(tmp_path / f"a_000{n}.nii.gz", array, code)
        for n, (array, code) in enumerate(zip(values, codes, strict=False))
    ]
    labels = rng.integers(0, 2, SHAPE).astype(np.uint8)
    mask = store(tmp_path / "mask.nii.gz", labels)
    description = Description(channels, {"tumor": 1}, {"tumor": (1,)})
    case = Case("a", paths[0], mask, "a.nii.gz", tuple(paths))
    write_case(case, tmp_path / "case-a.ome.zarr", Sampling((12, 3, 8)), description=description, chunk=(5, 4, 3))
    record = read_record(tmp_path / "case-a.ome.zarr")
    spans = whole_field(SHAPE, (12, 3, 8))
    for number, (name, array) in enumerate(zip(channels, values, strict=True)):
        if name == "CT":
            array = np.maximum(np.rint(array), -1024).astype(np.int16)
        expected = resample_linear(array, spans, -1024 if name == "CT" else 0)
        np.testing.assert_array_equal(record.image[..., number], np.rint(expected) if name == "CT" else expected)
        assert record.statistics[number] == channel_statistics(array)
    np.testing.assert_array_equal(record.labels, resample_nearest(labels, spans))


def test_faults_beyond_the_box_are_found(tmp_path, store, small_slabs, caplog):
    """The planes that the box crops are read, too: their faults, their labels, and the end of the files."""
    case, hu, labels = write(tmp_path / "cases", store, ("RAS", "RAS"))
    hu[..., 0], hu[..., 7], labels[..., :7], labels[..., 7] = -3000, -2000, 0, 2
    store(case.volume, hu)
    store(case.labels, labels)
    write_case(case, tmp_path / "case-0.ome.zarr", SAMPLINGS["cropped"])
    texts = [record.getMessage().split(": ", 1)[1] for record in caplog.records]
    assert texts[0] == "126 of 504 voxels are below -1024 HU; replaced by -1024 HU."
    counts = "63 of 63 liver voxels and 63 of 63 lesion voxels"
    assert texts[1].startswith(f"{counts} lie outside the box x:4,y:4,z:6 of 1.5,2,3 mm and are cropped.")
    labels[..., 0] = 7
    store(case.labels, labels)
    with pytest.raises(DataError, match=r"segmentation-0\.nii\.gz: labels range from 0 to 7"):
        write_case(case, tmp_path / "other.ome.zarr", SAMPLINGS["cropped"])
    assert names(tmp_path) == ["case-0.ome.zarr", "cases"], "a refused case leaves no record"


def test_a_label_that_the_grid_misses_is_no_empty_mask(tmp_path, store, caplog):
    case, _, labels = write(tmp_path / "cases", store, ("RAS", "RAS"))
    labels[...] = 0
    labels[0, 0, 0] = 1
    store(case.labels, labels)
    assert not write_case(case, tmp_path / "case-0.ome.zarr", SAMPLINGS["coarser"]).is_labeled
    assert not caplog.records
    labels[0, 0, 0] = 0
    store(case.labels, labels)
    write_case(case, tmp_path / "case-1.ome.zarr", SAMPLINGS["coarser"])
    assert "this mask has no voxel of liver or lesion" in caplog.text


TALL = (64, 64, 1026)  # 4.2 million voxels
SLABS = 6 << 20  # allowance for slabs and for the layers of chunks
OBJECTS = 1 << 19  # allowance for small objects


@pytest.mark.slow
@pytest.mark.parametrize("grid", [(64, 64, 1026), (16, 16, 64), (32, 100, 1500)], ids=str)
@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_memory_does_not_grow_with_the_case(tmp_path, monkeypatch, grid, dtype):
    monkeypatch.setattr(stored, "_SLAB_VOXELS", 1 << 16)
    monkeypatch.setattr(sources, "_SLAB_VOXELS", 1 << 16)
    monkeypatch.setattr(slabs, "_SLAB_BYTES", 1 << 18)
    (tmp_path / "cases").mkdir()
    hu = np.random.default_rng(0).integers(-1000, 1000, TALL).astype(dtype)
    for name, array in (("volume-0.nii.gz", hu), ("segmentation-0.nii.gz", (hu > 990).astype(np.uint8))):
        nibabel.save(nibabel.Nifti1Image(array, np.diag([-1, -1, 1, 1])), tmp_path / "cases" / name)
    case = find_cases(tmp_path / "cases")[0]
    write_case(case, tmp_path / "warm-up.ome.zarr", Sampling((4, 4, 4)))  # imports
    tracemalloc.start()
    try:
        write_case(case, tmp_path / "case-0.ome.zarr", Sampling(grid), chunk=(32, 32, 32))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < SLABS, f"{peak / 2**20:.1f} MiB"


@pytest.mark.slow
@pytest.mark.parametrize("channels", [("CT",), ("T1w", "T2w", "FLAIR", "PD")], ids=len)
def test_the_estimated_memory_covers_the_arrays_of_a_conversion(tmp_path, monkeypatch, channels):
    monkeypatch.setattr(stored, "_SLAB_VOXELS", 1 << 14)
    monkeypatch.setattr(slabs, "_SLAB_BYTES", 1 << 18)
    # The histograms of the statistics are larger than these slabs.
    monkeypatch.setattr("mtf_imaging.data.records.make_record._checked_statistics", lambda *_: ())
    shape, chunk = (96, 96, 96), (32, 32, 32)
    values = np.random.default_rng(0).normal(0, 300, shape).astype(np.float32)
    paths = [tmp_path / f"{name}.nii" for name in (*channels, "mask")]
    for path, array in zip(paths, [values] * len(channels) + [(values > 600).astype(np.uint8)], strict=True):
        nibabel.save(nibabel.Nifti1Image(array, np.diag([-1, -1, 1, 1])), path)
    case = Case("a", paths[0], paths[-1], "a", tuple(paths[:-1]))
    how = {"sampling": Sampling(shape), "description": Description(channels, {"tumor": 1}, {"tumor": (1,)})}
    spans = how["sampling"].spans(shape, (1.0, 1.0, 1.0))
    estimate = conversion.case_bytes(shape, spans, how["description"], chunk) - conversion.IMPORT_BYTES
    write_case(case, tmp_path / "warm-up.ome.zarr", **how)  # imports
    tracemalloc.start()
    try:
        write_case(case, tmp_path / "case-a.ome.zarr", chunk=chunk, **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert estimate / 2 < peak < estimate + OBJECTS, f"{peak / 2**20:.1f} MiB, not {estimate / 2**20:.1f} MiB"
