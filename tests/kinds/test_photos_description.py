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
        ({"classes": 3}, "f: PhotoDescription.classes = 3: it must be"),
        ({"classes": {"a": [0, 0, 0]}, "colors": []}, "states the colors twice"),
        ({"classes": []}, "f: PhotoDescription.classes = (): it must be a tuple in which each element is a string"),
        ({"classes": [str(n) for n in range(256)]}, "the classes have 256 names, but at most 255 are possible"),
        ({"classes": ["a", ""]}, "the classes have a name without characters, or with control characters"),
        (
            {"classes": ["a", 2]},
            "PhotoDescription.classes = ('a', 2): it must be a tuple in which each element is a string",
        ),
        ({"classes": ["a", "a"]}, "the classes have a name twice"),
        ({**TWO, "colors": [[0, 0, 0]]}, "the classes have 2 names, but 1 colors."),
        (
            {"classes": {"a": [0, 0]}},
            "PhotoDescription.colors = ((0, 0),): it must be a tuple in which each element is a tuple of 3 elements",
        ),
        ({"classes": {"a": [0, 0, 256]}}, "PhotoDescription.colors = ((0, 0, 256),): it must be"),
        ({"classes": {"a": "red"}}, "PhotoDescription.colors = ('red',): it must be"),
        (
            {**TWO, "ignore_label": 256},
            "PhotoDescription.ignore_label = 256: it must be an int of at least 0 and at most 255. Fix: ",
        ),
        ({**TWO, "ignore_label": True}, "PhotoDescription.ignore_label = True: it must be an int"),
        ({**TWO, "ignore_label": 1}, "the classes have the ignore_label 1 as a label"),
        (
            {**TWO, "scaling": "units"},
            "scaling = 'units': it must be one of 'unit', 'mean', 'imagenet'. Fix: ",
        ),
        ({**TWO, "values": {"7": 0}}, "PhotoDescription.values = {'7': 0}: it must be a tuple"),
        (
            {**TWO, "values": [[7]]},
            "PhotoDescription.values = ((7,),): it must be a tuple in which each element is a tuple of 2 elements",
        ),
        (
            {**TWO, "values": [[7, 2]]},
            "the classes have a value whose label is not in 0..1. Fix: ",
        ),
        ({**TWO, "values": [[255, 0]]}, "the classes have the ignore_label 255 as a value"),
        ({**TWO, "values": [[7, 0], [7, 1]]}, "the classes have a value twice"),
        ({**TWO, "values": [[7, 1], [8, 1]]}, "the classes have a label without a value"),
    ],
)
def test_wrong_fields_are_refused(fields, message):
    with pytest.raises(DataError) as error:
        photo_description_from_fields(fields, "f")
    assert str(error.value).startswith("f: ")
    assert message in str(error.value)
    assert "Fix: " in str(error.value)
