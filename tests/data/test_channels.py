"""Tests reading of images with several channels or other modalities, and of their labels."""

import dataclasses

import nibabel
import numpy as np
import pytest
import SimpleITK

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.data.reading.geometry import read_image_geometry
from mtf_imaging.errors import DataError
from tests.data.reading import read_image, read_labels, read_mask, read_segmentation, read_volume, write_labels

SHAPE = (7, 6, 5)
BRAIN = Description(
    channels=("FLAIR", "T1w"),
    labels={"edema": 1, "core": 2, "enhancing": 3},
    masks={"whole": (1, 2, 3), "core": (2, 3), "enhancing": (3,)},
    region_order=(1, 2, 3),
    ignore=4,
)
PET_CT = dataclasses.replace(BRAIN, channels=("CT", "PET"), intensities=())


def values(seed=0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(0, 900, SHAPE).astype(dtype)


def stacked(path, *channels, affine=None, dtype=np.float32):
    """Writes channels along the fourth axis of one file, as the Decathlon does."""
    array = np.stack(channels, 3).astype(dtype)
    nibabel.save(nibabel.Nifti1Image(array, np.diag([1.5, 2, 3, 1]) if affine is None else affine), path)
    return path


@pytest.mark.parametrize("codes", ["RAS", "LPS", "PSR"])
def test_one_file_per_channel_reads_as_canonical_arrays(tmp_path, store, codes):
    paths = [store(tmp_path / f"a_000{n}.nii.gz", values(n), codes) for n in range(2)]
    image = read_image(paths, BRAIN)
    assert image.names == ("FLAIR", "T1w")
    for number, channel in enumerate(image.channels):
        assert channel.dtype == np.float32
        np.testing.assert_array_equal(channel, values(number))
    assert (image.geometry.shape, image.geometry.spacing) == (SHAPE, (1.5, 2.0, 3.0))
    assert read_image_geometry(paths, BRAIN).spacing == (1.5, 2.0, 3.0)


def test_channels_in_different_axis_orders_are_aligned(tmp_path, store):
    paths = [store(tmp_path / f"a_000{n}.nii.gz", values(n), codes) for n, codes in enumerate(("RAS", "SPL"))]
    for number, channel in enumerate(read_image(paths, BRAIN).channels):
        np.testing.assert_array_equal(channel, values(number))


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("slab", [1, 1 << 21])
def test_a_file_with_four_axes_has_its_channels_last(tmp_path, monkeypatch, name, slab):
    monkeypatch.setattr("mtf_imaging.data.images.stored._SLAB_VOXELS", slab)
    path = stacked(tmp_path / name, values(0), values(1))
    image = read_image([path], BRAIN)
    for number, channel in enumerate(image.channels):
        np.testing.assert_array_equal(channel, values(number))
    assert read_image_geometry([path], BRAIN).shape == SHAPE


def test_a_damaged_end_of_a_file_with_four_axes_is_reported(tmp_path):
    path = stacked(tmp_path / "a.nii.gz", values(0), values(1))
    data = bytearray(path.read_bytes())
    data[-6] ^= 1  # in the checksum
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.nii\.gz: cannot be read as NIfTI"):
        read_image([path], BRAIN)


def test_scaled_values_are_read_scaled(tmp_path):
    image = nibabel.Nifti1Image(values(0, np.int16), np.diag([1.5, 2, 3, 1]))
    image.header.set_slope_inter(0.5, -3)
    for number in range(2):
        nibabel.save(image, tmp_path / f"a_000{number}.nii")
    expected = nibabel.load(tmp_path / "a_0000.nii").get_fdata(dtype=np.float32)
    read = read_image([tmp_path / f"a_000{n}.nii" for n in range(2)], BRAIN)
    np.testing.assert_allclose(read.channels[1], expected, rtol=1e-6)


def test_a_single_ct_reads_as_its_volume(tmp_path, store, arrays):
    path = store(tmp_path / "a_0000.nii.gz", arrays()[0], "LPS")
    image, volume = read_image([path], dataclasses.replace(BRAIN, channels=("CT",), intensities=())), read_volume(path)
    assert image.channels[0].dtype == np.int16
    np.testing.assert_array_equal(image.channels[0], volume.hu)
    np.testing.assert_array_equal(image.geometry.affine, volume.geometry.affine)


def test_only_channels_of_ct_are_checked_and_repaired_as_ct(tmp_path, store, caplog):
    hu = np.full(SHAPE, -2000, np.int16)
    paths = [store(tmp_path / "a_0000.nii", hu), store(tmp_path / "a_0001.nii", values(0) / 900)]
    ct, pet = read_image(paths, PET_CT).channels
    assert (ct.dtype, ct.max()) == (np.int16, -1024)
    np.testing.assert_array_equal(pet, values(0) / 900)  # normalized values are no fault here
    assert "a_0000.nii: 210 of 210 voxels are below -1024 HU" in caplog.text
    assert "a_0001.nii" not in caplog.text


def test_nan_and_infinite_voxels_become_zero_with_a_warning(tmp_path, store, caplog):
    faulty = values(0, np.float64)
    faulty[0, 0, :3] = np.nan, np.inf, 1e300
    paths = [store(tmp_path / "a_0000.nii", faulty), store(tmp_path / "a_0001.nii", values(1))]
    flair = read_image(paths, BRAIN).channels[0]
    assert flair[0, 0, :3].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(flair[1:], values(0)[1:])
    assert "a_0000.nii: 3 of 210 voxels of FLAIR are NaN or infinite; replaced by 0." in caplog.text
    store(tmp_path / "a_0001.nii", np.full(SHAPE, np.nan, np.float32))
    with pytest.raises(DataError, match=r"a_0001\.nii: all 210 voxels of T1w are NaN or infinite\. Fix: fetch"):
        read_image(paths, BRAIN)


def test_channels_of_different_grids_or_affines_are_refused(tmp_path, store):
    first = store(tmp_path / "a_0000.nii", values(0))
    for codes in ("RAS", "LPS"):
        other = store(tmp_path / "a_0001.nii", values(1)[:, :, 1:], codes)
        with pytest.raises(DataError, match=rf"{other}: this channel has shape \(7, 6, 4\) .*{first} .*\(7, 6, 5\)"):
            read_image([first, other], BRAIN)
    other = store(tmp_path / "a_0001.nii", values(1), spacing=(1.5, 2.0, 3.5))
    with pytest.raises(DataError, match=rf"{other}: this channel has .*3\.5.*, but {first} .*3\.0.*Fix: resample"):
        read_image([first, other], BRAIN)
    nearly = store(tmp_path / "a_0001.nii", values(1), spacing=(1.5, 2.0, 3.01))  # 0.04 mm at the far end
    read_image([first, nearly], BRAIN)


def test_other_numbers_of_channels_are_refused(tmp_path, store):
    path = stacked(tmp_path / "a.nii", values(0), values(1), values(2))
    with pytest.raises(
        DataError, match=r"a\.nii: has 3 channel\(s\) of shape \(7, 6, 5\), but 2 are needed: FLAIR, T1w"
    ):
        read_image([path], BRAIN)
    single = store(tmp_path / "a_0000.nii", values(0))
    with pytest.raises(DataError, match=r"a_0000\.nii: has 1 channel\(s\) .*, but 2 are needed: FLAIR, T1w"):
        read_image([single], BRAIN)
    with pytest.raises(DataError, match=r"a\.nii: has 3 channel\(s\) .*, but 1 are needed: T1w"):
        read_image([single, path], BRAIN)
    with pytest.raises(DataError, match=r"a_0000\.nii: this image has 3 files, but dataset\.json names 2 channels"):
        read_image([single] * 3, BRAIN)
    with pytest.raises(
        DataError, match=r"a\.nii: has 3 channel\(s\) of shape \(7, 6, 5\), but 1 are needed: a single volume"
    ):
        read_volume(path)  # LiTS has one channel


def test_lost_geometry_is_ras_with_the_sizes_of_the_table(tmp_path, caplog):
    paths = [stacked(tmp_path / f"a_000{n}.nii", values(n), affine=np.eye(4)) for n in range(2)]
    (tmp_path / "sizes.csv").write_text("case,x,y,z\na,1,2,4\n")
    image = read_image(paths, BRAIN, read_spacing_table(tmp_path / "sizes.csv"))
    assert image.geometry.spacing == (1, 2, 4)
    np.testing.assert_array_equal(image.channels[1], values(1))
    assert caplog.text.count("read as RAS, with voxels of 1 x 2 x 4 mm") == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_labels_and_the_ignore_label_of_a_description_are_read(tmp_path, store, dtype):
    labels = np.random.default_rng(3).integers(0, 5, SHAPE).astype(np.uint8)
    paths = [store(tmp_path / f"a_000{n}.nii", values(n), "LPS") for n in range(2)]
    mask = store(tmp_path / "labels.nii.gz", labels, "SAR", dtype=dtype)
    image = read_image(paths, BRAIN)
    np.testing.assert_array_equal(read_labels(mask, image, BRAIN), labels)
    np.testing.assert_array_equal(read_mask(mask, image, BRAIN).labels, labels)
    np.testing.assert_array_equal(read_segmentation(mask, description=BRAIN).labels, labels)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_labels_that_dataset_json_lacks_are_refused_with_all_known_labels(tmp_path, store, dtype):
    labels = np.zeros(SHAPE, np.int16)
    labels[0, 0] = [5, 1, 9, 300, -2]
    mask = store(tmp_path / "labels.nii", labels, dtype=dtype)
    with pytest.raises(DataError) as error:
        read_segmentation(mask, description=BRAIN)
    assert str(error.value) == (
        f"{mask}: has the label(s) -2, 5, 9, 300, but the labels of the data set are 0 background, "
        "1 edema, 2 core, 3 enhancing, 4 ignore. Fix: add the labels to dataset.json, or map them to its labels."
    )
    for surplus, fix in (
        ((5, 9), r"the label\(s\) 5, 9, .* Fix: add the labels to dataset.json, or map them to its labels"),
        ((255,), r"the label\(s\) 255, .* Fix: store the voxels of a binary mask as 1, not 255."),
    ):
        values_of_mask = np.zeros(SHAPE, np.uint8)
        values_of_mask[0, 0, : len(surplus)] = surplus
        with pytest.raises(DataError, match=fix):
            read_segmentation(store(tmp_path / "mask.nii", values_of_mask), description=BRAIN)
    labels[1] = np.arange(30).reshape(6, 5) + 10
    with pytest.raises(DataError, match=r"the label\(s\) -2, 5, 9, 10, 11, \.\.\., but the labels"):
        read_segmentation(store(mask, labels, dtype=dtype), description=BRAIN)
    with pytest.raises(DataError, match=r"-2, 5, .*, but the labels of the data set are 0 background, 1 liver"):
        read_segmentation(mask)
    with pytest.raises(DataError, match=r"not integers\. Fix: store 0 background, 1 edema, 2 core, 3 enhancing, 4 ign"):
        read_segmentation(store(mask, labels + 0.4, dtype=np.float32), description=BRAIN)


def test_gaps_between_label_values_are_refused(tmp_path, store):
    gap = Description(("CT",), {"a": 1, "b": 3}, {"a": (1,), "b": (3,)})
    labels = np.zeros(SHAPE, np.uint8)
    labels[0, 0, 0] = 3
    assert read_segmentation(store(tmp_path / "good.nii", labels), description=gap).labels.max() == 3
    labels[0, 0, 1] = 2
    with pytest.raises(
        DataError, match=r"the label\(s\) 2, but the labels of the data set are 0 background, 1 a, 3 b\."
    ):
        read_segmentation(store(tmp_path / "bad.nii", labels), description=gap)


def test_segmentations_of_stacked_channels_have_three_axes(tmp_path):
    image = read_image([stacked(tmp_path / "a.nii", values(0), values(1))], BRAIN)
    labels = np.random.default_rng(3).integers(0, 4, SHAPE).astype(np.uint8)
    write_labels(tmp_path / "out.nii.gz", labels, image.geometry)
    written = nibabel.load(tmp_path / "out.nii.gz")
    assert written.shape == SHAPE
    np.testing.assert_array_equal(written.affine, image.geometry.affine)
    np.testing.assert_array_equal(read_labels(tmp_path / "out.nii.gz", image, BRAIN), labels)


def test_lits_keeps_its_labels(tmp_path, store, arrays):
    path = store(tmp_path / "s.nii", arrays()[1])
    np.testing.assert_array_equal(read_segmentation(path).labels, read_segmentation(path, description=LITS).labels)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_vectors_of_itk_are_channels(tmp_path, name):
    """ITK stores the components of vectors along the fifth axis."""
    array = np.stack([values(0), values(1)], -1)
    vectors = SimpleITK.GetImageFromArray(np.swapaxes(array, 0, 2), isVector=True)
    vectors.SetSpacing((1.5, 2, 3))
    SimpleITK.WriteImage(vectors, str(tmp_path / name))
    assert nibabel.load(tmp_path / name).shape == (*SHAPE, 1, 2)
    image = read_image([tmp_path / name], BRAIN)
    for number, channel in enumerate(image.channels):
        np.testing.assert_array_equal(image.geometry.to_stored(channel), values(number))
    assert read_image_geometry([tmp_path / name], BRAIN).spacing == (1.5, 2, 3)
    labels = np.random.default_rng(0).integers(0, 4, SHAPE).astype(np.uint8)
    write_labels(tmp_path / f"out-{name}", labels, image.geometry)
    np.testing.assert_array_equal(read_labels(tmp_path / f"out-{name}", image, BRAIN), labels)
    written = SimpleITK.ReadImage(str(tmp_path / f"out-{name}"))
    assert (written.GetNumberOfComponentsPerPixel(), written.GetSize()) == (1, SHAPE)
    assert (written.GetOrigin(), written.GetDirection()) == (vectors.GetOrigin(), vectors.GetDirection())
    with pytest.raises(DataError, match=r"has 2 channel\(s\) .*, but 3 are needed: a, b, c"):
        read_image([tmp_path / name], dataclasses.replace(BRAIN, channels=("a", "b", "c"), intensities=()))
    with pytest.raises(DataError, match=r"has 2 channel\(s\) of shape \(7, 6, 5\), but 1 are needed"):
        read_volume(tmp_path / name)
    nibabel.save(nibabel.Nifti1Image(np.zeros((*SHAPE, 2, 2), np.float32), np.diag([1.5, 2, 3, 1])), tmp_path / "b.nii")
    with pytest.raises(DataError, match="is neither a 3-D volume nor a stack of channels"):
        read_image([tmp_path / "b.nii"], BRAIN)
