"""The layout "auto": the planner chooses it for the available devices, and the run keeps it."""

import re

import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.engine.layout import ONE_PROCESSOR
from mtf_imaging.engine.meshes import group
from mtf_imaging.jobs.choices.layout import choose_layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.settings.step import Devices
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import TrainingStep
from tests.commands import run
from tests.conftest import NUM_CPUS
from tests.jobs.launched import train_command

STEP = TrainingStep(LiverTumorSegmentation(UNet3D(base_filters=2, depth=1, convs=1)), Adam(), (16, 16, 16))


@pytest.mark.slow
def test_there_is_a_processor_for_each_device():
    layout = choose_layout(STEP, Devices("placement"), group.current())
    assert layout.processors == NUM_CPUS
    assert layout.rules


def test_one_device_needs_no_layout():
    for devices in Devices("stacked"), Devices():  # logical CPUs are used only on request
        assert choose_layout(STEP, devices, group.current()) == ONE_PROCESSOR


def test_what_cannot_be_chosen_is_refused():
    tiny = TrainingStep(STEP.task, Adam(), (2, 2, 1))
    with pytest.raises(mi.ConfigError, match=rf"no layout keeps {NUM_CPUS} devices busy: .*Fix: use fewer devices"):
        choose_layout(tiny, Devices("placement"), group.current())


@pytest.mark.slow
def test_a_run_keeps_its_layout(tmp_path):
    write_phantom(tmp_path / "cases", 2, seed=1)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=tmp_path / "cases", output_dir=tmp_path / "records", **options)
    words = [*train_command(tmp_path, tmp_path / "run", 1)[:-4], "--layout", "auto", "--mesh_impl", "placement"]
    assert run(*words) == 0
    config = (tmp_path / "run/config.gin").read_text()
    assert "setup.layout = 'auto'" not in config
    (layout,) = {*re.findall(r"setup\.layout = '(.+)'", config)}
    assert run("train", "--data_dir", tmp_path / "records", "--model_dir", tmp_path / "run", "--num_steps", 2) == 0
    assert {*re.findall(r"setup\.layout = '(.+)'", (tmp_path / "run/config.gin").read_text())} == {layout}
