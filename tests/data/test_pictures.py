"""Tests PNG and TIFF images, which are volumes of one plane."""

import numpy as np
import pytest
from PIL import Image

from mtf_imaging.data.description.dataset_json import write_description
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import open_records, record_path
from mtf_imaging.errors import DataError
from tests.data.reading import read_image, read_segmentation, read_volume, write_labels
from tests.records import read_record

CELLS = Description(
    channels=("red", "green", "blue"),
    labels={"cell": 1, "border": 2},
    masks={"cell": (1,), "border": (2,)},
    file_ending=".png",
)
GRAY = Description(channels=("gray",), labels={"cell": 1}, masks={"cell": (1,)}, file_ending=".tif")


def pixels(seed=0, channels=3, dtype=np.uint8):
    shape = (5, 7, channels) if channels else (5, 7)  # 5 rows of 7 pixels
    return np.random.default_rng(seed).integers(0, 256, shape).astype(dtype)


def canonical(array):
    """Returns rows and columns as `[x, y, z, ...]`, with y from bottom to top."""
    return np.swapaxes(array, 0, 1)[:, ::-1, None]


def test_a_color_picture_has_a_channel_per_color(tmp_path):
    Image.fromarray(pixels()).save(tmp_path / "a_0000.png")
    image = read_image([tmp_path / "a_0000.png"], CELLS)
    assert (image.geometry.shape, image.geometry.spacing) == ((7, 5, 1), (1, 1, 1))
    for number, channel in enumerate(image.channels):
        np.testing.assert_array_equal(channel, canonical(pixels())[..., number])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32])
def test_types_of_tiff_files(tmp_path, dtype):
    Image.fromarray(pixels(channels=0, dtype=dtype)).save(tmp_path / "a_0000.tif")
    np.testing.assert_array_equal(
        read_image([tmp_path / "a_0000.tif"], GRAY).channels[0], canonical(pixels(channels=0, dtype=dtype))
    )


def test_palettes_are_labels_but_colors_of_images(tmp_path):
    labels = pixels(channels=0) % 3
    picture = Image.fromarray(labels)
    picture.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    picture.save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_segmentation(tmp_path / "a.png", description=CELLS).labels, canonical(labels))
    blue = read_image([tmp_path / "a.png"], CELLS).channels[2]
    np.testing.assert_array_equal(blue, canonical(30 * (labels + 1)))


def test_unusable_pictures_are_refused(tmp_path, store, arrays):
    path = tmp_path / "a.png"
    Image.fromarray(pixels(channels=4)).save(path)
    with pytest.raises(DataError, match=r"a\.png: has 4 channel\(s\) .*, but 3 are needed: red, green, blue"):
        read_image([path], CELLS)
    with pytest.raises(DataError, match=r"a\.png: has 4 channel\(s\) .*, but 1 are needed: a single volume"):
        read_segmentation(path, description=CELLS)
    pages = [Image.fromarray(pixels(n, 0)) for n in range(3)]
    pages[0].save(tmp_path / "b.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(DataError, match=r"b\.tif: has 3 pages, not one\. Fix: store one picture per file"):
        read_image([tmp_path / "b.tif"], GRAY)
    hu, labels = arrays()
    volume = read_volume(store(tmp_path / "volume-0.nii", hu))
    with pytest.raises(DataError, match=r"c\.png: labels of shape \(7, 6, 5\) do not fit into a picture of one plane"):
        write_labels(tmp_path / "c.png", labels, volume.geometry)


@pytest.mark.parametrize("arguments", [("8",), (None, "0.5")])
def test_pictures_become_records_of_one_plane(tmp_path, arguments):
    folder = tmp_path / "Dataset003_Cells"
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True)
    for number in range(2):
        Image.fromarray(pixels(number)).save(folder / f"imagesTr/c_{number}_0000.png")
        Image.fromarray(pixels(number, 0) % 3).save(folder / f"labelsTr/c_{number}.png")
    write_description(folder, CELLS, 2)
    convert(folder, tmp_path / "out", *arguments, progress=False)
    manifest = open_records(tmp_path / "out")
    grid = manifest.sampling.grid
    assert grid == ((8, 8, 1) if arguments == ("8",) else (16, 16, 1))
    (batch,) = (next(Records().training_batches(tmp_path / "out", 2, seed=0)),)
    assert batch["image"].shape == (2, *grid, 3)
    record = read_record(record_path(tmp_path / "out", batch["cases"][0]))
    np.testing.assert_array_equal(batch["image"][0], record.network_input(manifest.intensities))
    assert {*np.unique(batch["labels"])} == {0, 1, 2}
