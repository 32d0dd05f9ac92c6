"""Pictures above the limit of Pillow, and headers that declare more pixels than their files can have."""

import io
import struct
import subprocess
import zlib

import numpy as np
import pytest
from PIL import Image

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats import pillow_files
from mtf_imaging.data.formats.pillow_files import open_picture_file, read_pixels
from mtf_imaging.data.pixels.photo_files import photo_size, read_photo
from mtf_imaging.errors import DataError
from mtf_imaging.files import memory
from mtf_imaging.kinds.photos.description import VOC
from mtf_imaging.kinds.photos.reading.label_images import read_label_image, write_label_image
from tests.data.reading import read_image, read_segmentation

RGB = Description(channels=("red", "green", "blue"), labels={"a": 1}, masks={"a": (1,)}, file_ending=".png")
REGION = (slice(3, 17), slice(5, 31))


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Sets the limit of Pillow and the size of strips to 50 and 40 pixels."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    monkeypatch.setattr(pillow_files, "_STRIP", 40)
    yield
    assert Image.MAX_IMAGE_PIXELS == 50


def photo(shape=(20, 40, 3)):
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


FILES = {
    "a.png": {},
    "b.tif": {},
    "c.tif": {"compression": "tiff_lzw"},
    "d.tiff": {"compression": "tiff_deflate"},
    "e.tif": {"big_tiff": True},
    "f.bmp.png": {"format": "PNG"},
}


@pytest.mark.parametrize("name", FILES)
def test_pictures_of_any_size_are_read(tmp_path, name):
    path = tmp_path / name
    Image.fromarray(photo()).save(path, **FILES[name])
    np.testing.assert_array_equal(read_photo(path), photo())
    np.testing.assert_array_equal(read_photo(path, REGION), photo()[REGION])
    assert photo_size(path) == (20, 40)
    for number, channel in enumerate(read_image([path], RGB).channels):
        np.testing.assert_array_equal(channel[..., 0], photo()[::-1, :, number].T)


def test_jpeg_photos_and_their_previews_are_read(tmp_path):
    for name, options in (("a.jpg", {}), ("b.jpg", {"format": "MPO", "append_images": [Image.new("RGB", (2, 2))]})):
        Image.fromarray(photo()).save(tmp_path / name, save_all=bool(options), **options)
        assert read_photo(tmp_path / name).shape == (20, 40, 3)
        np.testing.assert_array_equal(read_photo(tmp_path / name, REGION), read_photo(tmp_path / name)[REGION])


def test_label_images_of_any_size_are_read(tmp_path):
    labels = (photo((20, 40)) % len(VOC.classes)).astype(np.uint8)
    write_label_image(tmp_path / "a.png", labels, VOC)
    np.testing.assert_array_equal(read_label_image(tmp_path / "a.png", VOC), labels)
    np.testing.assert_array_equal(read_label_image(tmp_path / "a.png", VOC, REGION), labels[REGION])
    Image.fromarray(labels % 2).save(tmp_path / "b.png")
    np.testing.assert_array_equal(
        read_segmentation(tmp_path / "b.png", description=RGB).labels[..., 0], (labels % 2)[::-1].T
    )


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "I", "F", "I;16"])
def test_regions_have_the_pixels_of_the_picture(mode):
    picture = (
        Image.fromarray(photo()[..., 0]).convert(mode)
        if mode != "I;16"
        else Image.fromarray(photo()[..., 0].astype(np.uint16) * 200)
    )
    region = read_pixels(picture, (5, 3, 31, 17))
    assert region.dtype == np.asarray(picture).dtype
    np.testing.assert_array_equal(region, np.asarray(picture)[REGION])


def test_the_program_around_it_keeps_the_limit(tmp_path):
    Image.fromarray(photo()).save(tmp_path / "a.png")
    with open_picture_file(tmp_path / "a.png", "fetch it again") as picture:
        picture.load()
        with pytest.raises(Image.DecompressionBombError):
            Image.open(tmp_path / "a.png")


def stored(kind):
    file = io.BytesIO()
    Image.new("RGB", (3, 3)).save(file, kind)
    return file.getvalue()


# Pillow runs Ghostscript on the first one, and crafted files of the second one write beyond its buffers.
OTHERS = {
    "EPS": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 3 3\n%%EndComments\nshowpage\n%%EOF\n",
    "PSD": lambda: struct.pack(">4sH6xHIIHH", b"8BPS", 1, 3, 3, 3, 8, 3) + bytes(14 + 3 * 3 * 3),
    **{kind: lambda kind=kind: stored(kind) for kind in ("BMP", "GIF", "PPM")},
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_files_in_other_formats_are_refused_by_their_first_bytes(tmp_path, monkeypatch, kind, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(OTHERS[kind]())
    with Image.open(path) as picture:
        assert picture.format == kind  # Pillow opens it
    processes = []
    monkeypatch.setattr(subprocess, "check_call", lambda *args, **_: processes.append(args))
    message = rf"a\.{ending}: cannot be read .*first bytes are not those of a PNG, JPEG or TIFF file\)\. Fix: "
    for read in (
        photo_size,
        read_photo,
        lambda path: read_label_image(path, VOC),
        lambda path: read_image([path], RGB),
    ):
        if ending != "jpg" or read in (photo_size, read_photo):
            with pytest.raises(DataError, match=message):
                read(path)
    assert not processes


def enlarged(ending):
    """Returns a small file whose header declares 60,000 x 60,000 pixels."""
    file = io.BytesIO()
    Image.new("RGB", (300, 200)).save(file, {"png": "PNG", "jpg": "JPEG", "tif": "TIFF"}[ending])
    data = file.getvalue()
    if ending == "png":
        header = b"IHDR" + struct.pack(">II", 60_000, 60_000) + data[24:29]
        return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]
    if ending == "jpg":
        return data.replace(struct.pack(">HH", 200, 300), struct.pack(">HH", 60_000, 60_000))
    for size in (300, 200):  # tags of one number of 2 or 4 bytes
        for form in ("<HIHH", "<HII"):
            kind, zero = (3, (0,)) if form == "<HIHH" else (4, ())
            data = data.replace(struct.pack(form, kind, 1, size, *zero), struct.pack(form, kind, 1, 60_000, *zero))
    return data


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_sizes_that_the_file_cannot_have_are_refused(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(enlarged(ending)[:2000])  # a TIFF file has its header at the start
    message = rf"a\.{ending}: its header declares 60000 x 60000 pixels, but the file has {path.stat().st_size} "
    readers = [photo_size, read_photo, lambda path: read_label_image(path, VOC)]
    for read in (*readers, *([] if ending == "jpg" else [lambda path: read_image([path], RGB)])):
        with pytest.raises(DataError, match=message):
            read(path)


def test_a_tiff_file_with_fewer_rows_than_it_declares_is_refused(tmp_path):
    Image.fromarray(photo()).save(tmp_path / "a.tif")
    data = (tmp_path / "a.tif").read_bytes()
    taller = data.replace(struct.pack("<HHII", 257, 4, 1, 20), struct.pack("<HHII", 257, 4, 1, 40))  # rows
    assert taller != data
    (tmp_path / "a.tif").write_bytes(taller)
    with pytest.raises(DataError, match=r"a\.tif: its header declares 40 x 40 pixels, but the file has \d+ bytes"):
        read_photo(tmp_path / "a.tif")
    (tmp_path / "a.tif").write_bytes(data.replace(struct.pack("<HH", 256, 4), struct.pack("<HH", 255, 4)))  # no width
    with pytest.raises(DataError, match=r"a\.tif: cannot be read as an image"):
        read_photo(tmp_path / "a.tif")


def test_a_picture_larger_than_the_memory_is_refused(tmp_path, monkeypatch):
    Image.fromarray(photo()).save(tmp_path / "a.png")
    monkeypatch.setattr(memory, "machine_memory", lambda: 7999)
    with pytest.raises(DataError, match=r"a\.png: its header declares 40 x 20 pixels, which need about .* Fix: use"):
        read_photo(tmp_path / "a.png")
