"""The animation of halos on the page about them is what its program draws."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageSequence

from benchmarks import halo_animation

STORED = Path(__file__).parents[2] / "docs/pictures/halos.gif"


def test_the_stored_animation_is_that_of_the_program():
    with Image.open(STORED) as file:
        stored = [np.asarray(frame.convert("RGB"), float) for frame in ImageSequence.Iterator(file)]
    drawn = halo_animation.frames()
    assert len(drawn) == len(stored) == 12
    for own, kept in zip(drawn, stored, strict=True):
        assert np.abs(np.asarray(own, float) - kept).mean() < 3, "a GIF has 256 colors"


def test_a_halo_on_its_way_is_between_the_slices():
    scene = halo_animation.SCENES[2]
    (_, halo) = halo_animation.regions(scene, 0, 0)
    (rows, cols, down, right, _) = halo
    assert (rows, cols, right) == (slice(6, 7), slice(0, 6), 0)
    assert 0 < down < scene.apart
