"""Batches of photos: crops of scaled photos, their order, and reproducibility."""

import itertools

import gin
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mtf_imaging.cli.config import training_settings  # noqa: F401
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.pixels.crop_axis import crop_axis, scaled_length
from mtf_imaging.data.pixels.crops import bilinear, nearest
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.kinds.photos.data_set import CropReader, PhotoAugmentation, Photos
from mtf_imaging.kinds.photos.description import PhotoDescription, palette_color
from mtf_imaging.kinds.photos.reading.folders import Photo
from mtf_imaging.training.data_set import data_batches, data_sizes

IGNORED = 255
NUM_PHOTOS = 5


def write_photo(folder, key, pixels, labels):
    for name, array in (("images", pixels), ("labels", labels)):
        (folder / name).mkdir(exist_ok=True)
        Image.fromarray(array).save(folder / name / f"{key}.png")


def write_pairs(folder):
    """Writes five photos of different sizes whose red value is 20 times the label."""
    (folder / "classes.json").write_text('{"classes": ["a", "b", "c", "d"]}')
    for number in range(NUM_PHOTOS):
        rng = np.random.default_rng(number)
        labels = rng.integers(0, 4, (9 + 3 * number, 20 - 2 * number), np.uint8)
        write_photo(
            folder,
            f"p{number}",
            np.stack([labels * 20, *rng.integers(0, 256, (2, *labels.shape))], -1).astype(np.uint8),
            labels,
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(folder)
    return folder


def as_arrays(stream, count):
    """Returns some batches as NumPy arrays."""
    return [
        {name: x if name == "cases" else x.numpy() for name, x in batch.items()}
        for batch in itertools.islice(stream, count)
    ]


def batches(folder, count, *, batch_size=2, start_step=0, seed=3, sizes=(12, 14), **options):
    given = {"batch_size": batch_size, "sizes": sizes, "seed": seed, "start_step": start_step}
    return as_arrays(Photos(None, **options).batches(folder, **given), count)


def test_photos_without_augmentation_keep_their_pixels(folder):
    for batch in batches(folder, 3):
        for key, image, labels in zip(batch["cases"], batch["image"], batch["labels"]):
            pixels = np.asarray(Image.open(folder / "images" / f"{key}.png"))
            rows, columns = (min(pixels.shape[axis], side) for axis, side in enumerate((12, 14)))
            assert (labels[rows:] == IGNORED).all()
            assert (labels[:, columns:] == IGNORED).all()
            assert (image[labels == IGNORED] == 0).all()
            inside = np.rint((image[:rows, :columns] + 1) * 127.5).astype(np.uint8)
            windows = np.lib.stride_tricks.sliding_window_view(pixels, inside.shape)
            assert (windows == inside).all((-3, -2, -1)).any()
            np.testing.assert_array_equal(inside[..., 0], 20 * labels[:rows, :columns])


def test_positions_of_crops_vary(folder):
    corners = {batch["image"].tobytes() for batch in batches(folder, 40, batch_size=1, sizes=(4, 4))}
    assert len(corners) == 40


def test_scaling_is_that_of_the_data_set(folder):
    (unit,), (mean,) = batches(folder, 1), batches(folder, 1, scaling="mean")
    inside = unit["labels"] != IGNORED
    means = np.array([123.68, 116.779, 103.939])
    np.testing.assert_allclose(mean["image"][inside], (unit["image"][inside] + 1) * 127.5 - means, atol=1e-3)
    assert (mean["image"][~inside] == 0).all()
    assert Photos(None, scaling="mean").description(folder).scaling == "mean"
    assert Photos(None).description(folder).scaling == "unit"


@settings(deadline=None, max_examples=40)
@given(
    height=st.integers(1, 24),
    width=st.integers(1, 24),
    scale=st.sampled_from([0.5, 0.75, 1.0, 1.25, 1.7, 2.0]),
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    places=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_a_crop_is_that_of_the_scaled_photo(height, width, scale, size, places):
    """Interpolating in the region of a crop equals scaling the whole photo with tf.image.resize."""
    rng = np.random.default_rng([height, width])
    pixels = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
    labels = rng.integers(0, 256, (height, width)).astype(np.uint8)
    rows, columns = crop_axis(height, scale, size[0], places[0]), crop_axis(width, scale, size[1], places[1])
    region = rows.region, columns.region
    image = bilinear(tf.constant(pixels[region]), rows.centers, columns.centers).numpy()
    cropped = nearest(tf.constant(labels[region]), rows.centers, columns.centers).numpy()
    scaled = scaled_length(height, scale), scaled_length(width, scale)
    assert cropped.shape == tuple(map(min, scaled, size))
    starts = [min(int(place * (one - n + 1)), one - n) for place, one, n in zip(places, scaled, cropped.shape)]
    crop = tuple(slice(start, start + n) for start, n in zip(starts, cropped.shape))
    np.testing.assert_allclose(image, tf.image.resize(pixels, scaled).numpy()[crop], atol=1e-3)
    np.testing.assert_array_equal(cropped, tf.image.resize(labels[..., None], scaled, "nearest").numpy()[..., 0][crop])


@pytest.fixture(scope="module")
def ramps(tmp_path_factory):
    """A folder for photos whose red and green encode the row and the column, with labels for both."""
    folder = tmp_path_factory.mktemp("ramps")
    description = PhotoDescription(tuple(map(str, range(40))), tuple(map(palette_color, range(40))))

    def write(height, width):
        rows, columns = np.indices((height, width), np.uint8)
        for key, labels in (("rows", rows), ("columns", columns)):
            write_photo(folder, key, np.stack([rows, columns, np.zeros_like(rows)], -1), labels)
        return [Photo(key, folder / f"images/{key}.png", folder / f"labels/{key}.png") for key in ("rows", "columns")]

    return write, description


@settings(deadline=None, max_examples=25)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    size=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    scale=st.sampled_from([0.5, 0.75, 1.0, 1.3, 1.5, 2.0]),
    places=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_labels_follow_the_photo(ramps, height, width, size, scale, places):
    """The linear interpolation of a ramp is the position, which is at most half a pixel from the nearest one."""
    write, description = ramps
    reader = CropReader(write(height, width), description, size)
    for axis in (0, 1):
        image, labels = (x.numpy() for x in reader.crop(0, axis, np.float32(scale), np.array(places, np.float32)))
        inside = labels != IGNORED
        counts = min(scaled_length(height, scale), size[0]), min(scaled_length(width, scale), size[1])
        assert inside[: counts[0], : counts[1]].all()
        assert inside.sum() == np.prod(counts)
        assert (image[~inside] == 0).all()
        positions = (image[..., axis] + 1) * 127.5
        assert abs(positions - labels)[inside].max() <= 0.5 + 1e-4
    assert not reader.errors


def test_scales_are_drawn_evenly():
    assert PhotoAugmentation().scales == (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
    assert PhotoAugmentation(1, 1).scales == (1,)
    assert PhotoAugmentation(0.8, 1.2, 1).scales == (0.8, 1.2)
    drawn = tf.function(lambda number, draw: draw(Draws(1, number)), reduce_retracing=True)

    def each(draw):
        return [drawn(tf.constant(number, tf.int64), draw).numpy() for number in range(300)]

    values, counts = np.unique(each(PhotoAugmentation().draw_scale), return_counts=True)
    np.testing.assert_allclose(values, PhotoAugmentation().scales)
    assert counts.min() > 20
    free = each(PhotoAugmentation(scale_step=0).draw_scale)
    assert len({*free}) > 250
    assert 0.5 <= min(free) < 0.6
    assert 1.9 < max(free) <= 2.0
    assert 100 < sum(each(PhotoAugmentation().draw_flip)) < 200
    assert not any(each(PhotoAugmentation(flip=False).draw_flip))


def test_flips_mirror_left_and_right(folder):
    plain, flipped = (
        batches(folder, 10, batch_size=1, augmentation=PhotoAugmentation(1, 1, flip=flip)) for flip in (False, True)
    )
    mirrored = 0
    for one, other in zip(plain, flipped):
        if np.array_equal(one["image"], other["image"]):
            np.testing.assert_array_equal(one["labels"], other["labels"])
        else:
            np.testing.assert_array_equal(one["image"][:, :, ::-1], other["image"])
            np.testing.assert_array_equal(one["labels"][:, :, ::-1], other["labels"])
            mirrored += 1
    assert 0 < mirrored < 10


def test_crops_of_large_photos_read_only_a_region():
    axis = crop_axis(8192, 0.5, 513, 0.3)
    assert axis.region.stop - axis.region.start <= 2 * 513 + 2
    assert len(axis.centers) == 513
    axis = crop_axis(8192, 2.0, 513, 1.0)
    assert axis.region.stop == 8192
    assert axis.region.stop - axis.region.start <= 513 // 2 + 3


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "images/p2.png").write_bytes(b"x"), r"p2\.png: cannot be read as an image"),
        (
            lambda f: Image.new("L", (3, 3)).save(f / "labels/p2.png"),
            r"p2\.png: is 16 pixels wide and 15 high, but its",
        ),
        (lambda f: Image.new("L", (16, 15), 7).save(f / "labels/p2.png"), r"the label value\(s\) 7 in"),
    ],
)
def test_the_stream_names_an_invalid_photo(tmp_path, break_it, message):
    (tmp_path / "classes.json").write_text('{"classes": ["a", "b"]}')
    for number in range(4):
        write_photo(tmp_path, f"p{number}", np.zeros((15, 16, 3), np.uint8), np.zeros((15, 16), np.uint8))
    break_it(tmp_path)
    with pytest.raises(DataError, match=message):
        batches(tmp_path, 4, batch_size=1)


def test_an_invalid_folder_is_reported_before_the_first_batch(folder, tmp_path):
    def call(data=None, where=folder, **changes):
        arguments = {"batch_size": 1, "sizes": (8, 8), "seed": 0, "start_step": 0} | changes
        return (data or Photos(None)).batches(where, **arguments)

    with pytest.raises(DataError, match=r"has no split 'train'. It has no lists"):
        call(Photos())
    with pytest.raises(DataError, match=r"is not a folder of photos"):
        call(where=tmp_path)
    with pytest.raises(ConfigError, match="batch_size = 0: it must be"):
        call(batch_size=0)
    with pytest.raises(ConfigError, match=r"size \(8,\): must be two positive integers"):
        call(sizes=(8,))


def test_gin_files_set_the_crops_and_the_augmentation():
    gin.parse_config(
        ["Photos.size = [33, 65]", "Photos.augmentation = @PhotoAugmentation()", "PhotoAugmentation.min_scale = 0.75"]
    )
    data = gin.get_configurable("Photos")()
    assert (data.sizes("anywhere"), data.split, data.held_out_split) == ((33, 65), "train", "val")
    assert data.augmentation == PhotoAugmentation(min_scale=0.75)


def test_batches_fit_the_inputs_of_a_task(folder):
    inputs = {
        "image": ("batch:2,height:12,width:14,channels:3", tf.bfloat16),
        "labels": ("batch:2,height:12,width:14", tf.int32),
    }
    data = Photos(None, size=(12, 14))
    sizes = data_sizes(data, folder)
    batch = next(data_batches(data, folder, inputs, batch_size=2, sizes=sizes, seed=3, start_step=0))
    (expected,) = batches(folder, 1)
    np.testing.assert_array_equal(batch["labels"], expected["labels"])
    np.testing.assert_allclose(tf.cast(batch["image"], tf.float32), expected["image"], atol=0.01)
    assert batch["cases"] == expected["cases"]
