"""The description that is shown while TensorFlow builds a program and the progress bar is still at 0."""

import re
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from tqdm import tqdm

from mtf_imaging.training import building as module
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.loop import train
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.prediction import network_of_slices, program_slices
from tests import waiting
from tests.training import linear

FIRST = "train: building the first step"


def test_only_the_first_step_shows_that_it_is_built(tmp_path, capsys):
    program, shown = linear.program(SGD(0.1)), []

    def step(**inputs):
        shown.append(capsys.readouterr().err)
        return program(**inputs)

    checkpoints = Checkpoints(tmp_path, program)
    train(program=program, step=step, batches=linear.batches, num_steps=3, checkpoints=checkpoints)
    shown.append(capsys.readouterr().err)
    assert [FIRST in text for text in shown] == [True, False, False, False]
    assert "train: 100%" in shown[-1]
    train(program=program, step=step, batches=linear.batches, num_steps=4, checkpoints=checkpoints, progress=False)
    assert shown[-1] == "", "progress=False shows nothing"


def test_only_the_first_volume_shows_that_the_network_is_built(capsys):
    shown = []

    def program(image):
        shown.append(capsys.readouterr().err)
        return tf.constant(image)

    whole = [(slice(0, 1), slice(0, 2), slice(0, 3))]
    program.regions, program.output_regions, program.call_slices = (lambda name: whole), (lambda: whole), program
    program.streams, program.input_specs = False, {"image": None}
    for progress, expected in ((True, [True, False]), (False, [False, False])):
        shown.clear()
        predict = network_of_slices(program_slices(program, progress))
        for _ in range(2):
            np.testing.assert_array_equal(predict(np.ones((2, 3))), np.ones((2, 3)))
        assert ["building the network" in text for text in shown] == expected


def test_on_a_terminal_the_seconds_count_up_until_it_ends(capsys, monkeypatch):
    monkeypatch.setattr(module, "_EVERY", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    parts = []

    def has_counted():
        parts.append(capsys.readouterr().err)
        return len(re.findall(r"building the network \[00:\d\d\]", "".join(parts))) > 3

    with building("building the network"):
        waiting.wait_until(has_counted, "four lines")
    first = "".join(parts) + capsys.readouterr().err
    assert first.endswith("\r"), "the line disappears"
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_an_error_while_building_propagates_and_restores_the_title():
    with tqdm(total=3, desc="train") as bar:
        with pytest.raises(ValueError, match="no"), building("building the first step", bar):
            raise ValueError("no")
        assert bar.desc.removesuffix(": ") == "train"
