"""Photo and label image files: formats, palettes, sizes and damage."""

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from mtf_imaging.data.pixels.photo_files import photo_size, read_photo
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.photos.description import CITYSCAPES, VOC, PhotoDescription, palette_color
from mtf_imaging.kinds.photos.reading.folders import Photo
from mtf_imaging.kinds.photos.reading.label_images import read_label_image, read_labeled_photo, write_label_image

FEW = PhotoDescription(("a", "b", "c"), ((0, 0, 0), (9, 9, 9), (99, 0, 0)))
PART = (slice(1, 4), slice(2, 6))


def pixels(seed=0, channels=3, high=256, dtype=np.uint8):
    shape = (5, 7, channels) if channels else (5, 7)
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def save(path, array, **options):
    Image.fromarray(array).save(path, **options)
    return path


def write_png(path, rows, bits, color_type):
    """Writes bytes of rows as a PNG file, also with depths that Pillow cannot write."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 4, len(rows), bits, color_type, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return path


def write_tiff_of_16_bits(path):
    """Writes a TIFF file of 4 x 2 pixels with 3 channels of 16 bits, which Pillow cannot write."""
    fields = [(256, 3, 1, 4), (257, 3, 1, 2), (258, 3, 3, 134), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 140)]
    fields += [(277, 3, 1, 3), (278, 3, 1, 2), (279, 4, 1, 48), (284, 3, 1, 1)]
    header = struct.pack("<2sHIH", b"II", 42, 8, len(fields))
    table = b"".join(struct.pack("<HHII", *field) for field in fields) + struct.pack("<I", 0)
    path.write_bytes((header + table).ljust(134, b"\0") + struct.pack("<3H", 16, 16, 16) + bytes(48))
    return path


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.jpg"])
def test_photos_are_red_green_and_blue(tmp_path, name):
    path = save(tmp_path / name, pixels())
    read = read_photo(path)
    assert (read.shape, read.dtype) == ((5, 7, 3), np.uint8)
    assert photo_size(path) == (5, 7)
    if name != "a.jpg":
        np.testing.assert_array_equal(read, pixels())
    np.testing.assert_array_equal(read_photo(path, PART), read[PART])


def test_colors_of_classes_in_another_order_decide_about_the_labels(tmp_path, caplog):
    labels, order = np.array([[0, 1, 2, 255]], np.uint8), (2, 0, 1, 255)
    picture = Image.fromarray(np.array([[order.index(label) for label in labels[0]]], np.uint8))
    picture.putpalette([part for label in order for part in palette_color(label)])
    picture.save(tmp_path / "moved.png")
    np.testing.assert_array_equal(read_label_image(tmp_path / "moved.png", VOC), labels)
    assert "moved.png: its palette has the colors of the classes in another order, such as" in caplog.text
    caplog.clear()
    write_label_image(tmp_path / "own.png", labels, VOC)
    np.testing.assert_array_equal(read_label_image(tmp_path / "own.png", VOC), labels)
    assert not caplog.text


def test_gray_photos_palettes_and_alpha(tmp_path):
    gray = pixels(channels=0)
    np.testing.assert_array_equal(read_photo(save(tmp_path / "g.png", gray)), np.repeat(gray[..., None], 3, -1))
    alpha = pixels(channels=4)
    np.testing.assert_array_equal(read_photo(save(tmp_path / "a.png", alpha)), alpha[..., :3])
    palette = Image.fromarray(gray % 2)
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.save(tmp_path / "p.png")
    np.testing.assert_array_equal(
        read_photo(tmp_path / "p.png")[0, 0], [10, 20, 30] if gray[0, 0] % 2 == 0 else [40, 50, 60]
    )


def test_photos_are_turned_only_on_request(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the top of the scene is on the right
    path = tmp_path / "a.png"
    Image.fromarray(pixels()).save(path, exif=exif)
    np.testing.assert_array_equal(read_photo(path), pixels())
    np.testing.assert_array_equal(read_photo(path, upright=True), np.rot90(pixels(), -1))


def test_16_bits_are_refused(tmp_path):
    paths = [
        save(tmp_path / "a.png", pixels(channels=0, high=60_000, dtype=np.uint16)),
        save(tmp_path / "b.tif", pixels(channels=0, high=60_000, dtype=np.uint16)),
        write_png(tmp_path / "c.png", [bytes(range(24))] * 2, bits=16, color_type=2),  # Pillow drops 8 bits of each
        write_tiff_of_16_bits(tmp_path / "d.tif"),
    ]
    for path in paths:
        with pytest.raises(DataError, match=rf"{path.name}: has more than 8 bits per channel .* Fix: convert it"):
            read_photo(path)


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "a.jpg"
    photo = np.tile(pixels(), (20, 20, 1))
    save(path, photo)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError, match=r"a\.jpg: cannot be read as an image: .*truncated.*\. Fix: fetch it again"):
        read_photo(path)
    path.write_text("no photo")
    for read in (read_photo, photo_size, lambda path: read_label_image(path, VOC)):
        with pytest.raises(DataError, match=r"a\.jpg: cannot be read as an image"):
            read(path)
    with pytest.raises(DataError, match=r"b\.jpg: No such file or directory\. Fix: check the path"):
        read_photo(tmp_path / "b.jpg")
    Image.fromarray(photo).save(tmp_path / "c.tif", save_all=True, append_images=[Image.fromarray(photo)])
    with pytest.raises(DataError, match=r"c\.tif: has 2 pages, not one"):
        read_photo(tmp_path / "c.tif")


@pytest.mark.parametrize("description", [FEW, VOC, CITYSCAPES, replace(CITYSCAPES, values=())])
def test_label_images_are_written_and_read(tmp_path, description):
    labels = pixels(channels=0, high=len(description.classes))
    labels[2, 3] = description.ignore_label
    write_label_image(tmp_path / "new" / "a.png", labels.astype(np.int64), description)
    read = read_label_image(tmp_path / "new" / "a.png", description)
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, labels)
    np.testing.assert_array_equal(read_label_image(tmp_path / "new" / "a.png", description, PART), labels[PART])
    with Image.open(tmp_path / "new" / "a.png") as picture:
        assert picture.mode == "P"
        stored, colors = np.asarray(picture), np.asarray(picture.convert("RGB"))
    assert stored[0, 0] == description.stored_value(labels[0, 0])
    assert tuple(colors[0, 0]) == description.colors[labels[0, 0]]
    assert tuple(colors[2, 3]) == (224, 224, 192)
    assert not list(tmp_path.glob("new/.partial*"))


def test_cityscapes_label_ids_become_labels(tmp_path):
    path = save(tmp_path / "a.png", np.array([[7, 8, 33, 0, 1, 6, 255, 29]], np.uint8))
    np.testing.assert_array_equal(read_label_image(path, CITYSCAPES), [[0, 1, 18, 255, 255, 255, 255, 255]])


@pytest.mark.parametrize(("bits", "row"), [(1, 0b0110), (2, 0b00011011), (4, 0b0000_0001_0010_0000)])
def test_gray_label_images_of_few_bits(tmp_path, bits, row):
    description = PhotoDescription(("a", "b", "c", "d"), ((0, 0, 0),) * 4)
    data = (row << (8 - 4 * bits % 8 if 4 * bits % 8 else 0)).to_bytes(-(-4 * bits // 8), "big")
    path = write_png(tmp_path / "a.png", [data], bits, color_type=0)
    expected = [(row >> (bits * (3 - n))) & ((1 << bits) - 1) for n in range(4)]
    np.testing.assert_array_equal(read_label_image(path, description), [expected])


def test_values_above_the_classes_are_named(tmp_path):
    path = save(tmp_path / "a.png", np.array([[0, 1, 3, 3, 255, 9]], np.uint8))
    message = r"a\.png: contains the label value\(s\) 3, 9 in 3 pixels, but there are 3 classes, with the labels 0\.\.2"
    with pytest.raises(DataError, match=message + r", and the ignore_label 255\. Fix: name all classes"):
        read_label_image(path, FEW)
    np.testing.assert_array_equal(read_label_image(path, FEW, (slice(None), slice(0, 2))), [[0, 1]])
    path = save(tmp_path / "b.png", np.array([[0, 1, 300]], np.uint16))
    with pytest.raises(DataError, match=r"the label value\(s\) 300 in 1 pixels"):
        read_label_image(path, FEW)


def test_color_images_are_no_label_images(tmp_path):
    with pytest.raises(DataError, match=r"a\.png: is a color image .*RGB.*, not a label image\. Fix: store the label"):
        read_label_image(save(tmp_path / "a.png", pixels()), FEW)
    Image.fromarray(pixels(channels=0, high=3)).convert("LA").save(tmp_path / "b.png")
    with pytest.raises(DataError, match=r"b\.png: has 2 channels, not one"):
        read_label_image(tmp_path / "b.png", FEW)


def test_sizes_of_photo_and_labels_agree(tmp_path):
    image = save(tmp_path / "a.jpg", pixels())
    labels = save(tmp_path / "a.png", pixels(channels=0, high=3))
    read = read_labeled_photo(Photo("a", image, labels), FEW, PART)
    assert [array.shape for array in read] == [(3, 4, 3), (3, 4)]
    save(labels, np.zeros((7, 5), np.uint8))
    message = r"a\.jpg: is 7 pixels wide and 5 high, but its label image .*a\.png is 5 wide and 7 high\. Fix: make"
    with pytest.raises(DataError, match=message):
        read_labeled_photo(Photo("a", image, labels), FEW)
