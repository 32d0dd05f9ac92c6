import gzip
import re
import struct
import subprocess
import sys

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.errors import DataError
from mtf_imaging.files import memory
from tests.data.reading import read_labels, read_segmentation, read_volume, write_labels

ORIENTATIONS = ("RAS", "LPS", "LAS", "RPI", "PSR", "ILA")


def test_written_header_keeps_units_and_codes_and_drops_scaling(tmp_path, arrays):
    hu, labels = arrays()
    image = nibabel.Nifti1Image(hu[..., None], np.diag([-2.0, 2, 3, 1]))
    image.set_qform(image.affine, code=1)
    image.set_sform(image.affine, code=4)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = b"scanner"
    image.header.set_slope_inter(2, -24)
    image.header["cal_max"] = 300
    nibabel.save(image, tmp_path / "volume-0.nii")
    volume = read_volume(tmp_path / "volume-0.nii")
    write_labels(tmp_path / "out.nii", labels, volume.geometry)
    header = nibabel.load(tmp_path / "out.nii").header
    assert header.get_data_shape() == (*hu.shape, 1)
    assert (int(header["qform_code"]), int(header["sform_code"])) == (1, 4)
    assert header.get_xyzt_units() == ("mm", "sec")
    assert header["descrip"].item() == b"scanner"
    assert header["cal_max"] == 0
    np.testing.assert_array_equal(np.asarray(nibabel.load(tmp_path / "out.nii").dataobj)[::-1, :, :, 0], labels)


def test_nan_and_out_of_range_voxels_are_repaired_with_a_warning(tmp_path, store, caplog):
    hu = np.zeros((4, 4, 4), np.float32)
    hu[0, 0, :3] = np.nan, -3000, 1e6
    hu[1, 1, :3] = 12.6, np.inf, -np.inf
    volume = read_volume(store(tmp_path / "volume-0.nii", hu))
    assert volume.hu[0, 0].tolist() == [-1024, -1024, 32767, 0]
    assert volume.hu[1, 1].tolist() == [13, 32767, -1024, 0]
    for what in (
        "1 of 64 voxels are NaN; replaced by -1024",
        "2 of 64 voxels are below -1024",
        "2 of 64 voxels are abo",
    ):
        assert f"volume-0.nii: {what}" in caplog.text


@pytest.mark.parametrize("dtype", ["int16", ">i2", "uint16", "int32", "float32", "float64"])
@pytest.mark.parametrize("slab", [1 << 24, 30])
def test_hu_do_not_depend_on_the_stored_type(tmp_path, store, arrays, dtype, slab, monkeypatch, caplog):
    monkeypatch.setattr("mtf_imaging.data.images.stored._SLAB_VOXELS", slab)
    hu, _ = arrays()
    hu[:, 0, 0] = -3024  # some scanners pad outside the round field of view
    path = store(tmp_path / "volume-0.nii.gz", hu, "LPS", dtype=dtype)
    read = read_volume(path).hu
    assert read.dtype == np.int16
    np.testing.assert_array_equal(read, np.maximum(hu, -1024))
    assert "volume-0.nii.gz: 7 of 210 voxels are below -1024 HU" in caplog.text
    assert ("are above 32767; they are read as negative HU" in caplog.text) == (dtype == "uint16")


def test_scaled_hu_are_read_by_their_scale(tmp_path, arrays, caplog):
    hu, _ = arrays()
    image = nibabel.Nifti1Image((hu + 1024).astype(np.uint16), np.diag([1.5, 2, 3, 1]))
    image.header.set_slope_inter(1, -1024)
    nibabel.save(image, tmp_path / "volume-0.nii")
    np.testing.assert_array_equal(read_volume(tmp_path / "volume-0.nii").hu, hu)
    assert not caplog.records


def test_numbers_that_cannot_be_hu(tmp_path, store, arrays, caplog):
    hu, _ = arrays()
    with pytest.raises(DataError, match=r"a\.nii: all 210 voxels are NaN"):
        read_volume(store(tmp_path / "a.nii", hu * np.float32(np.nan)))
    with pytest.raises(DataError, match=r"b\.nii: 200 of 210 voxels are above 32767, so this is not a CT in HU"):
        read_volume(store(tmp_path / "b.nii", np.where(np.arange(hu.size) < 10, -1e3, 1e5).reshape(hu.shape)))
    for name, array in (("c.nii", (hu + 1024).astype(np.uint16)), ("d.nii", np.full(hu.shape, 40, np.uint8))):
        np.testing.assert_array_equal(read_volume(store(tmp_path / name, array)).hu, array)
        assert f"{name}: the lowest value is {array.min()} HU, but air is about -1000 HU; values are" in caplog.text


def test_float_masks_of_integers_are_accepted_and_others_are_not(tmp_path, store, arrays, caplog):
    hu, labels = arrays()
    volume = read_volume(store(tmp_path / "volume-0.nii", hu))
    read = read_labels(store(tmp_path / "a.nii", labels, dtype=np.float64), volume)
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, labels)
    assert "stored as float64" in caplog.text
    nearly = labels * np.float32(1.0001)  # as in a file with a scale
    np.testing.assert_array_equal(read_labels(store(tmp_path / "nearly.nii", nearly), volume), labels)
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(DataError, match=r"bad\.nii: some labels are NaN or infinite"):
            read_labels(store(tmp_path / "bad.nii", np.where(labels == 2, bad, labels)), volume)
    with pytest.raises(DataError, match=r"b\.nii: some labels are not integers"):
        read_labels(store(tmp_path / "b.nii", labels + 0.5), volume)
    with pytest.raises(DataError, match=r"c\.nii: has the label\(s\) 3, but"):
        read_labels(store(tmp_path / "c.nii", np.where(labels == 2, 3, labels)), volume)
    with pytest.raises(DataError, match=r"d\.nii: has the label\(s\) -1, but"):
        read_labels(store(tmp_path / "d.nii", labels.astype(np.int16) - (labels == 0)), volume)


def test_masks_with_another_shape_or_affine(tmp_path, store, arrays, caplog):
    hu, labels = arrays()
    volume = read_volume(store(tmp_path / "volume-0.nii", hu, "LPS"))
    with pytest.raises(DataError, match=r"shape \(7, 6, 4\), but .*volume-0\.nii has shape \(7, 6, 5\)"):
        read_labels(store(tmp_path / "a.nii", labels[..., 1:]), volume)
    # The affine shows that the same voxels are stored in another axis order, so the mask is reoriented.
    np.testing.assert_array_equal(read_labels(store(tmp_path / "b.nii", labels, "SRA"), volume), labels)
    # Rounding errors in the header are tolerated; half a voxel is 0.75 mm here.
    turned = nibabel.load(tmp_path / "b.nii")
    turned.affine[:3, 3] += 0.3
    nibabel.save(nibabel.Nifti1Image(turned.dataobj, turned.affine), tmp_path / "rounded.nii")
    np.testing.assert_array_equal(read_labels(tmp_path / "rounded.nii", volume), labels)
    assert not caplog.records
    # If the affines contradict each other, voxels are matched by their indices.
    stored_like_volume = store(tmp_path / "c.nii", labels[::-1, ::-1], "RAS", spacing=(1, 1, 1))
    np.testing.assert_array_equal(read_labels(stored_like_volume, volume), labels)
    assert "c.nii: its affine differs from the affine of" in caplog.text


def gzip_stored(data, flip):
    """Returns a gzip file without compression whose checksum reveals one flipped bit."""
    whole = bytearray(gzip.compress(data, 0))
    whole[flip] ^= 1
    return bytes(whole)


def test_damaged_files_are_named(tmp_path, store, arrays):
    hu, _ = arrays(shape=(20, 20, 20))
    whole = store(tmp_path / "whole.nii.gz", hu).read_bytes()
    bad = {
        "garbled.nii.gz": whole[:1000] + bytes(500) + whole[1500:],
        "checksum.nii.gz": gzip_stored(gzip.decompress(whole), flip=5000),
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=name.replace(".", r"\.") + ".*Fix: fetch the file again"):
            read_volume(tmp_path / name)


# The first two axes are parallel up to rounding.
FLAT = np.array([[1e18, 1e18, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])


def test_files_that_are_not_one_volume(tmp_path):
    cases = {
        "4d.nii": (
            np.zeros((4, 4, 4, 2), np.int16),
            np.eye(4),
            r"has 2 channel\(s\) of shape \(4, 4, 4\), but 1 are needed: a single volume",
        ),
        "1d.nii": (
            np.zeros((4,), np.int16),
            np.eye(4),
            r"shape \(4,\) is neither a 3-D volume nor a stack of channels",
        ),
        "complex.nii": (np.zeros((4, 4, 4), np.complex64), np.eye(4), "not plain numbers"),
        "flat.nii": (np.zeros((4, 4, 4), np.int16), np.diag([1.0, 1, 0, 1]), "does not define the axes"),
        "nearly flat.nii": (np.zeros((4, 4, 4), np.int16), FLAT, "does not define the axes"),
    }
    for name, (array, affine, message) in cases.items():
        image = nibabel.Nifti1Image(array, None)
        image.header.set_sform(affine, code=1)
        nibabel.save(image, tmp_path / name)
        with pytest.raises(DataError, match=message):
            read_volume(tmp_path / name)


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize(("written", "name"), [("a.nii", "volume-0.nii.gz"), ("a.nii.gz", "volume-0.nii")])
def test_compression_is_detected_from_the_content(tmp_path, arrays, kind, written, name, caplog):
    hu, labels = arrays()
    nibabel.save(kind(hu, np.diag([1.5, 2, 3, 1])), tmp_path / written)
    (tmp_path / written).rename(tmp_path / name)
    volume = read_volume(tmp_path / name)
    np.testing.assert_array_equal(volume.hu, hu)
    what = "not compressed, but its name ends" if name.endswith(".gz") else "compressed, but its name does not end"
    assert caplog.text.count(f"{name}: this file is {what} in .gz; it is read by its content.") == 1
    write_labels(tmp_path / "out.nii.gz", labels, volume.geometry)
    assert type(nibabel.load(tmp_path / "out.nii.gz")) is kind


@pytest.mark.parametrize(
    "scaled", [lambda hu: hu / 2000 + 0.5, lambda hu: (hu - 40) / 200, lambda hu: hu / 1000], ids=["0..1", "z", "-1..1"]
)
@pytest.mark.parametrize("as_scale", [False, True], ids=["float32", "int16 with a scale"])
def test_normalized_images_are_refused(tmp_path, arrays, scaled, as_scale):
    values = scaled(arrays()[0].astype(np.float64))
    image = nibabel.Nifti1Image(values.astype(np.float32), np.diag([1.5, 2, 3, 1]))
    if as_scale:
        image.set_data_dtype(np.int16)  # nibabel then chooses a slope
    nibabel.save(image, tmp_path / "volume-0.nii")
    fractions = values[np.abs(values - np.rint(values)) > 1e-3]
    with pytest.raises(DataError, match=r"/volume-0\.nii: fractional values .*CT in HU.* Fix: give the ") as error:
        read_volume(tmp_path / "volume-0.nii")
    shown = re.search("from (.*) to (.*), but a CT", str(error.value)).groups()
    np.testing.assert_allclose([float(bound) for bound in shown], [fractions.min(), fractions.max()], rtol=0.01)
    if not as_scale:
        values[0], values[1] = -1024, np.nan  # padded afterwards
        values[3, :, 0] = np.round(values[3, :, 0])
        nibabel.save(nibabel.Nifti1Image(values, np.diag([1.5, 2, 3, 1])), tmp_path / "padded.nii")
        with pytest.raises(DataError, match=r"padded\.nii: fractional values range from"):
            read_volume(tmp_path / "padded.nii")


def test_fractions_of_hu_are_rounded(tmp_path, store, arrays, caplog):
    hu, _ = arrays()
    for name, offset in (("resampled.nii", 0.3), ("noise.nii", 1e-5)):
        np.testing.assert_array_equal(read_volume(store(tmp_path / name, (hu + offset).astype(np.float32))).hu, hu)
    flat = np.full(hu.shape, -1000.00001)  # with the rounding error of scaling
    flat[0] = 0
    np.testing.assert_array_equal(read_volume(store(tmp_path / "flat.nii", flat)).hu, np.rint(flat))
    assert not caplog.records


@pytest.mark.parametrize("reader", [read_volume, read_geometry, read_segmentation])
@pytest.mark.parametrize("name", ["volume-0.nii", "volume-0.nii.gz"])
def test_a_header_with_more_voxels_than_the_file_is_refused(tmp_path, store, arrays, reader, name):
    path = store(tmp_path / name, arrays()[0])
    data = bytearray(nibabel.load(path).to_bytes())
    data[42:48] = np.full(3, 32767, "<i2").tobytes()  # dim[1:4]
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    size, needed = path.stat().st_size, 352 + 2 * 32767**3
    text = rf"{name}: its header declares 32767 x 32767 x 32767 voxels of int16"
    with pytest.raises(DataError, match=rf"{text} \({needed} bytes\), but the file has {size} .*bytes.* Fix: fetch"):
        reader(path)


def test_a_header_with_negative_sizes_is_refused(tmp_path, store, arrays):
    path = store(tmp_path / "volume-0.nii", arrays()[0])
    data = bytearray(path.read_bytes())
    data[42:44] = np.array(-7, "<i2").tobytes()
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"volume-0\.nii: shape \(-7, 6, 5\) is neither a 3-D volume"):
        read_volume(path)


def test_a_volume_too_large_for_memory_is_named(tmp_path):
    """The file is complete: 8 GB of zeros in a sparse file."""
    path, shape = tmp_path / "volume-0.nii", (2048, 2048, 1000)
    header = nibabel.Nifti1Image(np.zeros((1, 1, 1), np.int16), np.diag([1.0, 1, 2, 1])).header
    header.set_data_shape(shape)
    with path.open("wb") as file:
        header.write_to(file)
        file.truncate(352 + 2 * np.prod(shape))
    script = """
import resource, sys
from tests.data.reading import read_volume
from tests.data.reading import read_segmentation
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
for reader in (read_volume, read_segmentation):
    try:
        reader(sys.argv[1])
    except ValueError as error:
        print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    for line, size, dtype in zip(done.stdout.splitlines(), ("7.81", "3.91"), ("int16", "uint8"), strict=True):
        assert line.startswith(f"DataError {path}: not enough memory (")
        assert f"{size} GiB for an array with shape (2048, 2048, 1000) and data type {dtype}" in line
        assert "Fix: " in line


def test_an_image_with_two_axes_has_one_plane(tmp_path):
    plane = np.arange(12, dtype=np.int16).reshape(4, 3)
    nibabel.save(nibabel.Nifti1Image(plane, np.diag([2.0, 3.0, 4.0, 1.0])), tmp_path / "a.nii.gz")
    volume = read_volume(tmp_path / "a.nii.gz")
    np.testing.assert_array_equal(volume.hu, plane[..., None])
    assert volume.geometry.spacing == (2, 3, 4)


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS, .* git lfs pull"),
        ("/annex/objects/SHA256E-s1--0.nii.gz\n", "git-annex, .* git annex get"),
    ],
)
def test_a_pointer_to_a_file_elsewhere_is_named(tmp_path, text, tool):
    (tmp_path / "a.nii.gz").write_text(text)
    with pytest.raises(DataError, match=rf"a\.nii\.gz: is a pointer of {tool}"):
        read_volume(tmp_path / "a.nii.gz")


def test_extensions_larger_than_the_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 1 << 20)
    header = nibabel.Nifti1Header()
    header.set_data_shape((4, 4, 4))
    start = bytearray(header.binaryblock + bytes((1, 0, 0, 0)))
    for size, offset, words in (
        (1 << 19, 352 + (1 << 19), "524640 bytes before its voxels, which need about 0.00157 GB"),
        (1 << 30, 368, "failed to read extension content"),  # nibabel would allocate it
    ):
        start[108:112], start[344:348] = struct.pack("<f", offset), b"n+1\0"
        content = bytes(start) + struct.pack("<ii", size, 6) + bytes(1 << 19)
        (tmp_path / "a.nii.gz").write_bytes(gzip.compress(content))
        with pytest.raises(DataError, match=rf"a\.nii\.gz: .*{words}"):
            read_volume(tmp_path / "a.nii.gz")
