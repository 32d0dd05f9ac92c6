"""Images and masks that are read region by region equal those that are read whole."""

import contextlib

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.nifti.reading import NiftiPlanes
from mtf_imaging.data.images import sources, stored
from mtf_imaging.data.images.channels import channel_slabs
from mtf_imaging.data.images.image_statistics import image_statistics
from mtf_imaging.data.images.sources import read_slabs
from mtf_imaging.data.intensities.statistics import channel_statistics
from mtf_imaging.data.reading.open_sources import open_image_source, open_mask, open_segmentation, open_volume
from mtf_imaging.data.sampling import slabs
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.data.sampling.regions import PlaneOrder
from mtf_imaging.data.sampling.sampling import whole_field
from mtf_imaging.errors import DataError
from tests.data.reading import read_volume
from tests.data.resampling import resample_linear

SHAPE = (7, 6, 5)
CODES = ["RAS", "LPS", "SAL", "PIR", "RAI"]
ORDERS = [PlaneOrder(2, True), PlaneOrder(2, True), PlaneOrder(0, False), PlaneOrder(0, True), PlaneOrder(2, False)]
REGIONS = [
    whole_region(SHAPE),
    (slice(1, 6), slice(0, 2), slice(3, 5)),
    (slice(0, 7), slice(2, 6), slice(0, 3)),
    (slice(6, 7), slice(5, 6), slice(2, 3)),
]
BRAIN = Description(("T1w", "FLAIR"), {"tumor": 1}, {"tumor": (1,)})


@pytest.fixture
def small_slabs(monkeypatch):
    monkeypatch.setattr(stored, "_SLAB_VOXELS", 60)
    monkeypatch.setattr(sources, "_SLAB_VOXELS", 60)
    monkeypatch.setattr(slabs, "_SLAB_BYTES", 400)


@pytest.fixture
def planes_read(monkeypatch):
    """The ranges of planes that are read from files."""
    planes, read = [], NiftiPlanes.read
    monkeypatch.setattr(NiftiPlanes, "read", lambda self, at: planes.append((at.start, at.stop)) or read(self, at))
    return planes


@pytest.mark.parametrize("suffix", ["nii", "nii.gz"])
@pytest.mark.parametrize("codes", CODES)
def test_regions_equal_the_whole(tmp_path, store, arrays, codes, suffix, small_slabs):
    hu, labels = arrays()
    path, mask = (store(tmp_path / f"{name}.{suffix}", a, codes) for name, a in (("volume", hu), ("mask", labels)))
    with contextlib.closing(open_volume(path)) as image, contextlib.closing(open_mask(mask, image)) as source:
        assert (image.geometry.shape, image.order) == (SHAPE, ORDERS[CODES.index(codes)])
        assert source.is_stream == (suffix == "nii.gz")
        for region in (*REGIONS, *reversed(REGIONS)):  # in any order, even backwards
            (values,), found = image.read(region), source.read(region)
            assert (values.dtype, found.dtype) == (np.int16, np.uint8)
            np.testing.assert_array_equal(values, hu[region])
            np.testing.assert_array_equal(found, labels[region])


def test_slabs_read_each_plane_once_in_the_order_of_the_file(tmp_path, store, arrays, small_slabs, planes_read):
    hu, _ = arrays()
    for codes in CODES:
        image = open_volume(store(tmp_path / f"{codes}.nii.gz", hu, codes))
        planes_read.clear()
        result = np.zeros(SHAPE, np.int16)
        for region, values in read_slabs(image.channels[0]):
            result[region] = values
        image.check()
        np.testing.assert_array_equal(result, hu)
        assert [start for start, _ in planes_read] == [0, *(stop for _, stop in planes_read[:-1])]
        assert planes_read[-1][1] == image.geometry.stored_shape[2]
        assert len(planes_read) > 1


def test_faults_are_counted_once_and_over_the_whole_file(tmp_path, store, caplog, small_slabs):
    hu = np.zeros((6, 6, 6), np.float32)
    hu[1], hu[0, 0, 5], hu[:, :, 1] = -1000, -3000, np.nan
    image = open_volume(store(tmp_path / "volume-0.nii.gz", hu))
    for region in ((slice(0, 2), slice(0, 6), slice(0, 2)), (slice(0, 6), slice(0, 6), slice(1, 3))):
        image.read(region)
    assert not caplog.records, "before the check, part of the file is unknown"
    for _ in range(2):
        image.check()
    assert [record.message.split(": ", 1)[1] for record in caplog.records] == [
        "36 of 216 voxels are NaN; replaced by -1024 HU.",
        "1 of 216 voxels are below -1024 HU; replaced by -1024 HU.",
    ]


def test_a_check_reads_only_what_has_not_been_read(tmp_path, store, arrays, small_slabs, planes_read):
    image = open_volume(store(tmp_path / "volume-0.nii.gz", arrays()[0]))
    image.read((slice(0, 7), slice(0, 6), slice(1, 3)))
    planes_read.clear()
    image.check()
    assert planes_read == [(0, 1), (3, 4), (4, 5)]


def unusable(kind):
    if kind == "all NaN":
        return np.full(SHAPE, np.nan, np.float32)
    return np.linspace(0, 1, np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


@pytest.mark.parametrize(("kind", "match"), [("all NaN", "all 210 voxels are NaN"), ("normalized", "normalized")])
def test_an_unusable_image_is_refused_by_the_check(tmp_path, store, kind, match):
    image = open_volume(store(tmp_path / "volume-0.nii", unusable(kind)))
    image.read((slice(0, 7), slice(0, 6), slice(0, 1)))
    with pytest.raises(DataError, match=rf"volume-0\.nii: .*{match}"):
        image.check()


def test_unknown_labels_are_refused_by_the_check(tmp_path, store):
    labels = np.zeros(SHAPE, np.uint8)
    labels[..., 4] = 7
    source = open_segmentation(store(tmp_path / "mask.nii.gz", labels))
    source.read((slice(0, 7), slice(0, 6), slice(0, 1)))
    with pytest.raises(DataError, match=r"mask\.nii\.gz: has the label\(s\) 7, but"):
        source.check()


@pytest.mark.parametrize("damage", [-6, None], ids=["checksum", "truncated"])
def test_the_end_of_a_file_is_checked_without_reading_its_voxels(tmp_path, store, arrays, damage):
    path = store(tmp_path / "volume-0.nii.gz", arrays()[0])
    data = bytearray(path.read_bytes())
    if damage is None:
        del data[-12:]
    else:
        data[damage] ^= 1
    path.write_bytes(data)
    image = open_volume(path)
    image.read((slice(0, 7), slice(0, 6), slice(0, 1)))
    with pytest.raises(DataError, match=r"volume-0\.nii\.gz: cannot be read as NIfTI"):
        image.check()


def test_lost_geometry_is_inferred_when_an_image_is_opened(tmp_path, small_slabs):
    hu = np.full((8, 20, 9), -1000, np.int16)
    hu[1:7, 4:16], hu[3:5, 13:15] = 0, 600  # the spine lies at the high end of y
    nibabel.save(nibabel.Nifti1Image(hu, np.eye(4)), tmp_path / "volume-0.nii.gz")
    image = open_volume(tmp_path / "volume-0.nii.gz")
    assert image.geometry.axis_codes == "LPS"
    region = slice(0, 3), slice(0, 20), slice(2, 9)
    np.testing.assert_array_equal(image.read(region)[0], read_volume(image.path).hu[region])


def values(number):
    return np.random.default_rng(number).normal(100, 40, SHAPE).astype(np.float32)


@pytest.mark.parametrize("codes", [("RAS", "RAS"), ("LPS", "RAI"), ("SAL", "RAS")], ids="-".join)
@pytest.mark.parametrize("suffix", ["nii", "nii.gz"])
def test_channels_are_resampled_in_slabs_whatever_their_axis_order(tmp_path, store, codes, suffix, small_slabs):
    paths = [store(tmp_path / f"a_000{n}.{suffix}", values(n), codes[n]) for n in range(2)]
    spans = whole_field(SHAPE, (9, 4, 5))
    whole = np.stack([resample_linear(values(n), spans) for n in range(2)], -1)
    with contextlib.closing(open_image_source(paths, BRAIN)) as image:
        for region in (whole_region((9, 4, 5)), (slice(2, 7), slice(1, 4), slice(0, 3))):
            for slab, found in channel_slabs(image, spans, region):
                np.testing.assert_array_equal(found, whole[slab])
        order = [slab[image.order.axis].start for slab, _ in channel_slabs(image, spans, whole_region((9, 4, 5)))]
        assert order == sorted(order, reverse=not image.order.ascending)
        assert len(order) > 1
        assert image_statistics(image) == tuple(channel_statistics(values(n)) for n in range(2))


def test_four_axes_are_read_by_region(tmp_path, small_slabs):
    stack = np.stack([values(0), values(1)], -1)
    for name in ("a.nii", "a.nii.gz"):
        nibabel.save(nibabel.Nifti1Image(stack, np.diag([1, 2, 3, 1])), tmp_path / name)
        image = open_image_source([tmp_path / name], BRAIN)
        for region in REGIONS:
            for number, channel in enumerate(image.read(region)):
                np.testing.assert_array_equal(channel, values(number)[region])


def test_a_mask_in_another_axis_order_keeps_its_own_order(tmp_path, store, arrays):
    hu, labels = arrays()
    image = open_volume(store(tmp_path / "volume-0.nii.gz", hu, "LPS"))
    mask = open_mask(store(tmp_path / "mask.nii.gz", labels, "SAL"), image)
    assert (image.order, mask.order) == (PlaneOrder(2, True), PlaneOrder(0, False))
    np.testing.assert_array_equal(mask.read(whole_region(hu.shape)), labels)
