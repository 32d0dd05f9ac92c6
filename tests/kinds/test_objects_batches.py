"""Batches of objects: their geometry, order and reproducibility."""

import gin
import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.cli.config import training_settings  # noqa: F401
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.kinds.objects.data_set import ObjectAugmentation, Objects
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import find_object_images
from mtf_imaging.kinds.objects.reading.images import read_object_image
from mtf_imaging.kinds.objects.reading.masks import decode_mask
from mtf_imaging.kinds.objects.reading.native import fit
from mtf_imaging.training.data_set import data_batches, data_sizes
from tests.kinds.coco_folder import make_annotation, make_fields, write_annotations, write_folder
from tests.kinds.test_photos_batches import as_arrays

SIZES = ((30, 40), (24, 18), (33, 21), (16, 16), (20, 36))
PLAIN = ObjectAugmentation(1, 1, flip=False)


def make_annotations():
    """Returns boxes with integer corners, one crowd region, and one image without objects."""
    annotations = []
    for number, (height, width) in enumerate(SIZES[:4]):
        rng = np.random.default_rng(number)
        for _ in range(3):
            x, y = int(rng.integers(0, width - 8)), int(rng.integers(0, height - 8))
            box = x, y, int(rng.integers(4, 9)), int(rng.integers(4, 9))
            annotations.append(make_annotation(len(annotations), 11 + number, int(rng.choice([1, 3])), box))
    annotations.append(make_annotation(90, 11, 1, (0, 0, 20, 20), is_crowd=1))
    return annotations


def write_coco(folder):
    return write_folder(folder, make_fields(SIZES, make_annotations()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_coco(tmp_path_factory.mktemp("coco"))


def batches(folder, count, *, batch_size=1, start_step=0, seed=3, sizes=(32, 36), **options):
    options = {"max_boxes": 4, "masks": True, "mask_size": 8, "scaling": "unit"} | options
    given = {"batch_size": batch_size, "sizes": sizes, "seed": seed, "start_step": start_step}
    return as_arrays(Objects("train", **options).batches(folder, **given), count)


def test_without_augmentation_images_fit_as_in_prediction(folder):
    images = {image.key: image for image in find_object_images(folder)}
    description = ObjectDescription(((1, "cup"), (3, "fork")), "unit")
    for batch in batches(folder, 5):
        image = images[batch["cases"][0]]
        expected, scale = fit(read_object_image(image), (32, 36), description)
        np.testing.assert_allclose(batch["image"][0], expected, atol=1e-5)
        objects = [one for one in image.objects if not one.is_crowd]
        np.testing.assert_array_equal(
            batch["classes"][0], [one.category for one in objects] + [-1] * (4 - len(objects))
        )
        boxes = batch["boxes"][0, : len(objects)]
        limits = np.array([image.height, image.width] * 2)
        native = np.clip([one.box for one in objects], 0, limits) if objects else np.zeros((0, 4))
        np.testing.assert_allclose(np.clip(boxes / [*scale, *scale], 0, limits), native, atol=1e-4)
        assert (batch["boxes"][0, len(objects) :] == 0).all()
        assert (batch["masks"][0, : len(objects), 1:-1, 1:-1] > 0.5).all()
        assert (batch["masks"][0, len(objects) :] == 0).all()


def test_fit_is_the_resize_of_tensorflow():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 41, 3)).astype(np.uint8)
    description = ObjectDescription(((1, "cup"),))
    for size in ((20, 20), (64, 64), (30, 41), (50, 200)):
        image, (down, across) = fit(pixels, size, description)
        assert image.shape == (*size, 3)
        height, width = round(30 * down), round(41 * across)
        assert height == size[0] or width == size[1]
        assert abs(height / 30 - width / 41) * 41 <= 1
        expected = description.scale(tf.image.resize(pixels, (height, width)).numpy())
        np.testing.assert_allclose(image[:height, :width], expected, atol=1e-4)
        assert (image[height:] == 0).all()
        assert (image[:, width:] == 0).all()


def painted_folder(folder, size=(40, 60)):
    """Writes an image of bright shapes on black, whose red channel is the mask of the only object."""
    from PIL import Image

    rows, columns = np.indices(size)
    triangle = (rows > 8) & (columns > 15) & (rows + columns < 55) & (rows < 36)
    ys, xs = np.nonzero(triangle)
    box = [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1]
    column = triangle.T.ravel().astype(int)
    counts = np.diff(np.flatnonzero(np.diff(np.r_[0, column, 1 - column[-1]])), prepend=0).tolist()
    fields = make_fields([size], [make_annotation(1, 11, 1, box, {"size": [*size], "counts": counts})])
    write_annotations(folder, "train", fields)
    (folder / "train").mkdir()
    Image.fromarray(np.repeat(255 * triangle[..., None], 3, -1).astype(np.uint8)).save(folder / "train" / "p0.png")
    return triangle


@pytest.mark.parametrize("options", [{}, {"min_scale": 0.4, "max_scale": 2.5}])
def test_boxes_and_masks_follow_the_image(tmp_path, options):
    """Scaled, cropped and mirrored at random, the box surrounds the bright pixels, and the mask is the image in it."""
    painted_folder(tmp_path)
    seen, cut = set(), 0
    for batch in batches(tmp_path, 40, sizes=(48, 48), mask_size=40, augmentation=ObjectAugmentation(**options)):
        bright = batch["image"][0, ..., 0] > 0
        y0, x0, y1, x1 = batch["boxes"][0, 0]
        if batch["classes"][0, 0] == -1:
            assert not bright.any()
            continue
        is_cut = bool(max(y1, x1) == 48 or min(y0, x0) == 0)
        ys, xs = np.nonzero(bright)
        surrounding = np.array([ys.min(), xs.min(), -ys.max() - 1, -xs.max() - 1]) if len(ys) else np.full(4, 24)
        beyond = np.array([y0, x0, -y1, -x1]) - surrounding
        assert (beyond < 1.6).all()
        assert is_cut or (beyond > -1.6).all()
        mask = batch["masks"][0, 0] > 0.5
        centers = [(low + (np.arange(40) + 0.5) / 40 * (high - low)).astype(int) for low, high in ((y0, y1), (x0, x1))]
        sampled = bright[np.ix_(*(np.minimum(one, 47) for one in centers))]
        assert (mask == sampled).mean() > 0.9
        # The longest row of the triangle is its first one; its vertical edge is on the left unless it is mirrored.
        seen.add(bool(mask[:, 0].sum() > mask[:, -1].sum()))
        cut += is_cut
    assert seen == {True, False}
    assert (cut > 5) == bool(options)


def test_of_more_objects_the_largest_are_used(tmp_path):
    boxes = [(1, 1, 4, 4), (2, 2, 9, 9), (0, 0, 3, 3), (5, 5, 4, 4), (0, 0, 20, 20), (-6, -6, 5, 5), (3, 3, 0, 8)]
    annotations = [make_annotation(number, 11, 1, box) for number, box in enumerate(boxes)]
    write_folder(tmp_path, make_fields([(32, 36)], annotations))
    for max_boxes, expected in ((3, [0, 1, 4]), (4, [0, 1, 3, 4]), (7, [0, 1, 2, 3, 4])):
        (batch,) = batches(tmp_path, 1, max_boxes=max_boxes)
        numbers = [boxes.index((x0, y0, x1 - x0, y1 - y0)) for y0, x0, y1, x1 in batch["boxes"][0, : len(expected)]]
        assert numbers == expected
        assert (batch["classes"][0] == [0] * len(expected) + [-1] * (max_boxes - len(expected))).all()


def test_boxes_are_clipped_to_the_image(tmp_path):
    write_folder(tmp_path, make_fields([(32, 36)], [make_annotation(1, 11, 3, (-3.5, 20, 10, 40.25))]))
    (batch,) = batches(tmp_path, 1)
    np.testing.assert_allclose(batch["boxes"][0, 0], [20, 0, 32, 6.5])
    assert batch["classes"][0, 0] == 1


def test_crops_are_at_random_positions(folder):
    corners = {
        batch["image"].tobytes() for batch in batches(folder, 20, sizes=(8, 8), augmentation=ObjectAugmentation(2, 3))
    }
    assert len(corners) == 20


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "train/p0.png").write_bytes(b"x"), r"p0\.png: cannot be read as an image"),
        (lambda f: (f / "train/p0.png").unlink(), r"1 of 2 images are not in .*train: p0\.png|in none of the folders"),
        (
            lambda f: write_annotations(f, "train", make_fields([(9, 9), (8, 8)], [])),
            r"p0\.png: is 8 pixels wide and 8 high, but the annotations of the image 11 state 9 wide and 9 high",
        ),
        (
            lambda f: write_annotations(
                f, "train", make_fields([(8, 8)] * 2, [make_annotation(7, 11, 1, (1, 1, 3, 3), [])])
            ),
            r"p0\.png: the annotation 7 has a box but no segmentation, which training with masks needs",
        ),
        (
            lambda f: write_annotations(
                f,
                "train",
                make_fields([(8, 8)] * 2, [make_annotation(7, 12, 1, (1, 1, 3, 3), {"size": [8, 8], "counts": "99"})]),
            ),
            r"p1\.png: the annotation 7 is invalid: a run-length encoding of 18 pixels",
        ),
    ],
)
def test_the_stream_names_an_invalid_image(tmp_path, break_it, message):
    write_folder(tmp_path, make_fields([(8, 8)] * 2, []))
    break_it(tmp_path)
    with pytest.raises(DataError, match=message):
        batches(tmp_path, 2)


def test_an_invalid_folder_is_reported_before_the_first_batch(folder, tmp_path):
    def call(where=folder, **changes):
        return Objects().batches(where, **{"batch_size": 1, "sizes": (8, 8), "seed": 0, "start_step": 0} | changes)

    with pytest.raises(DataError, match=r"has no annotations of objects"):
        call(tmp_path)
    with pytest.raises(ConfigError, match="batch_size = 0: it must be"):
        call(batch_size=0)
    with pytest.raises(ConfigError, match=r"Objects\.size \(8,\): must be two positive integers"):
        call(sizes=(8,))


def test_gin_files_set_the_size_and_the_augmentation(folder):
    gin.parse_config(
        [
            "Objects.size = [32, 64]",
            "Objects.masks = True",
            "Objects.augmentation = @ObjectAugmentation()",
            "ObjectAugmentation.max_scale = 2.0",
        ]
    )
    data = gin.get_configurable("Objects")()
    assert (data.sizes(folder), data.split, data.held_out_split, data.masks) == ((32, 64), "train", "val", True)
    assert data.augmentation == ObjectAugmentation(max_scale=2.0)
    assert data.description(folder).scaling == "imagenet"
    assert Objects(scaling="mean").description(folder).scaling == "mean"
    with pytest.raises(DataError, match="has no split 'val'"):
        find_object_images(folder, data.held_out_split)
    assert len(find_object_images(folder, None)) == 5


def test_masks_are_read_only_if_they_are_trained(folder):
    assert "masks" not in batches(folder, 1, masks=False)[0]


def test_draws_are_even():
    augmentation = ObjectAugmentation(0.1, 2.0)

    @tf.function
    def drawn(number):
        draws = Draws(1, number)
        return augmentation.draw_scale(draws), augmentation.draw_flip(draws)

    scales, flips = zip(*(drawn(tf.constant(number, tf.int64)) for number in range(200)))
    assert 0.1 <= min(scales) < 0.2
    assert 1.9 < max(scales) <= 2.0
    assert 70 < sum(map(bool, flips)) < 130


def test_batches_fit_the_inputs_of_a_task(folder):
    inputs = {
        "image": ("batch:2,height:32,width:36,channels:3", tf.bfloat16),
        "boxes": ("batch:2,boxes:4,coords:4", tf.float32),
        "classes": ("batch:2,boxes:4", tf.int32),
        "masks": ("batch:2,boxes:4,mask_height:8,mask_width:8", tf.float32),
    }
    data = Objects(size=(32, 36), max_boxes=4, masks=True, mask_size=8, scaling="unit")
    sizes = data_sizes(data, folder)
    batch = next(data_batches(data, folder, inputs, batch_size=2, sizes=sizes, seed=3, start_step=0))
    (expected,) = batches(folder, 1, batch_size=2)
    for name in ("boxes", "classes", "masks", "cases"):
        np.testing.assert_array_equal(batch[name], expected[name])


def test_masks_of_whole_images(folder):
    """A mask is sampled in the stored image, so it does not depend on the scale."""
    image = find_object_images(folder)[0]
    decoded = decode_mask(image.objects[0].segmentation, image.height, image.width)
    y0, x0, y1, x1 = map(int, image.objects[0].box)
    assert decoded[y0:y1, x0:x1].all()
    assert decoded.sum() == (y1 - y0) * (x1 - x0)
