"""Detections over flips and scales of an image, merged by non-maximum suppression."""

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.infer import ObjectInference
from mtf_imaging.kinds.objects.merging import Candidates, merge
from mtf_imaging.kinds.objects.reading.masks import decode_mask
from mtf_imaging.kinds.output import scaled_size
from tests.kinds.loops import detect_one
from tests.kinds.object_scenes import TWO
from tests.kinds.test_objects_orientation import box_of, scene

SIZE = (40, 56)
COMBINATIONS = [((1.0,), ("width",)), ((1.0,), ("height", "width")), ((0.5, 1.0, 2.0), ()), ((0.5, 1.0), ("width",))]


def candidates(seed, count, masks=True):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-5, 30, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 25, (count, 2))], 1)
    scores = np.sort(rng.integers(1, 9, count) / 10)[::-1]  # with ties
    return Candidates(boxes, scores, rng.integers(0, 2, count), rng.random((count, 4, 4)) if masks else None)


@pytest.mark.parametrize("seed", range(6))
def test_merging_is_the_suppression_of_tensorflow_for_each_class(seed):
    runs, size = [candidates(3 * seed + number, 20) for number in range(3)], (36, 40)
    merged = merge(runs, size, 0.5, 25)
    every = Candidates(*(np.concatenate(parts) for parts in zip(*runs, strict=True)))
    inside = np.clip(every.boxes, 0, [36, 40, 36, 40])
    kept = []
    for one in (0, 1):
        (own,) = np.nonzero(every.classes == one)
        kept += own[tf.image.non_max_suppression(inside[own], every.scores[own], 60, 0.5).numpy()].tolist()
    kept = sorted(kept, key=lambda at: (-every.scores[at], at))[:25]
    assert len(kept) == 25 or len(merged.scores) == len(kept)
    for found, expected in zip(merged, every.take(np.array(kept)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_one_run_stays_as_it_is_and_masks_are_optional():
    one = candidates(0, 9)
    assert merge([one], (36, 40), 0.5, 2) is one
    twice = merge([candidates(0, 9, masks=False)] * 2, (36, 40), 0.9, 9)
    assert twice.masks is None
    empty = candidates(0, 0)
    assert merge([empty, empty], (36, 40), 0.5, 9).masks.shape == (0, 4, 4)


def test_boxes_without_area_are_kept_without_warnings():
    flat = Candidates(np.array([[3.0, 3, 3, 9]] * 2), np.array([0.9, 0.8]), np.array([0, 0]), None)
    assert merge([flat, flat], (36, 40), 0.5, 9).scores.tolist() == [0.9, 0.9, 0.8, 0.8]


def detector(calls, scores):
    """Returns a network that finds bright pixels, with the next score, and pads its detections to 3."""

    def predict(image):
        calls.append(image.shape[:2])
        bright = image.mean(-1) > 0.9
        y0, x0, y1, x1 = box_of(bright)
        boxes = np.array([[0, 0, 1, 1], [y0, x0, y1, x1], [0, 0, 0, 0]], np.float64)
        mask = tf.image.resize(bright[y0:y1, x0:x1, None].astype(np.float32), (24, 24), "nearest").numpy()[..., 0]
        masks = np.stack([np.zeros((24, 24)), mask, np.zeros((24, 24))])
        values = {"scores": np.array([0, next(scores), 0]), "classes": np.array([0, 1, -1])}
        return {"boxes": boxes, "masks": masks, **values}

    return predict


@pytest.mark.parametrize(("scales", "flips"), COMBINATIONS, ids=str)
def test_every_run_finds_the_object_at_its_place(scales, flips):
    """Only one run sees the object at a time, and its box and its mask are those of the image."""
    pixels, mask = scene()
    number = len(scales) * 2 ** len(flips)
    for chosen in range(number):
        calls, scores = [], iter([0.75 if run == chosen else 0.0 for run in range(number)])
        found = detect_one(pixels, detector(calls, scores), TWO, SIZE, scales=scales, flips=flips)
        sizes = [scaled_size(SIZE, scale) for scale in scales]
        assert calls == [size for size in sizes for _ in range(2 ** len(flips))]
        assert (found.scores.tolist(), found.classes.tolist()) == ([0.75], [1])
        np.testing.assert_allclose(found.boxes, [box_of(mask)], atol=1)
        own = decode_mask(found.masks[0], *mask.shape)
        assert (own & mask).sum() / (own | mask).sum() > 0.75


@pytest.mark.parametrize(("scales", "flips"), COMBINATIONS, ids=str)
def test_detections_of_all_runs_are_merged(scales, flips):
    pixels, _ = scene()
    scores = iter([0.5, 0.9, 0.7, 0.7])
    found = detect_one(pixels, detector([], scores), TWO, SIZE, scales=scales, flips=flips)
    assert found.scores.tolist() == [0.9], "all runs found the same object, the second one with the highest score"


def test_detections_without_flips_and_scales_stay_as_they_are():
    """The suppression of the network itself is not repeated."""

    def network(image):
        boxes = np.array([[2, 2, 12, 12], [2, 2, 12, 13]])
        return {"boxes": boxes, "scores": np.array([0.9, 0.8]), "classes": np.array([0, 0])}

    pixels, _ = scene()
    assert len(detect_one(pixels, network, TWO, SIZE)) == 2
    assert len(detect_one(pixels, network, TWO, SIZE, scales=(1.0, 1.0))) == 1
    assert len(detect_one(pixels, network, TWO, SIZE, scales=(1.0, 1.0), threshold=0.95)) == 2
    assert len(detect_one(pixels, network, TWO, SIZE, flips=("width",))) == 2, "at most as many as the network"


def test_images_of_a_batch_are_independent():
    """Images of several sizes get what they get one by one, and the network sees each batch once per run."""
    pixels, _ = scene()
    images, calls = [pixels, pixels[:, ::-1], pixels[2:, 1:]], []
    options = {"scales": (0.5, 1.0), "flips": ("width",)}

    def network(image):
        return detector([], iter([round(float(image.mean()) % 1, 3)]))(image)

    def batch(stacked):
        calls.append(stacked.shape)
        return [network(image) for image in stacked]

    found = ObjectInference(TWO, SIZE, **options).predict(images, batch)
    assert calls == [(3, 20, 28, 3)] * 2 + [(3, 40, 56, 3)] * 2
    for own, image in zip(found, images, strict=True):
        alone = detect_one(image, network, TWO, SIZE, **options)
        np.testing.assert_array_equal(own.boxes, alone.boxes)
        np.testing.assert_array_equal(own.scores, alone.scores)
        assert own.masks == alone.masks


def test_errors_name_the_image_of_a_batch():
    def batch(stacked):
        results = [detector([], iter([0.5]))(image) for image in stacked]
        results[1]["boxes"] = np.full((3, 4), np.nan)
        return results

    pixels, _ = scene()
    with pytest.raises(DataError, match=r"^b\.png: the network returned NaN or infinity in boxes\. Fix: lower"):
        ObjectInference(TWO, SIZE).predict([pixels] * 2, batch, ["a.png", "b.png"])
