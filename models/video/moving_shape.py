"""A moving shape: its position and angle in each frame, and the frames that show it.

The image is a torus: a shape that leaves at one edge enters at the opposite edge. A shape starts at a position and an
angle that are uniformly distributed. A motion adds a constant to them in every frame, modulo the size or a full turn,
so they are uniformly distributed in every frame of every class. A single frame therefore has the same distribution for
all classes, and only several frames reveal the class.
"""

import math

import tensorflow as tf

CLASSES = ("left", "right", "up", "down", "clockwise", "counterclockwise")
# Steps (down, right, turn) of each class. Angles grow from right to down, which is clockwise on the screen.
MOTIONS = ((0, -1, 0), (0, 1, 0), (-1, 0, 0), (1, 0, 0), (0, 0, 1), (0, 0, -1))
NUM_NUMBERS = 16


def poses(numbers, label, sizes):
    """Returns the position and the angle of the shape in each frame.

    Args:
      numbers: float32 [NUM_NUMBERS], uniform random numbers from 0 to 1.
      label: int32 [], index of the class.
      sizes: frames, height and width of the clip.

    Returns:
      float32 [frames, 3]: the position (down, right) in pixels, modulo the size, and the angle in radians, modulo a
      full turn.
    """
    frames, height, width = sizes
    period = tf.constant([height, width, 2 * math.pi], tf.float32)
    speed = (0.03 + 0.05 * numbers[3]) * min(height, width)  # pixels in a frame
    turn = 0.2 + 0.2 * numbers[3]  # radians in a frame; a shape of 3 lobes repeats after 2.1
    step = tf.gather(tf.constant(MOTIONS, tf.float32), label) * tf.stack([speed, speed, turn])
    return tf.math.floormod(numbers[:3] * period + tf.range(frames, dtype=tf.float32)[:, tf.newaxis] * step, period)


def paint(poses, numbers, sizes):
    """Returns frames of a shape with 2 or 3 lobes and stripes, before a plain background.

    Args:
      poses: float32 [frames, 3], as returned by `poses`.
      numbers: float32 [NUM_NUMBERS], uniform random numbers from 0 to 1. Numbers 4 to 15 give the size, the lobes, the
        stripes and the colors.
      sizes: frames, height and width of the clip.

    Returns:
      float32 [frames, height, width, 3]. Each frame depends only on its pose and on the numbers. Values are from 0 to
      1.
    """
    _, height, width = sizes
    down = _offsets(height, poses[:, 0])[:, :, tf.newaxis]
    right = _offsets(width, poses[:, 1])[:, tf.newaxis, :]
    radius = (0.15 + 0.1 * numbers[4]) * min(height, width)
    lobes = 2 + tf.floor(2 * numbers[5])
    angle = poses[:, 2, tf.newaxis, tf.newaxis]
    edge = radius * (1 + (0.3 + 0.3 * numbers[6]) * tf.cos(lobes * (tf.atan2(down, right) - angle)))
    inside = tf.clip_by_value(edge - tf.sqrt(down**2 + right**2) + 0.5, 0, 1)[..., tf.newaxis]  # smooth over a pixel
    along = right * tf.cos(angle) + down * tf.sin(angle)  # coordinate that turns with the shape
    waves = 0.5 + 0.5 * tf.sin(2 * math.pi * (along / (radius * (0.7 + 0.6 * numbers[7])) + numbers[8]))
    background = numbers[10:13]
    color = tf.math.floormod(background + 0.35 + 0.3 * numbers[13:16], 1)  # differs from the background by 0.35 or more
    shape = color * (1 - 0.6 * numbers[9] * waves[..., tf.newaxis])
    return background + inside * (shape - background)


def _offsets(size, center):
    """Returns the offsets of pixels from the nearest copy of each center on a circle: float32 [frames, size]."""
    offsets = tf.range(size, dtype=tf.float32) - center[:, tf.newaxis]
    return tf.math.floormod(offsets + size / 2, float(size)) - size / 2
