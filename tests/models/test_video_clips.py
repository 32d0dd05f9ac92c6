"""The class of a generated clip is the motion, which a single frame does not show."""

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.models.video import GeneratedClips, moving_shape

SIZES = (6, 20, 16)
LABELS = range(len(moving_shape.CLASSES))


def draw_numbers(seed):
    numbers = np.random.default_rng(seed).uniform(size=moving_shape.NUM_NUMBERS)
    return tf.constant(numbers, tf.float32)


def take(count, batch_size, start_step=0, seed=3, sizes=SIZES, noise=0.1):
    batches = GeneratedClips(*sizes, noise=noise).batches(
        None, batch_size=batch_size, sizes=sizes, seed=seed, start_step=start_step
    )
    items = [next(batches) for _ in range(count)]
    return [np.concatenate([item[name] for item in items]) for name in ("image", "labels", "cases")]


@pytest.mark.slow
def test_clips_do_not_depend_on_the_batch_size():
    want = take(1, 24)
    assert want[0].shape == (24, *SIZES, 3)
    assert want[0].dtype == np.float32
    assert set(want[1]) == set(LABELS)
    assert list(want[2]) == [f"{i}-{moving_shape.CLASSES[label]}" for i, label in enumerate(want[1])]
    for got in (take(3, 8), take(2, 12)):
        for values, expected in zip(got, want):
            np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(take(1, 8, start_step=2)[0], want[0][16:])
    assert not np.array_equal(take(1, 24, seed=4)[1], want[1])
    assert len({clip.tobytes() for clip in want[0]}) == 24
    assert len({frame.tobytes() for clip in want[0] for frame in clip}) == 24 * SIZES[0]  # noise of its own


@pytest.mark.slow
def test_all_classes_are_equally_frequent():
    counts = np.bincount(take(1, 1200, sizes=(2, 16, 16))[1], minlength=len(LABELS))
    assert np.all(np.abs(counts - 200) < 4 * np.sqrt(200 * 5 / 6))  # 4 standard deviations


@pytest.mark.parametrize("label", LABELS, ids=moving_shape.CLASSES)
def test_the_class_is_the_motion(label):
    poses = moving_shape.poses(draw_numbers(label), label, SIZES).numpy()
    period = np.array([*SIZES[1:], 2 * np.pi])
    steps = np.diff(poses, axis=0)
    steps -= period * np.round(steps / period)  # the shortest way around the torus
    np.testing.assert_allclose(steps, np.tile(steps[0], (SIZES[0] - 1, 1)), atol=1e-5)
    np.testing.assert_array_equal(np.sign(np.round(steps[0], 5)), moving_shape.MOTIONS[label])


def test_frames_show_the_motion():
    """A shape that moves by whole pixels is rolled, and a shape of 2 lobes that makes a quarter turn is rotated."""
    numbers = draw_numbers(0).numpy()
    numbers[5] = 0  # 2 lobes
    sizes = (2, 20, 20)
    poses = np.float32([[9, 9, 0.3], [6, 13, 0.3]])
    first, second = moving_shape.paint(tf.constant(poses), tf.constant(numbers), sizes).numpy()
    np.testing.assert_allclose(np.roll(first, (-3, 4), (0, 1)), second, atol=1e-4)
    poses = np.float32([[10, 10, 0.3], [10, 10, 0.3 + np.pi / 2]])
    first, second = moving_shape.paint(tf.constant(poses), tf.constant(numbers), sizes).numpy()
    # Pixel 10 is the center, so row and column 0 have no counterpart.
    np.testing.assert_allclose(np.rot90(first[1:, 1:], -1), second[1:, 1:], atol=1e-4)  # -1: clockwise
    assert np.abs(first - second).max() > 0.1


def test_the_first_frame_is_the_same_for_all_classes():
    numbers = draw_numbers(1)
    clips = [moving_shape.paint(moving_shape.poses(numbers, label, SIZES), numbers, SIZES).numpy() for label in LABELS]
    for clip in clips[1:]:
        np.testing.assert_array_equal(clip[0], clips[0][0])
        assert np.abs(clip[1] - clips[0][1]).max() > 0.05


@pytest.mark.parametrize("label", LABELS, ids=moving_shape.CLASSES)
def test_a_single_frame_does_not_tell_the_class(label):
    """Frame t of a class is the first frame, of any class, of the same numbers with another start.

    The map from start to start is a shift modulo the size or a full turn. Such a shift keeps the uniform distribution
    of the start, and it changes neither the numbers for the appearance nor the noise, which are independent of the
    label. So the distribution of frame t is the distribution of the first frame, for every class.
    """
    numbers, frame = draw_numbers(2), SIZES[0] - 1
    poses = moving_shape.poses(numbers, label, SIZES)
    clip = moving_shape.paint(poses, numbers, SIZES)
    period = np.float32([*SIZES[1:], 2 * np.pi])
    start = poses[frame].numpy() / period
    assert np.all((start >= 0) & (start < 1))
    other = tf.concat([start, numbers[3:]], 0)
    for other_label in LABELS:
        same = moving_shape.paint(moving_shape.poses(other, other_label, SIZES), other, SIZES)
        np.testing.assert_allclose(same[0], clip[frame], atol=1e-4)
    # The shift does not depend on the start, so it keeps volumes.
    moved = tf.concat([[0.9, 0.2, 0.6], numbers[3:]], 0)
    shifts = [moving_shape.poses(n, label, SIZES)[frame].numpy() / period - n[:3].numpy() for n in (numbers, moved)]
    np.testing.assert_allclose((shifts[1] - shifts[0] + 0.5) % 1, 0.5, atol=1e-5)
