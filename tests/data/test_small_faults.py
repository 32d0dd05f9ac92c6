"""Small cases of data that only one fault of the code breaks; `tests/mutants` lists these faults."""

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.intensity import apply_gamma


def test_gamma_brightens_as_often_as_it_darkens():
    image = tf.fill([1, 1, 1, 1], 0.5)
    values = [float(apply_gamma(image, 1.0, Draws(0, number))[0, 0, 0, 0]) for number in range(40)]
    assert 10 < sum(value > 0.5 for value in values) < 30
