"""A full disk, a read-only folder or a damaged record gives an error message and loses no data."""

import json
import os
import shutil
import signal

import pytest

from mtf_imaging.data.records.manifest import record_path
from mtf_imaging.files import lock
from mtf_imaging.training.observers import step_table as losses
from tests.commands import run
from tests.records import damage, voxel_file
from tests.storage import fill, no_file_larger_than

STEPS = 6
TINY = [
    *("--gin_file", "unet3d_demo", "--gin.UNet3D.base_filters=4", "--gin.UNet3D.depth=2", "--gin.UNet3D.convs=1"),
    *("--gin.train.checkpoint_every=2", "--seed", "3"),
    "--gin.Adam.learning_rate=0.003",  # the job's schedule ends with the run, and these runs resume with more steps
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Writes cases, records, and `whole`, an uninterrupted run."""
    folder = tmp_path_factory.mktemp("data")
    assert run("phantom", "--output_dir", folder / "cases", "--num_cases", 3, "--seed", 1) == 0
    words = ["--input_dir", folder / "cases", "--output_dir", folder / "records", "--resolution", 16]
    assert run("convert", *words, "--workers", 1) == 0
    assert train(folder, folder / "whole") == 0
    return folder


def train(data, model_dir, num_steps=STEPS, records=None):
    records = records or data / "records"
    return run("train", "--data_dir", records, "--model_dir", model_dir, *TINY, "--num_steps", num_steps)


def content(folder):
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "config.gin" and path.is_file()}
    facts = json.loads(files["run.json"])
    assert facts.pop("provenance")  # it lists every start of the training
    return {**files, "run.json": json.dumps(facts).encode()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leave", "text"),
    [
        (0, "config.gin: No space left on device. Fix: free some disk space"),
        (2**14, "the checkpoint of step 4 cannot be written: "),
    ],
)
def test_a_full_disk_loses_nothing_and_training_resumes_when_there_is_room(data, mounted, capfd, leave, text):
    disk = mounted("size=1m")
    assert train(data, disk / "run", num_steps=2) == 0
    fill(disk, leave)
    before = {name: value for name, value in content(disk / "run").items() if name != "losses.csv"}
    assert train(data, disk / "run") == 1
    message = capfd.readouterr().err
    assert text in message
    assert "No space left on device" in message
    assert "Traceback" not in message
    after = content(disk / "run")
    rows = after.pop("losses.csv").splitlines()
    assert rows[:3] == content(data / "whole")["losses.csv"].splitlines()[:3]
    assert after == before
    (disk / "filler").unlink()
    assert train(data, disk / "run") == 0
    assert content(disk / "run") == content(data / "whole")


@pytest.mark.slow
def test_a_checkpoint_that_does_not_fit_is_reported_and_leaves_no_partial_file(data, tmp_path, capsys):
    """Like the test above, but with a limit on the file size instead of a separate disk."""
    assert train(data, tmp_path / "run", num_steps=2) == 0
    before = content(tmp_path / "run")
    with no_file_larger_than(2**14):
        assert train(data, tmp_path / "run") == 1
    message = capsys.readouterr().err
    assert "the checkpoint of step 4 cannot be written: " in message
    assert "File too large. Last checkpoint: " in message
    assert "Traceback" not in message
    after = content(tmp_path / "run")
    assert after.keys() == before.keys()
    assert all(after[name] == before[name] for name in before if name != "losses.csv")
    assert train(data, tmp_path / "run") == 0
    assert content(tmp_path / "run") == content(data / "whole")


@pytest.fixture
def read_only(data, mounted, tmp_path):
    """A read-only folder of a run."""
    if os.getuid():
        shutil.copytree(data / "whole", tmp_path / "run")
        (tmp_path / "run").chmod(0o555)
        yield tmp_path / "run"
        (tmp_path / "run").chmod(0o755)
    else:  # root ignores permissions, so mount the file system read-only
        disk = mounted("size=1m")
        shutil.copytree(data / "whole", disk / "run")
        mounted("remount,ro")
        yield disk / "run"


@pytest.mark.slow
def test_a_read_only_folder_is_reported_at_once_and_can_be_used_to_predict(data, read_only, tmp_path, capsys):
    before = content(read_only)
    assert train(data, read_only, num_steps=STEPS + 1) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"mtf-imaging: {read_only}/{lock.NAME}: ")
    assert message.endswith("Fix: check the permissions and the disk, or give another folder.\n")
    assert content(read_only) == before
    volume = next((data / "cases").glob("volume-*"))
    assert run("predict", "--model_dir", read_only, "--input", volume, "--output", tmp_path / "out.nii.gz") == 0


@pytest.mark.slow
def test_a_damaged_record_is_reported_and_training_resumes_when_it_is_repaired(data, tmp_path, capsys):
    records = shutil.copytree(data / "records", tmp_path / "records")
    rows = (data / "whole/losses.csv").read_text().splitlines()[1:]
    third = rows[2].split(",")[-1]  # the case of the first step after the checkpoint
    path = record_path(records, third)
    file = voxel_file(path)
    whole = file.read_bytes()
    damage(path)
    assert train(data, tmp_path / "run", records=records) == 1
    message = capsys.readouterr().err
    assert f"{file}: " in message
    assert "Traceback" not in message
    assert sorted(name for name in content(tmp_path / "run") if name.endswith("index")) == ["ckpt-2.index"]
    assert (tmp_path / "run/losses.csv").read_text().splitlines()[1:] == rows[:2]
    file.write_bytes(whole)
    assert train(data, tmp_path / "run", records=records) == 0
    assert content(tmp_path / "run") == content(data / "whole")


@pytest.mark.slow
def test_a_signal_saves_the_step_and_the_same_command_resumes(data, tmp_path, capfd, monkeypatch):
    after = losses.LossLog.after

    def signaled(self, step, *args):
        after(self, step, *args)
        if step == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(losses.LossLog, "after", signaled)
    assert train(data, tmp_path / "run") == 75
    message = capfd.readouterr().err
    assert "\nSIGTERM: the run saves a checkpoint after this step and ends" in message
    assert message.splitlines()[-1] == (
        "mtf-imaging: SIGTERM: stopped after 3 steps; last checkpoint: "
        f"{tmp_path}/run/ckpt-3. Start the run again to resume it."
    )
    assert train(data, tmp_path / "run") == 0
    ends = [name for name in content(data / "whole") if name.startswith(("losses", f"ckpt-{STEPS}"))]
    assert len(ends) == 3
    assert all(content(tmp_path / "run")[name] == content(data / "whole")[name] for name in ends)


@pytest.mark.slow
def test_a_second_run_is_refused_while_the_first_trains_but_prediction_works(data, tmp_path, capsys):
    with lock.held(data / "whole"):
        before = content(data / "whole")
        assert train(data, data / "whole", num_steps=STEPS + 1) == 2
        assert f"another run is writing to this folder (process {os.getpid()}" in capsys.readouterr().err
        volume = next((data / "cases").glob("volume-*"))
        assert run("predict", "--model_dir", data / "whole", "--input", volume, "--output", tmp_path / "a.nii.gz") == 0
        assert content(data / "whole") == before
