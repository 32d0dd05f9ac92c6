"""Masks of objects: run lengths as of pycocotools, crops to boxes, and pasting."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask
from scipy import ndimage

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.masks import crop_mask, decode_mask, encode_mask, paste_mask, run_lengths


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from([0, 0.03, 0.5, 1]), st.integers(0, 99))
def test_encoding_is_that_of_pycocotools(height, width, density, seed):
    mask = np.random.default_rng(seed).random((height, width)) < density
    encoded = encode_mask(mask)
    assert encoded["size"] == [height, width]
    np.testing.assert_array_equal(coco_mask.decode(encoded), mask)
    np.testing.assert_array_equal(decode_mask(encoded, height, width), mask)
    column = mask.T.ravel()
    ends = np.flatnonzero(np.diff(np.r_[False, column, not column[-1]].astype(int)))
    uncompressed = {"size": [height, width], "counts": np.diff(np.r_[0, ends]).tolist()}
    np.testing.assert_array_equal(decode_mask(uncompressed, height, width), mask)
    assert run_lengths(uncompressed, height, width) == run_lengths(encoded, height, width) == encoded


def test_polygons_are_decoded_as_by_pycocotools():
    rng = np.random.default_rng(3)
    for _ in range(30):
        polygons = [rng.uniform(-5, 45, 2 * rng.integers(3, 9)) for _ in range(rng.integers(1, 4))]
        encoded = coco_mask.merge(coco_mask.frPyObjects([one.tolist() for one in polygons], 30, 40))
        np.testing.assert_array_equal(decode_mask(tuple(polygons), 30, 40), coco_mask.decode(encoded))
        assert run_lengths(tuple(polygons), 30, 40)["counts"] == encoded["counts"].decode()


@pytest.mark.parametrize("counts", ["", "4", "99", "PPPP0", "0o0", [3, 4]])
def test_invalid_encodings_are_refused(counts):
    segmentation = {"size": [4, 5], "counts": counts}
    for function in (decode_mask, run_lengths):
        with pytest.raises(DataError, match=r"pixels of the size \[4, 5\] .* does not fit an image of 4 x 5 pixels"):
            function(segmentation, 4, 5)
    valid = encode_mask(np.ones((4, 5)))
    with pytest.raises(
        DataError, match=re.escape("20 pixels of the size [4, 5] (height, width) does not fit an image")
    ):
        decode_mask(valid, 5, 4)


@pytest.mark.parametrize("box", [(2, 3, 9, 12), (1.3, 0.2, 8.9, 5.5), (4, 4, 5, 5), (0, 0, 13, 17), (-2, -3, 4, 30)])
def test_crops_interpolate_at_the_centers_of_bins(box):
    """tf.image.crop_and_resize samples between the centers of the first and last pixel, so it gets these centers."""
    mask = np.random.default_rng(1).random((13, 17)) < 0.5
    size, (y0, x0, y1, x1) = 6, box
    centers = [low + (np.array([0.5, size - 0.5]) / size) * (high - low) - 0.5 for low, high in ((y0, y1), (x0, x1))]
    (top, bottom), (left, right) = centers
    padded = np.pad(mask, 20, "edge").astype(np.float32)[None, ..., None]
    ends = np.array([[top, left, bottom, right]]) + 20
    scaled = ends / (np.array([13, 17, 13, 17]) + 39)
    expected = tf.image.crop_and_resize(padded, scaled.astype(np.float32), [0], [size, size])[0, ..., 0]
    np.testing.assert_allclose(crop_mask(mask, box, size), expected, atol=2e-4)


def test_whole_pixels_are_copied():
    mask = np.random.default_rng(2).random((10, 12)) < 0.5
    np.testing.assert_array_equal(crop_mask(mask, (2, 3, 9, 10), 7), mask[2:9, 3:10])
    pasted = paste_mask(mask[2:9, 3:10].astype(np.float32), (2, 3, 9, 10), 10, 12)
    np.testing.assert_array_equal(pasted[2:9, 3:10], mask[2:9, 3:10])
    assert pasted.sum() == mask[2:9, 3:10].sum()


def test_pasting_inverts_cropping():
    """A smooth shape is almost the same after both."""
    rows, columns = np.mgrid[:60, :80]
    for center, radius in (((25, 30), 18), ((40, 70), 15), ((2, 3), 20)):
        disc = np.hypot(rows - center[0], columns - center[1]) < radius
        inside = np.argwhere(disc)
        y0, x0, y1, x1 = *inside.min(0), *(inside.max(0) + 1)
        pasted = paste_mask(crop_mask(disc, (y0, x0, y1, x1), 28), (y0, x0, y1, x1), 60, 80)
        assert (pasted & disc).sum() / (pasted | disc).sum() > 0.97


def grid_sample(probabilities, box, height, width):
    """Returns torch's `grid_sample` with `align_corners=False` and zeros outside, written as a sum over all bins."""
    y0, x0, y1, x1 = box
    weights = []
    for low, high, length, count in ((y0, y1, height, probabilities.shape[0]), (x0, x1, width, probabilities.shape[1])):
        normalized = (np.arange(length) + 0.5 - low) / (high - low) * 2 - 1
        position = ((normalized + 1) * count - 1) / 2
        weights.append(np.maximum(0, 1 - np.abs(position[:, None] - np.arange(count))))
    return weights[0] @ probabilities @ weights[1].T


def iou(one, other):
    return (one & other).sum() / (one | other).sum()


BOXES = [(2, 1, 10, 19), (2.3, 1.7, 5.1, 5.9), (-3.2, 4.4, 8.1, 30.5), (0.4, 0.3, 11.6, 2.9), (5.5, 5.5, 7.1, 21.3)]


@pytest.mark.parametrize("box", BOXES, ids=str)
@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_pasted_masks_are_those_of_a_grid_sample_with_zeros_outside(box, threshold):
    for seed in range(5):
        probabilities = np.random.default_rng(seed).random((5, 6))
        values = grid_sample(probabilities, box, 12, 24)
        clear = np.abs(values - threshold) > 1e-6
        pasted = paste_mask(probabilities, box, 12, 24, threshold)
        np.testing.assert_array_equal(pasted[clear], (values >= threshold)[clear])
        assert clear.mean() > 0.98


def test_pasting_agrees_with_the_references_over_boxes_of_mixed_size():
    """SciPy interpolates the masks, with zeros outside; masks without zeros outside are larger at the border."""
    rng = np.random.default_rng(0)
    with_zeros, with_borders = [], []
    for _ in range(60):
        bins = 28
        probabilities = 1 / (1 + np.exp(-ndimage.gaussian_filter(rng.normal(size=(bins, bins)), 4) * 60 - 1))
        y0, x0 = rng.uniform(0, 40, 2)
        height, width = np.exp(rng.uniform(np.log(3), np.log(60), 2))
        pasted = paste_mask(probabilities, (y0, x0, y0 + height, x0 + width), 100, 100)
        centers = np.mgrid[:100, :100] + 0.5
        places = [(c - low) / extent * bins - 0.5 for c, low, extent in zip(centers, (y0, x0), (height, width))]
        padded = np.pad(probabilities, 1)  # "constant" of SciPy does not interpolate beyond the outermost values
        zeros = ndimage.map_coordinates(padded, [p + 1 for p in places], order=1, mode="constant") >= 0.5
        borders = ndimage.map_coordinates(probabilities, places, order=1, mode="nearest") >= 0.5
        borders &= (centers[0] > y0) & (centers[0] < y0 + height) & (centers[1] > x0) & (centers[1] < x0 + width)
        if zeros.any():
            with_zeros.append(iou(pasted, zeros))
            with_borders.append(iou(pasted, borders))
    assert len(with_zeros) > 50
    assert min(with_zeros) > 0.999
    assert min(with_borders) < 0.98


def test_small_boxes_lose_no_objects():
    """A box of one pixel around its center holds it, as in Detectron2."""
    for box in ((3, 4, 4, 5), (3.2, 4.2, 3.8, 4.8)):
        np.testing.assert_array_equal(np.argwhere(paste_mask(np.ones((28, 28)), box, 8, 9)), [[3, 4]])


@pytest.mark.parametrize("size", [(8, 18), (3, 4)])
def test_the_middle_of_pasted_masks_is_scaled_as_by_tensorflow(size):
    """TensorFlow repeats the borders, which change the outer half of the outermost bins only."""
    probabilities = np.random.default_rng(4).random((5, 6), np.float32)
    pasted = paste_mask(probabilities, (2, 1, 2 + size[0], 1 + size[1]), 12, 20)
    resized = tf.image.resize(probabilities[..., None], size)[..., 0].numpy() >= 0.5
    rows, columns = (slice(-(-n // (2 * c)), n - -(-n // (2 * c))) for n, c in zip(size, (5, 6)))
    np.testing.assert_array_equal(pasted[2 : 2 + size[0], 1 : 1 + size[1]][rows, columns], resized[rows, columns])


def test_pasting_outside_of_the_image():
    ones = np.ones((4, 4), np.float32)
    assert not paste_mask(ones, (-9, 2, -1, 6), 10, 10).any()
    assert not paste_mask(ones, (3.6, 2, 4.4, 6), 10, 10).any()  # no center of a pixel is inside
    assert not paste_mask(ones, (3, 2, 3, 6), 10, 10).any()
    assert not paste_mask(ones, (4, 2, 3, 6), 10, 10).any()
    np.testing.assert_array_equal(
        np.argwhere(paste_mask(ones, (-9, 8.2, 1.4, 40), 10, 10)), [[0, 9]]
    )  # a corner is round
    assert paste_mask(0.4 * ones, (2, 2, 6, 6), 10, 10, threshold=0.4).sum() == 16
