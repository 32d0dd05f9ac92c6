"""TensorBoard shows each number of losses.csv once, however often the run is killed."""

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mtf_imaging.training.observers.event_file import EventFile
from mtf_imaging.training.observers.events import TrainingEvents
from mtf_imaging.training.observers.step_table import LossLog
from mtf_imaging.training.optimizers import Adam, StepDecay
from tests.scores import read_rows
from tests.training import linear
from tests.training.linear import Killed, killed_at


def read(folder):
    """Returns the scalars that TensorBoard shows: {tag: [(step, value)]}."""
    events = open_events(folder)
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def read_texts(folder, tag):
    tensors = open_events(folder).Tensors(tag)
    return [(event.step, tf.make_ndarray(event.tensor_proto).item().decode()) for event in tensors]


def open_events(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    return events


def run(folder, num_steps, batches=linear.batches):
    optimizer = Adam(StepDecay(0.05, 0.5, every=4))
    texts = {"layout": "- layout `x:rows`", "config": "```\na = 1\n```"}
    events = TrainingEvents(folder / "train", learning_rate=optimizer.learning_rate, batch_size=2, texts=texts)
    observers = [LossLog(folder / "losses.csv"), events]
    linear.run(folder, num_steps, linear.program(optimizer), lambda _: observers, batches)


def check_equal_to_losses(folder, num_steps):
    shown = read(folder / "train")
    rows = read_rows(folder / "losses.csv")
    for name in ("loss", "error"):
        assert shown[name] == [(int(row["step"]), np.float32(row[name])) for row in rows]
    assert [step for step, _ in shown["loss"]] == list(range(num_steps))
    rates = [np.float32(0.05 * 0.5 ** (step // 4)) for step in range(num_steps)]
    assert [value for _, value in shown["learning_rate"]] == rates
    assert [step for step, _ in shown["volumes_per_second"]] == list(range(num_steps))
    assert all(0 < share < 1 for _, share in shown["data_wait"])


def test_scalars_equal_the_losses_of_a_killed_run(tmp_path):
    for step in (2, 5, 8):
        with pytest.raises(Killed):
            run(tmp_path, 10, killed_at(step))
    lost = read(tmp_path / "train")
    assert lost["loss"][-1][0] == 7
    run(tmp_path, 10)  # it resumes from step 6, so the earlier events of steps 6 and 7 disappear
    check_equal_to_losses(tmp_path, 10)
    assert read_texts(tmp_path / "train", "layout")[-1] == (6, "- layout `x:rows`")
    run(tmp_path, 10)  # no steps are left, so nothing is written
    assert len(list((tmp_path / "train").iterdir())) == 4


def test_speed_counts_only_the_time_of_steps(tmp_path):
    events = TrainingEvents(tmp_path, learning_rate=lambda step: 0.5, batch_size=3)
    events.begin(0)
    events.after(0, {"loss": np.float32(1)}, [], seconds=0.5, waited=0.25)
    events.close()
    shown = read(tmp_path)
    assert (shown["volumes_per_second"], shown["data_wait"]) == ([(0, 6.0)], [(0, 0.25)])


def test_events_can_be_read_during_the_run(tmp_path):
    file = EventFile(tmp_path / "folder", 0)
    assert not (tmp_path / "folder").exists()
    file.scalars(3, {"loss": 0.25})
    assert read(tmp_path / "folder")["loss"] == [(3, 0.25)]
    file.close()


def test_pictures_and_texts(tmp_path):
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    file = EventFile(tmp_path, 0)
    file.picture(7, "case 1", pixels)
    file.text(7, "layout", "`x:rows`")
    file.close()
    (image,) = open_events(tmp_path).Images("case 1")
    assert (image.step, image.width, image.height) == (7, 5, 4)
    np.testing.assert_array_equal(tf.io.decode_png(image.encoded_image_string), pixels)
    assert read_texts(tmp_path, "layout") == [(7, "`x:rows`")]
