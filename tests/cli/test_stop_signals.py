"""Signals that end a run: the recorded reason, the exceptions, and the restored handlers."""

import signal
import subprocess
import sys
import threading

import pytest

from mtf_imaging.cli.commands import train
from mtf_imaging.cli.main import main
from mtf_imaging.cli.runtime.failures import exit_code, explain
from mtf_imaging.errors import Interrupted
from mtf_imaging.jobs.processes import stop_signals
from mtf_imaging.jobs.processes.stop_signals import StopSignals

BOTH = [(signal.SIGTERM, "SIGTERM"), (signal.SIGUSR1, "SIGUSR1"), (signal.SIGHUP, "SIGHUP")]


def under_signals(body):
    with StopSignals() as signals:
        body(signals)


@pytest.fixture(autouse=True)
def handlers_are_put_back():
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    lost = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before
    signal.signal(signal.SIGINT, ctrl_c)
    signal.signal(signal.SIGHUP, lost)


@pytest.mark.parametrize(("number", "name"), BOTH)
def test_a_signal_before_the_first_step_ends_the_run_at_once(number, name):
    reached = []

    def build(signals):
        try:
            signal.raise_signal(number)
            reached.append("the next line")
        except Exception:  # like a library that catches every exception
            reached.append("a handler of errors")

    with pytest.raises(Interrupted, match=f"{name}: stopped before the first step") as error:
        under_signals(build)
    assert not reached
    assert exit_code(error.value) == 75


@pytest.mark.parametrize(("number", "name"), BOTH)
def test_a_signal_during_training_is_recorded(number, name, capfd):
    with StopSignals() as signals:
        assert signals.reason() is None
        signal.raise_signal(number)
        assert signals.reason() == name
    assert capfd.readouterr().err == (
        f"\n{name}: the run saves a checkpoint after this step and ends; a second signal ends it at once.\n"
    )


def test_ctrl_c_is_reported_by_name_and_keeps_its_exit_code(capfd):
    def train(signals):
        assert signals.reason() is None
        signal.raise_signal(signal.SIGINT)
        raise Interrupted(f"{signals.reason()}: stopped after 3 steps.")

    with pytest.raises(KeyboardInterrupt) as error:
        under_signals(train)
    assert (exit_code(error.value), explain(error.value)) == (130, "Ctrl-C: stopped after 3 steps.")
    with pytest.raises(KeyboardInterrupt, match="Ctrl-C: stopped before the first step"):
        under_signals(lambda signals: signal.raise_signal(signal.SIGINT))


def test_a_second_signal_has_its_usual_effect(monkeypatch):
    monkeypatch.setattr(stop_signals, "SAME_REQUEST", 0.0)

    def train(signals):
        signals.reason()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as error:
        under_signals(train)
    assert explain(error.value) == "interrupted."


def test_a_second_sigterm_ends_the_process():
    script = """
import signal
from mtf_imaging.jobs.processes import stop_signals

stop_signals.SAME_REQUEST = 0.0
with stop_signals.StopSignals() as signals:
    signals.reason()
    for _ in range(2):
        signal.raise_signal(signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGTERM
    assert done.stderr.startswith("\nSIGTERM: the run saves a checkpoint")


def test_a_signal_while_training_is_prepared_leaves_no_folder_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mtf_imaging.data.records.manifest.open_records", lambda folder: None)
    monkeypatch.setattr(train, "import_tensorflow", lambda: signal.raise_signal(signal.SIGTERM))
    assert main(["train", "--data_dir", "records", "--model_dir", str(tmp_path / "run")]) == 75
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "mtf-imaging: SIGTERM: stopped before the first step. Run the same command to start again."
    assert list(tmp_path.iterdir()) == []


def test_the_same_signal_twice_within_a_moment_counts_once():
    with StopSignals() as signals:
        signals.reason()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # would end this process without StopSignals
        assert signals.reason() == "SIGTERM"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            signal.raise_signal(number)
            assert signals.reason() is None
    finally:
        signal.signal(number, before)


def test_a_library_that_replaces_the_exception_does_not_hide_the_signal():
    def build(signals):
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:
            raise ImportError("initialization failed") from None  # as pybind11 does

    with pytest.raises(Interrupted, match="SIGTERM: stopped before the first step"):
        under_signals(build)


def test_a_second_signal_in_an_inner_block_calls_the_function_of_the_outer_block(monkeypatch):
    monkeypatch.setattr(stop_signals, "SAME_REQUEST", 0.0)
    numbers = []
    with StopSignals(second=numbers.append), StopSignals() as signals:
        signals.reason()
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
    assert numbers == [signal.SIGTERM]


def test_a_second_signal_in_an_inner_block_has_the_effect_of_outside(monkeypatch):
    monkeypatch.setattr(stop_signals, "SAME_REQUEST", 0.0)

    def train(signals):
        with StopSignals() as inner:
            inner.reason()
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as error:
        under_signals(train)
    assert explain(error.value) == "interrupted."


def test_in_another_thread_nothing_is_handled():
    found = []

    def run():
        with StopSignals() as signals:
            found.append(signals.reason())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [None]


def test_other_exceptions_pass_through():
    def train(signals):
        signals.reason()
        signal.raise_signal(signal.SIGUSR1)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        under_signals(train)
