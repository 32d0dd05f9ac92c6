"""Fields of classes and of COCO that are hostile or ambiguous."""

import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.annotations import find_object_images
from mtf_imaging.kinds.photos.reading.folders import photo_description
from tests.kinds.coco_folder import make_annotation, make_fields, write_annotations, write_folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"classes": {"road": [0, 0, 0], "road": [1, 1, 1]}}', "'road' occurs twice"),
        ('{"classes": ["a\\nb"]}', "with control characters"),
        ('{"classes": ["a"], "ignore_label": ' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
)
def test_classes(tmp_path, text, message):
    (tmp_path / "images").mkdir()
    (tmp_path / "classes.json").write_text(text)
    with pytest.raises(DataError, match=rf"^{tmp_path}/classes\.json: .*{message}"):
        photo_description(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": [0, 0, 10**400, 3]}, r"has the bbox .*, not x, y, width and height"),
        ({"area": 10**400}, "has the area"),
        ({"segmentation": [[0, 0, 10**400, 3, 4, 4]]}, "neither polygons of at least three points"),
    ],
)
def test_integers_with_hundreds_of_digits(tmp_path, change, message):
    fields = make_fields([(8, 8)], [make_annotation(1, 11, 1, (0, 0, 3, 3), **change)])
    write_folder(tmp_path, fields)
    with pytest.raises(DataError, match=rf"annotations\[0\] .*{message}"):
        find_object_images(tmp_path, "train")


@pytest.mark.parametrize("name", ["..", ".", "a/..", "a\nb.png", "a\0.png"])
def test_names_that_are_no_files(tmp_path, name):
    fields = make_fields([(8, 8)], [])
    write_folder(tmp_path, fields)
    fields["images"][0]["file_name"] = name
    write_annotations(tmp_path, "train", fields)
    with pytest.raises(DataError, match=r"images\[0\].* has the file_name .* not the name of an image file"):
        find_object_images(tmp_path, "train")


@pytest.mark.parametrize("text", ['{"images": [], "images": []}', '{"images": ' * 100_000, "[1" + "0" * 5000 + "]"])
def test_instances(tmp_path, text):
    path = write_annotations(tmp_path, "train", text)
    with pytest.raises(DataError, match=rf"^{path}: ('images' occurs twice|not a JSON file)"):
        find_object_images(tmp_path, "train")
