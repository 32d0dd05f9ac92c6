"""Evaluation and prediction say what they can do with the run of a custom data set."""

import json
import re

import pytest

import mtf_imaging as mi
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.kinds.custom import check_input
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.opening import open_subject

FIX = "Fix: export the run, or call mi.training.prediction.predictor(task=..., sizes={}, model_dir='{}')"


class Task:
    """A task whose image has the given dimensions."""

    def __init__(self, shape):
        self.shape = shape

    def inputs(self, batch_size, sizes, dtype="float32", labels=True):
        return {"image": self.shape}

    def loss(self, image):
        raise NotImplementedError

    def predict(self, image):
        raise NotImplementedError


def run_of(folder, **facts):
    (folder / FACTS).write_text(json.dumps(facts))
    return folder


def test_images_with_other_axes_are_refused_before_any_setting(tmp_path):
    run = run_of(tmp_path, resolution="x:64,y:64")
    with pytest.raises(mi.ConfigError) as error:
        open_subject(run, Inference(resolution="1"))
    assert f"{run}: the network was trained on a custom data set, and its input has the axes x, y." in str(error.value)
    assert FIX.format("(64, 64)", run) in str(error.value)


@pytest.mark.parametrize(
    "shape",
    ["batch:1,time:8,height:32,width:32,channels:3", "batch:1,x:8,y:32,z:32,channels:2", "batch:1,x:8,y:32,z:32"],
)
def test_other_volumes_are_refused(tmp_path, shape):
    facts = Facts("arrays", "x:8,y:32,z:32")
    with pytest.raises(mi.ConfigError, match=re.escape(f"its input has the shape 'image' [{shape}].")) as error:
        check_input(Task(shape), tmp_path, facts, (8, 32, 32))
    assert FIX.format("(8, 32, 32)", tmp_path) in str(error.value)


def test_volumes_of_one_channel_are_accepted(tmp_path):
    run = run_of(tmp_path, resolution="x:8,y:32,z:32")
    assert open_subject(run, Inference()).kind == "volumes"
    shape = "batch:1,x:8,y:32,z:32,channels:1"
    check_input(Task(shape), tmp_path, Facts("arrays", "x:8,y:32,z:32"), (8, 32, 32))


def test_runs_on_records_are_not_checked(tmp_path):
    check_input(Task("batch:1,x:8,y:32,z:32,channels:4"), tmp_path, Facts("volumes", "x:8,y:32,z:32"), (8, 32, 32))
