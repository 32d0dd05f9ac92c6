"""Whole photos padded to the sizes of a few programs."""

from dataclasses import replace

import numpy as np
import pytest

from mtf_imaging.errors import ShapeError
from mtf_imaging.kinds.photos.description import VOC
from mtf_imaging.kinds.photos.resize import pad_photo, padded_size


def test_small_photos_have_the_size_of_the_crop():
    assert padded_size(375, 500, (513, 513), 16) == (513, 513)
    assert padded_size(513, 513, (513, 513), 16) == (513, 513)
    assert padded_size(514, 100, (513, 513), 16) == (528, 513)
    assert padded_size(1024, 2048, (513, 513), 16) == (1024, 2048)
    sizes = {padded_size(height, width, (64, 96), 32) for height in range(1, 130) for width in range(1, 130)}
    assert sizes == {(height, width) for height in (64, 96, 128, 160) for width in (96, 128, 160)}
    with pytest.raises(ShapeError, match="multiple 0: must be at least 1"):
        padded_size(3, 4, (5, 5), 0)


@pytest.mark.parametrize("scaling", ["unit", "mean"])
def test_padding_is_zero_after_scaling(scaling):
    description = replace(VOC, scaling=scaling)
    photo = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    padded = description.scale(pad_photo(photo, (7, 8), description))
    assert (padded.shape, padded.dtype) == ((7, 8, 3), np.float32)
    np.testing.assert_array_equal(padded[:4, :6], description.scale(photo))
    assert (padded[4:] == 0).all()
    assert (padded[:, 6:] == 0).all()


@pytest.mark.parametrize("shape", [(8, 8, 3), (4, 4, 1), (4, 4)])
def test_photos_that_cannot_be_padded(shape):
    with pytest.raises(ShapeError, match=r"cannot be padded to 7 x 8 pixels with 3 channels"):
        pad_photo(np.zeros(shape, np.uint8), (7, 8), VOC)
