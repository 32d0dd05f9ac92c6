"""What holds for batches of photos and of objects: their form and order, resuming, and refused settings."""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.objects.data_set import ObjectAugmentation, Objects
from mtf_imaging.kinds.photos.data_set import PhotoAugmentation, Photos
from tests.kinds import test_objects_batches, test_photos_batches


class Example(NamedTuple):
    """Five images of a kind.

    Attributes:
      write: writes them to a folder.
      batches: returns some batches of a folder.
      augmentation: an augmentation that draws all values.
      shapes: the shapes and types of the arrays of a batch of two.
    """

    write: Callable
    batches: Callable
    augmentation: object
    shapes: dict


EXAMPLES = {
    "photos": Example(
        test_photos_batches.write_pairs,
        test_photos_batches.batches,
        PhotoAugmentation(scale_step=0),
        {"image": ((2, 12, 14, 3), np.float32), "labels": ((2, 12, 14), np.int32)},
    ),
    "objects": Example(
        test_objects_batches.write_coco,
        test_objects_batches.batches,
        ObjectAugmentation(0.5, 2),
        {
            "image": ((2, 32, 36, 3), np.float32),
            "boxes": ((2, 4, 4), np.float32),
            "classes": ((2, 4), np.int32),
            "masks": ((2, 4, 8, 8), np.float32),
        },
    ),
}


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request, tmp_path_factory):
    """An example, and a function that returns some of its batches."""
    one, folder = EXAMPLES[request.param], tmp_path_factory.mktemp(request.param)
    one.write(folder)
    return one, lambda count, **options: one.batches(folder, count, **options)


def assert_equal(first, second):
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_a_resumed_stream_continues_exactly(example):
    (one, batches), options = example, {"batch_size": 2, "augmentation": example[0].augmentation}
    whole = batches(6, **options)
    assert {name: (x.shape, x.dtype) for name, x in whole[0].items() if name != "cases"} == one.shapes
    assert_equal(batches(3, start_step=3, **options), whole[3:])
    assert not np.array_equal(batches(1, seed=4, **options)[0]["image"], whole[0]["image"])


def test_samples_do_not_depend_on_the_batch_size(example):
    one, batches = example
    ones, threes = (batches(12 // size, batch_size=size, augmentation=one.augmentation) for size in (1, 3))
    for name in ones[0]:
        joined = [np.concatenate([batch[name] for batch in each]) for each in (ones, threes)]
        np.testing.assert_array_equal(*joined)


def test_each_image_occurs_once_per_epoch(example):
    keys = [key for batch in example[1](15, batch_size=1) for key in batch["cases"]]
    epochs = [keys[start : start + 5] for start in (0, 5, 10)]
    assert all(sorted(epoch) == [f"p{number}" for number in range(5)] for epoch in epochs)
    assert len({*map(tuple, epochs)}) > 1


def test_large_images_are_the_same(example, monkeypatch):
    one, batches = example
    want = batches(3, augmentation=one.augmentation)
    monkeypatch.setattr("mtf_imaging.data.pixels.batches._LARGE", 0)
    assert_equal(batches(3, augmentation=one.augmentation), want)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Photos(size=(513, 0)), ConfigError, "Photos.size = (513, 0): it must be a tuple of 2 elements"),
        (lambda: Photos(size=513), ConfigError, "Photos.size = 513: it must be a tuple of 2 elements"),
        (lambda: Photos(scaling="men"), ConfigError, "one of None, 'unit', 'mean', 'imagenet'."),
        (lambda: Photos(augmentation=Augmentation()), ConfigError, "it must be of class PhotoAugmentation, or None"),
        (
            lambda: PhotoAugmentation(min_scale=0),
            ConfigError,
            "PhotoAugmentation.min_scale = 0: it must be a num",
        ),
        (
            lambda: PhotoAugmentation(scale_step="x"),
            ConfigError,
            "PhotoAugmentation.scale_step = 'x': it must be a",
        ),
        (lambda: PhotoAugmentation(3.0), ConfigError, "PhotoAugmentation.min_scale 3 is above max_scale 2."),
        (lambda: Objects(size=640), ConfigError, "Objects.size = 640: it must be a tuple of 2 elements"),
        (lambda: Objects(scaling="image"), ConfigError, "Objects.scaling = 'image': it must be one of None, 'unit"),
        (lambda: Objects(augmentation=PhotoAugmentation()), ConfigError, "it must be of class ObjectAugmentation, or"),
        (lambda: Objects(max_boxes=0), ConfigError, "Objects.max_boxes = 0: it must be an int of at least 1"),
        (lambda: Objects(mask_size=1.5), ConfigError, "Objects.mask_size = 1.5: it must be an int of at least 1"),
        (lambda: Objects(masks=1), ConfigError, "Objects.masks = 1: it must be True or False"),
        (lambda: ObjectAugmentation(min_scale=0), ConfigError, "ObjectAugmentation.min_scale = 0: it must be a numb"),
        (lambda: ObjectAugmentation(3.0), ConfigError, "ObjectAugmentation.min_scale 3 is above max_scale 1.2."),
    ],
)
def test_wrong_settings_are_refused(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()
