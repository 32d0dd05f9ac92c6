"""A killed process loses nothing: the resumed run ends with the weights of an uninterrupted run."""

import random
import time

import numpy as np
import pytest
import tensorflow as tf

from tests import forked, waiting

KILLS = 10
TINY_UNET = [
    *("--gin_file", "unet3d_demo", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=1", "--gin.UNet3D.convs=1"),
    "--gin.UNet3D.dropout_rate=0.5",
    *("--mesh_shape", "rows:2,cols:2", "--layout", "x:rows,y:cols", "--gin.train.checkpoint_every=3"),
]


def rows(folder):
    path = folder / "losses.csv"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


class Moments:
    """Random moments at which to kill a run, each a pair (kind, number) that the seed determines.

    "build": after a fraction of the time that the uninterrupted run needed for its first step, but no later than the
    first step. "step": a number of steps plus a delay. "save": a delay after the run begins to write a checkpoint.
    """

    def __init__(self, seed, number):
        draw = random.Random(seed)
        kinds = ["build", "save", "step", "save"]
        self.all = [(kinds[i % 4], draw.random()) for i in range(number)]
        draw.shuffle(self.all)
        print(f"seed {seed}: {self.all}")

    @staticmethod
    def wait(process, folder, kind, number, build_seconds):
        """Waits for the moment or for the end of the process."""
        began, before = time.monotonic(), rows(folder)

        def is_there():
            if kind == "build":
                return time.monotonic() - began > number * build_seconds or rows(folder) > before
            if kind == "step":
                return rows(folder) > before + 8 * number
            return any(folder.glob("ckpt-*_temp"))

        log = folder / "losses.csv"
        waiting.wait_until(
            lambda: is_there() or not process.is_alive(), kind, [process], [log], every=0.0005, may_end=True
        )
        if kind != "build":
            time.sleep(0.02 * number)


def train_whole(folder, *command):
    """Trains to the end; returns the seconds until the first step."""
    began = time.monotonic()
    process = forked.start(*command)
    try:
        waiting.wait_until(lambda: rows(folder), "the first step", [process], every=0.005)
        build_seconds = time.monotonic() - began
        assert waiting.wait_for_end(process, logs=[folder / "losses.csv"]) == 0
    finally:
        forked.end(process)
    return build_seconds


def train_with_kills(folder, moments, build_seconds, *command):
    """Trains to the end; kills and restarts the run at each moment."""
    for kind, number in moments.all:
        process = forked.start(*command)
        Moments.wait(process, folder, kind, number, build_seconds)
        process.kill()
        process.join()
        assert process.exitcode == -9, f"it ended with {process.exitcode} before it was killed"
    forked.run(*command)


def variables(folder):
    """Returns the variables of the last checkpoint by key."""
    reader = tf.train.load_checkpoint(str(folder))
    names = [name for name in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name]
    assert len(names) > 3
    return {name: reader.get_tensor(name) for name in names}


def assert_same_run(first, second):
    """Checks that two runs have equal losses, equal weights and the same file names."""
    assert (first / "losses.csv").read_bytes() == (second / "losses.csv").read_bytes()
    one, two = variables(first), variables(second)
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
    assert sorted(path.name for path in first.iterdir()) == sorted(path.name for path in second.iterdir())


@pytest.mark.slow
def test_a_run_killed_at_random_moments_equals_an_uninterrupted_run(tmp_path):
    command, num_steps = "tests.training.linear_run", 300
    build_seconds = train_whole(tmp_path / "whole", command, tmp_path / "whole", num_steps)
    moments = Moments(2, KILLS)
    train_with_kills(tmp_path / "killed", moments, build_seconds, command, tmp_path / "killed", num_steps)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
def test_a_command_killed_at_random_moments_equals_an_uninterrupted_run(tmp_path):
    command = "mtf_imaging.cli.main"
    forked.run(command, "phantom", "--output_dir", tmp_path / "cases", "--num_cases", 2)
    convert = ["convert", "--input_dir", tmp_path / "cases", "--output_dir", tmp_path / "records", "--resolution", 16]
    forked.run(command, *convert, "--workers", 1)
    train = [command, "train", "--data_dir", tmp_path / "records", *TINY_UNET, "--num_steps", 60, "--model_dir"]
    build_seconds = train_whole(tmp_path / "whole", *train, tmp_path / "whole")
    train_with_kills(tmp_path / "killed", Moments(3, 3), build_seconds, *train, tmp_path / "killed")
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
