"""The layout "auto": the planner chooses it for the available devices, and the run keeps it."""

import dataclasses
import re

import pytest

import mtf_imaging as mi
from mtf_imaging.cli.runtime.search_report import ranking_text
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.engine.meshes import group
from mtf_imaging.engine.turns import store
from mtf_imaging.jobs import searching
from mtf_imaging.jobs.choices.layout import choose_layout
from mtf_imaging.jobs.searching import PlannedDevices, search_step
from mtf_imaging.jobs.steps.costs import explain_step
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.cost.hardware import HARDWARE
from mtf_imaging.planner.render.search_table import search_table
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


@pytest.fixture
def devices(monkeypatch):
    """Returns a function (bytes of memory, number) -> devices; all values of turns wait in files."""
    monkeypatch.setattr(store, "IN_MEMORY", 0)
    return lambda memory, number=1: PlannedDevices(number, HARDWARE["l4"], memory)


def test_if_nothing_fits_processors_take_as_few_turns_as_possible(devices):
    step = STEP.resized((64, 16, 16))
    needed = {n: explain_step(step, Layout.parse(f"slabs:{n}", "x:slabs", "slabs")).plan.memory for n in (4, 8, 16)}
    at_once = explain_step(step, ONE_PROCESSOR).plan.memory
    assert needed[16] < needed[8] < needed[4] < at_once
    searched = search_step(step, devices(needed[8]), progress=False)
    best = searched.best
    assert str(best.layout) == "x:slabs on slabs:8, slabs in turns"
    assert (best.plan.memory, best.plan.devices) == (needed[8], 1)
    assert best.time.offload * 6e9 == pytest.approx(best.plan.turns.written + best.plan.turns.read)
    table = ranking_text(searched, step, devices(needed[8]), 3)
    assert re.search(r"1 +slabs:8 +x:slabs in turns .* fits in 8 turns; [\d.]+ .iB wait\n", table)
    assert table.endswith("--mesh_shape slabs:8 --layout x:slabs --sequential slabs")
    assert search_step(step, devices(needed[8]), progress=False, may_take_turns=False).best is None


def test_turns_that_do_not_fit_are_not_proposed(devices, monkeypatch, tmp_path):
    step = STEP.resized((16, 16, 16))
    plan = explain_step(step, ONE_PROCESSOR).plan
    kept, a_little = plan.weights + plan.state, plan.weights + plan.state + 1000
    assert not any(layout.sequential for layout in search_step(step, devices(kept - 1), progress=False).skipped)
    table = search_table(search_step(step, devices(a_little), progress=False))
    assert re.search(r"skipped: x:slabs on slabs:\d, slabs in turns\. even a turn needs [\d.]+ .iB", table)
    monkeypatch.setattr(searching, "free_space", lambda folder: 1000)
    searched = search_step(step, devices(a_little)._replace(offload_dir=str(tmp_path)), progress=False)
    assert searched.best is None
    assert re.search(
        r"\. turns store [\d.]+ .iB, but 1,000 bytes are free; another offload_dir may", search_table(searched)
    )
    several = devices(a_little, 2)._replace(num_hosts=2)
    assert any(layout.sequential for layout in search_step(step, several, progress=False).skipped)


def test_the_automatic_layout_takes_turns_if_nothing_else_fits(devices, monkeypatch, tmp_path):
    step = STEP.resized((64, 16, 16))
    memory = explain_step(step, Layout.parse("slabs:8", "x:slabs", "slabs")).plan.memory
    hardware = dataclasses.replace(HARDWARE["l4"], memory=memory, usable=1.0)
    monkeypatch.setattr("mtf_imaging.jobs.choices.layout._hardware", lambda step, group: hardware)
    layout = choose_layout(step, Devices("stacked"), group.current(), str(tmp_path))
    host = dataclasses.replace(hardware, is_host=True)  # whose memory is too small for TensorFlow
    monkeypatch.setattr("mtf_imaging.jobs.choices.layout._hardware", lambda step, group: host)
    assert choose_layout(step, Devices("stacked"), group.current()) == ONE_PROCESSOR
    assert layout == Layout.parse("slabs:8", "x:slabs", "slabs")
    assert layout.offload_dir == str(tmp_path)


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
