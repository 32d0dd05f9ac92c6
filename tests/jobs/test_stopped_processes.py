"""Commands of several processes: they stop together, resume exactly, and refuse what does not fit several processes."""

import os
import signal

import pytest

import mtf_imaging as mi
from mtf_imaging.cli.main import main
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.engine.processes.addresses import parse_addresses
from mtf_imaging.engine.processes.processes import format_tf_config
from mtf_imaging.jobs.processes.devices import join
from mtf_imaging.settings.step import Devices
from tests.jobs.launched import Launched, assert_same_weights, launch, losses, train_command, wait_for_step

STEPS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    write_phantom(folder / "cases", 2, seed=1)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / "records", **options)
    return folder


@pytest.fixture(scope="module")
def unbroken(folder):
    launch(2, *train_command(folder, folder / "unbroken", STEPS))
    return folder / "unbroken"


@pytest.mark.slow
def test_a_signal_to_one_process_or_to_all_stops_them_after_the_same_step(folder, unbroken):
    model = folder / "stopped"
    words = train_command(folder, model, STEPS, "--gin.train.checkpoint_async=True")
    with Launched(2, *words, restarts=1) as launched:
        wait_for_step(launched, model, 4)
        launched.process.send_signal(signal.SIGTERM)
        code, output = launched.wait()
    assert code == 75, output
    assert output.count("Start the run again to resume it") == 2
    first = len(losses(model).splitlines()) - 1
    assert (model / f"ckpt-{first}.index").is_file()  # of the last step
    with Launched(2, *words) as launched:
        wait_for_step(launched, model, first + 2)
        os.kill(launched.pids()[1], signal.SIGUSR1)
        code, output = launched.wait()
    assert code == 75, output
    assert output.count("SIGUSR1: stopped after") == 2
    assert len(losses(model).splitlines()) - 1 < STEPS
    launch(2, *words)
    assert losses(model) == losses(unbroken)
    assert_same_weights(model, unbroken, exact=True)


@pytest.mark.slow
def test_all_processes_restart_after_one_was_killed(folder, unbroken):
    model = folder / "killed"
    with Launched(2, *train_command(folder, model, STEPS), restarts=1) as launched:
        wait_for_step(launched, model, 9)
        os.kill(launched.pids()[1], signal.SIGKILL)
        code, output = launched.wait()
    assert code == 0, output
    assert "mtf-imaging: process 1 was killed by SIGKILL; starting all processes again" in output
    assert "lost process 1 (127.0.0.1:" in output
    assert losses(model) == losses(unbroken)
    assert_same_weights(model, unbroken, exact=True)


DISAGREE = """
import json, os, sys
from mtf_imaging.cli.main import main
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
sys.exit(main([*sys.argv[1:], f"--gin.Adam.learning_rate=0.0{index + 1}"]))
"""


@pytest.mark.slow
def test_processes_with_different_configurations_all_end_with_the_message(folder):
    (folder / "disagree.py").write_text(DISAGREE)
    output = launch(2, folder / "disagree.py", *train_command(folder, folder / "none", STEPS), code=2)
    message = "mtf-imaging: the processes disagree about the configuration: process 1 (127.0.0.1:"
    assert output.count(message) == 2
    assert f"[1] {message}" in output
    assert not (folder / "none").exists()


@pytest.fixture
def one_of_two(monkeypatch):
    addresses = parse_addresses(["host0:2222", "host1:2222"])
    monkeypatch.setenv("TF_CONFIG", format_tf_config(addresses, 1))


@pytest.mark.parametrize(
    "words", [["explain"], ["convert", "--input_dir", "cases", "--output_dir", "records"], ["demo"]]
)
def test_commands_of_one_process_refuse_several(one_of_two, words, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert f"{words[0]} runs as one process, but this is process 1 (host1:2222) of 2. Fix: start it without" in error


@pytest.mark.parametrize("words", [["explain", "--help"], ["parameters", "--help"], ["--version"]])
def test_help_works_in_every_process(one_of_two, words):
    assert main(words) == 0


def test_settings_that_contradict_several_processes_are_refused(one_of_two):
    with pytest.raises(
        mi.ConfigError, match=r"mesh_impl 'stacked' uses the devices of one process.*as 2 processes.*Fix"
    ):
        join(Devices("stacked"))


def test_a_collective_mesh_needs_several_processes(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(
        mi.ConfigError, match=r"'collective' needs several processes.*Fix: start the program with a launcher"
    ):
        join(Devices("collective"))
    with pytest.raises(mi.ConfigError, match=r"communication = 'rings' is not known. Did you mean 'ring'"):
        Devices(communication="rings")


def test_the_automatic_layout_belongs_to_train(capsys):
    assert main(["explain", "--layout", "auto", "--resolution", "16"]) == 2
    assert "only train chooses a layout for layout 'auto'. Fix: give mesh_shape and layout" in capsys.readouterr().err
    assert main(["explain", "--layout", "auto", "--mesh_shape", "rows:2"]) == 2
    assert "--layout auto chooses the mesh, but --mesh_shape is rows:2. Fix: leave one out" in capsys.readouterr().err
