"""Images whose EXIF orientation turns them: upright pixels and objects, and results in the stored pixels."""

import json
import re

import numpy as np
import pytest
from PIL import Image, ImageOps

from mtf_imaging.data.pixels.exif_orientation import UPRIGHT, exif_orientation
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.data_set import ObjectAugmentation, Objects
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import find_object_images
from mtf_imaging.kinds.objects.reading.images import (
    read_object_image,
    stored_detections,
    upright_detections,
    upright_image,
)
from mtf_imaging.kinds.objects.reading.masks import decode_mask, encode_mask
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.objects.training import HeldOutObjects
from tests.kinds.coco_folder import make_annotation, make_fields, write_annotations

ALL = range(1, 9)
DESCRIPTION = ObjectDescription(((1, "cup"), (3, "fork")), "unit")


def scene(height=20, width=28):
    """Returns an image with an L, which no turn maps to itself, and its mask."""
    mask = np.zeros((height, width), bool)
    mask[3:15, 5:8] = mask[12:15, 5:16] = True
    pixels = np.random.default_rng(0).integers(0, 90, (height, width, 3))
    return np.where(mask[..., None], 250, pixels).astype(np.uint8), mask


def stored_as(value, array):
    """Returns an upright array as a file with an EXIF orientation stores it, by trying all turns with Pillow."""
    for turns in range(4):
        for mirrored in (False, True):
            candidate = np.rot90(array[:, ::-1] if mirrored else array, turns)
            picture = Image.fromarray(np.ascontiguousarray(candidate))
            picture.getexif()[0x0112] = value
            upright = np.asarray(ImageOps.exif_transpose(picture))
            if upright.shape == array.shape and (upright == array).all():
                return np.ascontiguousarray(candidate)
    raise AssertionError(value)


def box_of(mask):
    (y0, y1), (x0, x1) = ((each.min(), each.max() + 1) for each in np.nonzero(mask))
    return [int(y0), int(x0), int(y1), int(x1)]


def write_turned(folder, values=ALL, split="val"):
    """Writes the same scene with several orientations, annotated in the stored pixels."""
    pixels, mask = scene()
    (folder / split).mkdir(parents=True)
    annotations, sizes = [], []
    for number, value in enumerate(values):
        stored, own = stored_as(value, pixels), stored_as(value, mask.astype(np.uint8)) > 0
        exif = Image.Exif()
        exif[0x0112] = value
        Image.fromarray(stored).save(folder / split / f"p{number}.png", exif=exif)
        y0, x0, y1, x1 = box_of(own)
        box = (x0, y0, x1 - x0, y1 - y0)
        annotations.append(make_annotation(number + 1, 11 + number, 3, box, encode_mask(own), area=int(own.sum())))
        sizes.append(own.shape)
    write_annotations(folder, split, make_fields(sizes, annotations))
    return folder


def find_l(image):
    """A network that detects the L, only if it is upright, by the mean of the corner that it leaves free."""
    bright = image.mean(-1) > 0.8
    y0, x0, y1, x1 = box_of(bright)
    is_upright = not bright[y0 + 1 : (y0 + y1) // 2, (x0 + x1) // 2 : x1].any()
    mask = bright[y0:y1, x0:x1].astype(np.float64)
    return {
        "boxes": np.array([[y0, x0, y1, x1]], np.float64),
        "scores": np.array([0.9 if is_upright else 0.0]),
        "classes": np.array([1]),
        "masks": mask[None],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_turned(tmp_path_factory.mktemp("turned"))


@pytest.mark.parametrize("value", ALL)
def test_images_and_objects_are_turned(folder, value):
    pixels, mask = scene()
    image = find_object_images(folder)[value - 1]
    seen = upright_image(image)
    np.testing.assert_array_equal(read_object_image(seen), pixels)
    np.testing.assert_array_equal(read_object_image(seen, (slice(2, 9), slice(4, 20))), pixels[2:9, 4:20])
    np.testing.assert_array_equal(read_object_image(image), stored_as(value, pixels))
    assert (seen.height, seen.width) == mask.shape
    (one,) = seen.objects
    assert [*one.box] == box_of(mask)
    np.testing.assert_array_equal(decode_mask(one.segmentation, *mask.shape), mask)
    assert (one.area, one.annotation_id, one.category) == (mask.sum(), value, 1)
    assert (seen is image) == (value == 1)


@pytest.mark.parametrize("value", ALL)
def test_detections_are_turned_back(folder, value):
    _, mask = scene()
    image = find_object_images(folder)[value - 1]
    seen = upright_image(image)
    boxes = np.array([box_of(mask), [1.25, 2.5, 7.125, 27.0]], np.float64)
    masks = tuple(encode_mask(each) for each in (mask, mask[::-1]))
    found = Detections(boxes, np.array([0.9, 0.8]), np.array([1, 0]), masks)
    stored = stored_detections(found, seen)
    (one,) = image.objects
    np.testing.assert_array_equal(stored.boxes[0], one.box)
    own = decode_mask(one.segmentation, image.height, image.width)
    np.testing.assert_array_equal(decode_mask(stored.masks[0], image.height, image.width), own)
    again = upright_detections(stored, seen)
    np.testing.assert_array_equal(again.boxes, boxes)
    assert again.masks == masks
    without = stored_detections(Detections(boxes, found.scores, found.classes), seen)
    np.testing.assert_array_equal(without.boxes, stored.boxes)
    assert without.masks is None


def test_held_out_images_are_seen_upright_and_scored_as_stored(folder):
    held_out = HeldOutObjects(Objects(masks=True, size=(20, 28)), DESCRIPTION, "val", num_pictures=8, progress=False)
    values, pictures = held_out.open(folder, (20, 28))(find_l)
    assert values["box_ap"] == pytest.approx(1)
    assert values["mask_ap"] > 0.8  # corners of pasted masks are round
    first, *others = pictures.values()
    for picture in others:
        np.testing.assert_array_equal(picture, first)
    batches = [*held_out.loss_batches(folder, batch_size=8, sizes=(20, 28))]
    for name in ("image", "boxes", "classes", "masks"):
        for other in batches[0][name][1:]:
            np.testing.assert_array_equal(other, batches[0][name][0])


def test_training_sees_upright_images(folder):
    options = {"masks": True, "mask_size": 8, "max_boxes": 2, "scaling": "unit", "size": (20, 28)}
    data_set = Objects("val", augmentation=ObjectAugmentation(1, 1, flip=False), **options)
    batch = next(data_set.batches(folder, batch_size=8, sizes=(20, 28), seed=0, start_step=0))
    assert len({*batch["cases"]}) == 8
    for name in ("image", "boxes", "classes", "masks"):
        for other in batch[name][1:].numpy():
            np.testing.assert_array_equal(other, batch[name][0])
    np.testing.assert_array_equal(batch["boxes"][0, 0], box_of(scene()[1]))


def test_annotations_of_the_turned_image_are_explained(tmp_path):
    folder = write_turned(tmp_path, [6])
    path = folder / "annotations/instances_val.json"
    fields = json.loads(path.read_text())
    entry = fields["images"][0]
    entry["height"], entry["width"] = entry["width"], entry["height"]
    path.write_text(json.dumps(fields | {"annotations": []}))
    text = (
        "p0.png: is 20 pixels wide and 28 high, but the annotations of the image 11 state 28 wide and 20 high. The "
        "annotations refer to the turned image, not to the stored pixels. Fix: store the turned pixels without an EXIF"
    )
    (image,) = find_object_images(folder)
    with pytest.raises(DataError, match=re.escape(text)):
        read_object_image(image)
    with pytest.raises(DataError, match=re.escape(text)):
        read_object_image(upright_image(image))


def test_other_values_and_tiff_files_are_upright(tmp_path):
    """Pillow turns TIFF files by itself."""
    pixels, _ = scene()
    for name, value, size in (("a.png", 9, (20, 28)), ("b.jpg", 0, (20, 28)), ("c.tif", 6, (28, 20))):
        exif = Image.Exif()
        exif[0x0112] = value
        Image.fromarray(pixels).save(tmp_path / name, exif=exif)
        assert exif_orientation(tmp_path / name) == UPRIGHT
        (image,) = find_object_images(tmp_path / name, need_annotations=False)
        assert upright_image(image) is image
        assert read_object_image(image).shape[:2] == (image.height, image.width) == size
