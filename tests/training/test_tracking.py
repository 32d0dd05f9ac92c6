"""Experiment trackers: each step arrives once, also after a kill, and a service that fails ends no training."""

import dataclasses
import importlib.util
import json
import logging
import struct
import threading

import numpy as np
import pytest

from mtf_imaging.errors import ConfigError
from mtf_imaging.training.observers.events import StepValues
from mtf_imaging.training.observers.step_table import LossLog
from mtf_imaging.training.observers.tracking import tracker as tracker_module
from mtf_imaging.training.observers.tracking.mlflow import Mlflow
from mtf_imaging.training.observers.tracking.service import HELD_OUT, RunInfo
from mtf_imaging.training.observers.tracking.services import check_trackers, parse_trackers
from mtf_imaging.training.observers.tracking.tracker import Tracker
from mtf_imaging.training.observers.tracking.wandb import Wandb
from mtf_imaging.training.optimizers import Adam
from tests.scores import read_rows
from tests.training import linear
from tests.training.linear import Killed, killed_at

INFO = RunInfo("project", "run", "", {"seed": "0"}, "1.0", {"config.gin": "a = 1\n"})


class Memory:
    """A service that keeps the rows of each run in a dict of lists."""

    title = "Memory"

    def __init__(self, runs, place="here", fails=None):
        self.runs, self.place, self.fails, self.ended = runs, place, fails, []

    def connect(self, info):
        if self.fails == "connect":
            raise ConnectionError("no server\nat all")
        return self.place

    def open(self, info, run_id):
        self.run = run_id or f"run {len(self.runs)}"
        self.runs.setdefault(self.run, [])
        return self.run, {}

    def log(self, rows):
        if self.fails == "log":
            raise OSError("No space left on device")
        self.runs[self.run] += rows

    def close(self, is_complete):
        self.ended.append(is_complete)


def tracker(folder, service, every=2, num_steps=10):
    return Tracker(
        service,
        INFO,
        folder / "state.json",
        losses=folder / "losses.csv",
        scores=folder / "scores.csv",
        step_values=StepValues(lambda step: 0.5, batch_size=2),
        every=every,
        num_steps=num_steps,
    )


def run(folder, service, batches=linear.batches, num_steps=10):
    observers = [LossLog(folder / "losses.csv")]
    if service is not None:
        observers.append(tracker(folder, service, num_steps=num_steps))
    linear.run(folder, num_steps, linear.program(Adam(0.05)), lambda _: observers, batches)


def check_equal_to_losses(rows, folder):
    losses = {int(row["step"]): row for row in read_rows(folder / "losses.csv")}
    assert [row.step for row in rows] == [0, 2, 4, 6, 8, 9], "each step once, in order"
    for row in rows:
        assert row.values["loss"] == float(losses[row.step]["loss"])
        assert row.values["error"] == float(losses[row.step]["error"])


def test_each_step_of_a_killed_run_arrives_once(tmp_path):
    runs = {}
    for step in (2, 5, 8):
        with pytest.raises(Killed):
            run(tmp_path, Memory(runs), killed_at(step))
    service = Memory(runs)
    run(tmp_path, service)  # it repeats steps 6 and 7, which the service already has
    assert [*runs] == ["run 0"]
    check_equal_to_losses(runs["run 0"], tmp_path)
    assert service.ended == [True]
    assert runs["run 0"][0].values.keys() == {
        *("loss", "error", "learning_rate", "seconds_per_step", "volumes_per_second", "data_wait")
    }


def test_a_tracker_that_is_added_later_receives_the_earlier_steps(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, None, killed_at(7))
    runs = {}
    run(tmp_path, Memory(runs))
    check_equal_to_losses(runs["run 0"], tmp_path)
    run(tmp_path, Memory(runs, place="another server"))
    check_equal_to_losses(runs["run 1"], tmp_path)
    (tmp_path / "state.json").write_text("{")
    run(tmp_path, Memory(runs))
    check_equal_to_losses(runs["run 2"], tmp_path)


@pytest.mark.parametrize(
    ("fails", "why"), [("connect", "(no server at all)"), ("log", "(No space left on device)")], ids=["server", "disk"]
)
def test_a_service_that_fails_ends_no_training(tmp_path, caplog, fails, why):
    runs = {}
    run(tmp_path, Memory(runs, fails=fails))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "Memory receives no more values" in warnings[0]
    assert why in warnings[0]
    assert not any(runs.values())
    run(tmp_path, Memory(runs))  # no steps are left, and the missing values are sent
    check_equal_to_losses(runs[max(runs)], tmp_path)


def test_a_run_does_not_wait_for_a_service_that_hangs(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(tracker_module, "_CLOSE_SECONDS", 0.05)
    hangs = threading.Event()
    service = Memory({})
    service.log = lambda rows: hangs.wait(60)
    run(tmp_path, service)
    assert "has not received the last values within 0 s" in caplog.text
    hangs.set()


def test_scores_arrive_once(tmp_path):
    runs = {}
    (tmp_path / "scores.csv").write_text("step,loss,dice\n2,0.5,0.25\n4,0.25,nan\n")
    for start in (4, 6):
        one = tracker(tmp_path, Memory(runs), every=1)
        one.begin(start)
        one.scores(4, {"loss": 0.25})
        one.scores(6, {"dice": np.float64(0.75)})
        one.close()
    assert [(row.group, row.step, row.values) for row in runs["run 0"]] == [
        (HELD_OUT, 2, {"loss": 0.5, "dice": 0.25}),
        (HELD_OUT, 4, {"loss": 0.25}),
        (HELD_OUT, 6, {"dice": 0.75}),
    ]


def test_names_of_trackers():
    assert parse_trackers("") == parse_trackers(()) == ()
    assert parse_trackers(("wandb", "mlflow", "wandb")) == ("wandb", "mlflow")
    with pytest.raises(ConfigError, match=r"trackers = 'mlfow' is not known. Did you mean 'mlflow'\? Fix: choose from"):
        parse_trackers("mlfow")


def test_missing_packages_and_accounts_are_found_before_the_training(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mlflow" else find(name))
    with pytest.raises(ConfigError, match=r'Fix: run pip install "mtf-imaging\[mlflow\]"'):
        check_trackers(("mlflow",))
    check_trackers(())


def test_weights_and_biases_needs_a_key_unless_it_is_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=r"has no API key\. Fix: run wandb login"):
        check_trackers(("wandb",))
    monkeypatch.setenv("WANDB_MODE", "offline")
    check_trackers(("wandb",))


def observe(folder, service, start, stop, num_steps=6):
    """Passes the steps from start to stop to a tracker, as a training does."""
    folder.mkdir(exist_ok=True)
    one = tracker(folder, service, every=1, num_steps=num_steps)
    one.begin(start)
    for step in range(start, stop):
        one.after(step, {"loss": np.float32(step)}, ["case"], 0.5, 0.25)
        one.scores(step + 1, {"dice": step / 8})
    one.close()


def check_mlflow(folder):
    import mlflow

    observe(folder, Mlflow(), 0, 4)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | {"last": {}}))  # as if killed before it was written
    observe(folder, Mlflow(), 2, 6)
    client = mlflow.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("project").experiment_id])
    assert found.info.run_id == state["run_id"]
    assert (found.info.run_name, found.info.status, found.data.params) == ("run", "FINISHED", {"seed": "0"})
    losses = client.get_metric_history(state["run_id"], "train/loss")
    assert [(one.step, one.value) for one in losses] == [(step, step) for step in range(6)]
    dice = client.get_metric_history(state["run_id"], "held_out/dice")
    assert [(one.step, one.value) for one in dice] == [(step + 1, step / 8) for step in range(6)]
    assert found.data.metrics["train/learning_rate"] == 0.5
    assert "case" not in str(found.data)


def test_mlflow_continues_a_run_in_a_folder(tmp_path, monkeypatch, capfd):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    check_mlflow(tmp_path / "run")
    assert [path.read_text() for path in tmp_path.glob("mlruns/*/*/artifacts/config.gin")] == ["a = 1\n"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow uses deprecated functions of SQLAlchemy 2.1
def test_mlflow_continues_a_run_in_a_database(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    pytest.importorskip("alembic")
    monkeypatch.chdir(tmp_path)  # MLflow stores texts in mlruns of the working directory
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setattr(tracker_module, "_CLOSE_SECONDS", 120.0)  # it creates the tables of a new database
    check_mlflow(tmp_path / "run")


@pytest.mark.slow
def test_weights_and_biases_stores_an_offline_run(tmp_path, monkeypatch, capfd):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("WANDB_DIR", raising=False)
    monkeypatch.setattr("tests.training.test_tracking.INFO", dataclasses.replace(INFO, folder=str(tmp_path)))
    observe(tmp_path, Wandb(), 0, 4)
    observe(tmp_path, Wandb(), 2, 6)
    run_id = json.loads((tmp_path / "state.json").read_text())["run_id"]
    files = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{run_id}.wandb"] * 2, "both parts belong to one run"
    rows = [row for file in files for row in offline_rows(file)]
    assert [row["step"] for row in rows if "train/loss" in row] == [*range(6)]
    assert [row["held_out/dice"] for row in rows if "held_out/dice" in row] == [step / 8 for step in range(6)]
    assert [path.read_text() for path in tmp_path.glob("wandb/offline-run-*/files/config.gin")] == ["a = 1\n"] * 2
    assert capfd.readouterr() == ("", "")


def offline_rows(path):
    """Yields the values of an offline run, a log in the format of LevelDB: blocks of 32 KiB with pieces of records."""
    from wandb.proto import wandb_internal_pb2

    content, at, data = path.read_bytes(), 7, b""  # the first 7 bytes name the format
    while at + 7 <= len(content):
        _, length, kind = struct.unpack_from("<IHB", content, at)
        data += content[at + 7 : at + 7 + length]
        at += 7 + length
        at += -at % 32768 if 32768 - at % 32768 < 7 else 0
        if kind in (1, 4):  # a whole record, or its last piece
            record, data = wandb_internal_pb2.Record.FromString(data), b""
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                yield {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
