"""Classes of photos: the palette of PASCAL VOC, scaling, and the fields of classes.json."""

import json

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.data.pixels.scaling import MEAN
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.photos.description import (
    CITYSCAPES,
    VOC,
    PhotoDescription,
    palette_color,
    photo_description_from_fields,
)

ROADS = PhotoDescription(("ground", "road"), ((0, 0, 0), (128, 64, 128)), scaling=MEAN, values=((7, 1), (9, 0)))
TWO = {"classes": ["a", "b"]}


def test_the_palette_is_that_of_pascal_voc():
    published = {0: (0, 0, 0), 5: (128, 0, 128), 8: (64, 0, 0), 15: (192, 128, 128), 20: (0, 64, 128)}
    assert {label: palette_color(label) for label in published} == published
    assert palette_color(255) == (224, 224, 192)
    assert len({palette_color(value) for value in range(256)}) == 256


def test_the_classes_of_pascal_voc_and_cityscapes():
    assert (len(VOC.classes), VOC.classes[15], VOC.colors[15]) == (21, "person", (192, 128, 128))
    assert (VOC.ignore_label, VOC.values) == (255, ())
    assert len(CITYSCAPES.classes) == 19
    assert dict(CITYSCAPES.values)[26] == CITYSCAPES.classes.index("car") == 13
    assert CITYSCAPES.colors[13] == (0, 0, 142)
    assert CITYSCAPES.stored_value(13) == 26
    assert VOC.stored_value(13) == 13


@pytest.mark.parametrize("description", [VOC, ROADS], ids=["unit", "mean"])
def test_scaling_maps_the_padding_to_zero(description):
    assert (description.scale(np.tile(description.padding, (2, 3, 1))) == 0).all()
    pixels = np.arange(30, dtype=np.uint8).reshape(2, 5, 3)
    scaled = description.scale(pixels)
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(description.scale(tf.cast(pixels, tf.float32)), scaled)
    expected = pixels * 2 / 255 - 1 if description is VOC else pixels - np.array((123.68, 116.779, 103.939))
    np.testing.assert_allclose(scaled, expected, atol=1e-5)


@pytest.mark.parametrize("description", [VOC, CITYSCAPES, ROADS])
def test_fields_describe_the_same_classes(description):
    fields = json.loads(json.dumps(description.to_fields()))
    assert photo_description_from_fields(fields, "run.json") == description


def test_fields_may_leave_colors_out():
    assert photo_description_from_fields(TWO, "f").colors == (palette_color(0), palette_color(1))
    named = photo_description_from_fields({"classes": {"x": [1, 2, 3]}, "ignore_label": 9}, "f")
    assert named == PhotoDescription(("x",), ((1, 2, 3),), 9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "f: does not contain an object with the key 'classes'. Fix: write {"),
        ({"klasses": {}}, "f: does not contain an object with the key 'classes'"),
        ({**TWO, "ignore_lable": 3}, "the key 'ignore_lable' is not known. Did you mean 'ignore_label'? Fix: use only"),
        ({"classes": 3}, "f: 'classes' is 3, not an object or a list of names"),
        ({"classes": {"a": [0, 0, 0]}, "colors": []}, "states the colors twice"),
        ({"classes": []}, "f: classes: 0, not 1 to 255 names"),
        ({"classes": [str(n) for n in range(256)]}, "classes: 256, not 1 to 255 names"),
        ({"classes": ["a", ""]}, "the class with label 1 has the name ''"),
        ({"classes": ["a", 2]}, "the class with label 1 has the name 2"),
        ({"classes": ["a", "a"]}, "two classes have the name 'a', those of the labels 0 and 1"),
        ({**TWO, "colors": [[0, 0, 0]]}, "there are 2 classes, but the colors are 1."),
        ({"classes": {"a": [0, 0]}}, "the color of the class 'a' is [0, 0], not three integers in 0..255"),
        ({"classes": {"a": [0, 0, 256]}}, "the color of the class 'a' is [0, 0, 256]"),
        ({"classes": {"a": "red"}}, "the color of the class 'a' is 'red'"),
        ({**TWO, "ignore_label": 256}, "ignore_label 256 is not an integer in 0..255. Fix: use 255."),
        ({**TWO, "ignore_label": True}, "ignore_label True is not an integer"),
        ({**TWO, "ignore_label": 1}, "ignore_label 1 is the label of one of the 2 classes"),
        (
            {**TWO, "scaling": "units"},
            "scaling 'units' is not known. Did you mean 'unit'? Fix: choose one of unit, mean",
        ),
        ({**TWO, "values": {"7": 0}}, "values {'7': 0} is not a list"),
        ({**TWO, "values": [[7]]}, "values: [7] is not a pair of a value and a label"),
        (
            {**TWO, "values": [[7, 2]]},
            "maps the value 7 to the label 2, but there are 2 classes. Fix: use a label in 0..1",
        ),
        ({**TWO, "values": [[255, 0]]}, "maps the ignore_label 255 to a class"),
        ({**TWO, "values": [[7, 0], [7, 1]]}, "maps the value 7 twice"),
        ({**TWO, "values": [[7, 1], [8, 1]]}, "no value has the label 0. Fix: add a pair for this class"),
    ],
)
def test_wrong_fields_are_refused(fields, message):
    with pytest.raises(DataError) as error:
        photo_description_from_fields(fields, "f")
    assert str(error.value).startswith("f: ")
    assert message in str(error.value)
    assert "Fix: " in str(error.value)
