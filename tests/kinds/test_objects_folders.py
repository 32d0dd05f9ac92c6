"""Folders in the layout of COCO: their images and annotations, and the messages about invalid ones."""

import json
import re
import time

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.description import ObjectDescription, object_description_from_fields
from mtf_imaging.kinds.objects.reading.annotations import (
    annotation_file,
    find_object_images,
    has_annotations,
    object_description,
    splits,
)
from mtf_imaging.kinds.objects.reading.images import read_object_image
from mtf_imaging.kinds.objects.reading.instances import read_instances
from mtf_imaging.kinds.objects.reading.masks import decode_mask
from tests.kinds.coco_folder import make_annotation, make_fields, write_annotations, write_folder, write_images

CATEGORIES = ((1, "cup"), (3, "fork"))
SIZES = ((10, 14), (12, 9), (8, 8))


@pytest.fixture
def fields():
    """Three images: two objects and a crowd region, no object, and a box that exceeds the image."""
    counts = [3 * 10, 10, 10 * 14 - 40]  # the fourth column
    crowd = make_annotation(9, 11, 1, (3, 0, 1, 10), {"size": [10, 14], "counts": counts}, is_crowd=1, area=10)
    return make_fields(
        SIZES,
        [
            make_annotation(5, 13, 3, (-2.5, 4, 6, 9)),
            make_annotation(2, 11, 3, (2, 1, 5, 4)),
            crowd,
            make_annotation(4, 11, 1, (8, 5, 4, 4), [[8, 5, 12, 5, 12, 9], [8, 5, 8, 9, 11, 9]], area=None),
        ],
    )


def test_the_images_of_a_split(tmp_path, fields):
    images = find_object_images(write_folder(tmp_path, fields), "train")
    assert [(one.key, one.image_id, (one.height, one.width)) for one in images] == [
        (f"p{number}", 11 + number, size) for number, size in enumerate(SIZES)
    ]
    assert [one.image for one in images] == [tmp_path / "train" / f"p{number}.png" for number in range(3)]
    first, empty, last = (one.objects for one in images)
    assert empty == ()
    assert [(one.annotation_id, one.category, one.box, one.is_crowd, one.area) for one in first] == [
        (2, 1, (1, 2, 5, 7), False, 20),
        (9, 0, (0, 3, 10, 4), True, 10),
        (4, 0, (5, 8, 9, 12), False, 16),  # without an area, that of the box
    ]
    assert [one.box for one in last] == [(4, -2.5, 13, 3.5)]


def test_masks_are_those_of_pycocotools(tmp_path, fields):
    write_folder(tmp_path, fields)
    coco = COCO(annotation_file(tmp_path, "train"))
    objects = 0
    for image in find_object_images(tmp_path):
        for one in image.objects:
            mask = decode_mask(one.segmentation, image.height, image.width)
            np.testing.assert_array_equal(mask, coco.annToMask(coco.anns[one.annotation_id]))
            assert mask.any()
            objects += 1
    assert objects == len(coco.anns) == 4


def test_categories_are_sorted_by_id(tmp_path):
    images, categories = ((4, 4),), ((90, "brush"), (1, "cup"), (7, "train"))
    annotations = [make_annotation(1, 11, 90, (0, 0, 2, 2)), make_annotation(2, 11, 7, (0, 0, 2, 2))]
    write_folder(tmp_path, make_fields(images, annotations, categories))
    description = object_description(tmp_path)
    assert (description.ids, description.names) == ((1, 7, 90), ("cup", "train", "brush"))
    assert [one.category for one in find_object_images(tmp_path)[0].objects] == [2, 1]
    wider = ObjectDescription(((1, "cup"), (2, "fork"), (7, "train"), (90, "brush")))
    assert [one.category for one in find_object_images(tmp_path, None, wider)[0].objects] == [3, 2]
    with pytest.raises(
        DataError, match=r"instances_train\.json: 2 of its categories are not .* such as 7 'train'\. The"
    ):
        find_object_images(tmp_path, None, ObjectDescription(((1, "cup"), (90, "broom"))))


@pytest.mark.parametrize("place", ["train", "images/train", "images", "."])
def test_images_are_in_one_of_several_folders(tmp_path, fields, place):
    write_annotations(tmp_path, "train", fields)
    write_images(tmp_path / place, fields)
    assert find_object_images(tmp_path, "train")[0].image == tmp_path / place / "p0.png"


def test_names_may_include_folders(tmp_path, fields):
    for entry in fields["images"]:
        entry["file_name"] = f"city{entry['id'] % 2}/{entry['file_name']}"
    for city in ("city0", "city1"):
        (tmp_path / "images" / city).mkdir(parents=True)
    write_annotations(tmp_path, "train", fields)
    write_images(tmp_path / "images", fields)
    assert [one.key for one in find_object_images(tmp_path)] == ["city1/p0", "city0/p1", "city1/p2"]


def test_splits(tmp_path, fields):
    tmp_path /= "coco"
    write_folder(tmp_path, fields, "train2017")
    assert (splits(tmp_path), has_annotations(tmp_path)) == (("train2017",), True)
    write_folder(tmp_path, make_fields(SIZES[:1], []), "val2017")
    assert splits(tmp_path) == ("train2017", "val2017")
    assert find_object_images(tmp_path, "val2017")[0].objects == ()
    with pytest.raises(DataError, match=r"has the splits train2017, val2017\. Fix: choose one") as error:
        find_object_images(tmp_path)
    assert error.value.settings == ("split",)
    with pytest.raises(
        DataError, match=r"has no split 'train', because .*instances_train\.json is missing\. Did you mean"
    ):
        find_object_images(tmp_path, "train")
    with pytest.raises(DataError, match=rf"has no annotations of objects\. Fix: give {tmp_path}\."):
        find_object_images(tmp_path.parent, "train")
    with pytest.raises(DataError, match=r"annotations/instances_SPLIT\.json and the images, as in COCO"):
        object_description(tmp_path / "train2017")
    assert object_description(tmp_path).categories == CATEGORIES


def test_folders_of_images_without_annotations(tmp_path, fields):
    write_images(tmp_path, fields)
    images = find_object_images(tmp_path, need_annotations=False)
    assert [(one.key, one.image_id, (one.height, one.width), one.objects) for one in images] == [
        (f"p{number}", number + 1, size, None) for number, size in enumerate(SIZES)
    ]
    assert not has_annotations(tmp_path)
    for number in (2, 1, 0):
        (tmp_path / f"p{number}.png").rename(tmp_path / f"00{7 * number}.png")
    assert [one.image_id for one in find_object_images(tmp_path, need_annotations=False)] == [0, 14, 7]
    (one,) = find_object_images(tmp_path / "007.png", need_annotations=False)
    assert (one.key, one.image_id, one.height) == ("007", 7, 12)
    with pytest.raises(DataError, match=r"has no annotations of objects\."):
        find_object_images(tmp_path)
    with pytest.raises(DataError, match=r"as in COCO, or a folder of \.jpg, \.png or \.tif images\."):
        find_object_images(tmp_path / "train", need_annotations=False) if (tmp_path / "train").mkdir() is None else None
    for name, fault in (("missing", "does not exist"), ("007.png", "is not a folder")):
        with pytest.raises(DataError, match=rf"{name}: {fault}\. Fix: give a folder that contains annotations"):
            find_object_images(tmp_path / name)


def test_pixels_are_stored_pixels(tmp_path):
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.fromarray(gray).save(tmp_path / "p0.png", exif=exif)
    palette = Image.fromarray(gray)
    palette.putpalette([value for number in range(12) for value in (number, 2 * number, 3 * number)])
    palette.save(tmp_path / "p1.png")
    images = find_object_images(tmp_path, need_annotations=False)
    turned, colored = map(read_object_image, images)
    assert (images[0].height, images[0].width) == (3, 4)
    np.testing.assert_array_equal(turned, np.stack([gray] * 3, -1))
    np.testing.assert_array_equal(colored, gray[..., None] * np.array([1, 2, 3]))


def test_images_must_have_the_size_that_the_annotations_state(tmp_path, fields):
    write_folder(tmp_path, fields)
    Image.new("RGB", (5, 6)).save(tmp_path / "train" / "p1.png")
    images = find_object_images(tmp_path)
    assert read_object_image(images[0]).shape == (10, 14, 3)
    with pytest.raises(
        DataError, match=r"p1\.png: is 5 pixels wide and 6 high, but .* image 12 state 9 wide and 12 high"
    ):
        read_object_image(images[1])


def change(path, value):
    """Returns a function that sets a value in the fields; `path` is, for example, "annotations.1.bbox"."""

    def apply(fields):
        *parents, last = (int(name) if name.isdigit() else name for name in path.split("."))
        for name in parents:
            fields = fields[name]
        if value is None:
            del fields[last]
        else:
            fields[last] = value

    return apply


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (change("categories", None), "has no list with the key 'categories'. Fix: write an object with the lists"),
        (change("categories", []), "ObjectDescription.categories = (): it must be a tuple"),
        (change("categories.1.name", " "), "a category has a name without characters"),
        (change("categories.1.name", 1), "categories[1] (id 3) has the name 1, not a text. Fix: correct the file"),
        (
            change("categories.1.name", "cup"),
            "two categories have the name 'cup'. Fix: correct the categories",
        ),
        (change("categories.1.id", 1), "categories[1] (id 1) has the id 1, not a unique integer"),
        (change("images.2.id", 11), "images[2] (id 11) has the id 11, not a unique integer"),
        (change("images.2.id", "13"), "images[2] (id '13') has the id '13', not a unique integer"),
        (change("images.1.id", None), "images[1] has no id, a unique integer"),
        (change("images.1.height", None), "images[1] (id 12) has no height, a positive integer"),
        (change("images.1.width", 0), "images[1] (id 12) has the width 0, not a positive integer"),
        (change("images.0.file_name", ""), "images[0] (id 11) has the file_name '', not the name of an image file"),
        (change("images.0.file_name", "a/.."), "images[0] (id 11) has the file_name 'a/..', not the name of an image"),
        (change("images.1.file_name", "p0.jpg"), "the image 12 has the file_name 'p0.jpg', but 'p0.png' has the same"),
        (change("images.1.file_name", "q.png"), "1 of 3 images are not in FOLDER/train: q.png. Fix: add the images"),
        (change("images.0.file_name", "q.png"), "the image 11, 'q.png', is in none of the folders train, images/train"),
        (change("images", []), "annotations[0] (id 5) has the image_id 13, not the id of one of the images"),
        (
            lambda fields: [entry.update(bbox=[0.1, 0.2, 0.5, 0.4]) for entry in fields["annotations"]],
            "no box reaches beyond 0.6, so the boxes are parts of the image, as in YOLO",
        ),
        (change("annotations.1.id", 5), "annotations[1] (id 5) has the id 5, not a unique integer"),
        (change("annotations.1", [1]), "annotations[1] is [1], not an object"),
        (change("annotations.1.category_id", None), "annotations[1] (id 2) has no category_id, the id of a category"),
        (change("annotations.1.category_id", 2), "(id 2) has the category_id 2, not the id of a category"),
        (change("annotations.1.bbox", [1, 2, -3, 4]), "has the bbox [1, 2, -3, 4], not x, y, width and height"),
        (change("annotations.1.bbox", [1, 2, 3]), "has the bbox [1, 2, 3], not x, y, width and height"),
        (change("annotations.1.bbox.0", float("nan")), "has the bbox [nan, 1, 5, 4], not x, y"),
        (change("annotations.1.area", -1), "has the area -1, not a number of pixels"),
        (change("annotations.1.iscrowd", "no"), "has the iscrowd 'no', not 0 or 1"),
        (change("annotations.1.segmentation", "mask"), "has a segmentation that is neither polygons of at least three"),
        (change("annotations.1.segmentation", [[1, 2, 3, 4]]), "has a segmentation that is neither polygons of at"),
        (change("annotations.1.segmentation", [["a"] * 6]), "has a segmentation that is neither polygons of at least"),
        (
            change("annotations.2.segmentation.size", [14, 10]),
            "has a segmentation that is neither polygons of at least three points nor the run lengths of 10 x 14",
        ),
        (change("annotations.2.segmentation.counts", [3]), "nor the run lengths of 10 x 14 pixels (height x width)"),
        (change("annotations.2.segmentation.counts", "PP"), "nor the run lengths of 10 x 14 pixels (height x width)"),
    ],
)
def test_messages_name_the_file_the_entry_and_the_fix(tmp_path, fields, break_it, message):
    write_folder(tmp_path, fields)
    break_it(fields)
    path = write_annotations(tmp_path, "train", fields)
    with pytest.raises(DataError, match=re.escape(message.replace("FOLDER", str(tmp_path)))) as error:
        find_object_images(tmp_path, "train")
    assert str(error.value).startswith(str(path))
    assert "Fix: " in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"images": []}', "[" * 100_000, b"\xff\xfe".decode("latin-1")])
def test_files_that_are_not_instances(tmp_path, text):
    path = write_annotations(tmp_path, "train", text)
    with pytest.raises(DataError, match=rf"{path}: (not a JSON file|has no list with the key)"):
        read_instances(path)
    with pytest.raises(DataError, match=r"missing\.json: No such file"):
        read_instances(tmp_path / "missing.json")


def test_a_split_without_images(tmp_path):
    write_annotations(tmp_path, "train", make_fields((), []))
    with pytest.raises(DataError, match=r"instances_train\.json: lists no images"):
        find_object_images(tmp_path)


def test_a_changed_file_is_read_again(tmp_path, fields):
    path = write_annotations(tmp_path, "train", fields)
    first = read_instances(path)
    assert read_instances(path) is first
    fields["annotations"].pop()
    write_annotations(tmp_path, "train", fields)
    assert sum(len(image.objects) for image in read_instances(path).images) == 3


def test_reading_takes_linear_time(tmp_path):
    """A file with 8 times the annotations takes about 8 times as long."""

    def seconds(count):
        annotations = [make_annotation(n, 11 + n % (count // 10), 1, (1, 2, 3, 4)) for n in range(count)]
        fields = make_fields([(20, 20)] * (count // 10), annotations)
        path = write_annotations(tmp_path, f"s{count}", fields)
        times = []
        for changed in range(3):
            path.touch()
            read_instances.__globals__["_read"].cache_clear()
            start = time.process_time()
            assert len(read_instances(path).images) == count // 10, changed
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(16_000) < 20 * seconds(2_000)


def test_descriptions_as_json():
    description = ObjectDescription(CATEGORIES, "unit")
    fields = json.loads(json.dumps(description.to_fields()))
    assert object_description_from_fields(fields, "run.json") == description
    pixels = np.array([[123.675, 116.28, 103.53], [255, 0, 0]])
    scaled = ObjectDescription(CATEGORIES).scale(pixels)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(
        scaled, (pixels / 255 - (0.485, 0.456, 0.406)) / np.array((0.229, 0.224, 0.225)), atol=1e-5
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "run.json: has no list with the key 'categories'"),
        (
            {"categories": [[1, "a"]], "scaling": "image"},
            "scaling = 'image': it must be one of 'unit', 'mean', 'imagenet'. Fix",
        ),
        (
            {"categories": [[1, "a"]], "scalings": 1},
            "run.json: the key 'scalings' is not known. Did you mean 'scaling'",
        ),
        ({"categories": [[1, "a"], [1, "b"]]}, "run.json: two categories have the ID 1"),
        (
            {"categories": [["a", 1]]},
            "categories = (('a', 1),): it must be a tuple in which each element is a tuple of an int",
        ),
    ],
)
def test_wrong_descriptions_are_refused(fields, message):
    with pytest.raises(DataError, match=re.escape(message)):
        object_description_from_fields(fields, "run.json")
