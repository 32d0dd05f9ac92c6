"""A run restores its last intact checkpoint under any layout, and refuses checkpoints of another network."""

import logging
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.errors import CheckpointError, TrainingError
from mtf_imaging.training.checkpoints import checkpoints as checkpoints_module
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints, load_weights
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights
from mtf_imaging.training.optimizers import SGD, Adam
from tests.storage import as_nobody
from tests.training import linear


def trained(folder, steps, every=1, keep=3, **kwargs):
    """Trains a program and saves a checkpoint after each step."""
    program = linear.program(Adam(0.1), **kwargs)
    checkpoints = Checkpoints(folder, program, every=every, keep=keep)
    for batch in linear.take(steps):
        program(**batch)
        checkpoints.save()
    return program, checkpoints


def weights(program):
    return program.variables["linear/weights"].numpy()


def test_the_last_few_are_kept(tmp_path):
    program, checkpoints = trained(tmp_path, 5, keep=2)
    assert sorted(path.name for path in tmp_path.glob("*.index")) == ["ckpt-4.index", "ckpt-5.index"]
    assert checkpoints.last == str(tmp_path / "ckpt-5")
    other = linear.program(Adam(0.1), seed=1)
    assert Checkpoints(tmp_path, other).restore() == 5
    for name, variable in program.variables.items():
        np.testing.assert_array_equal(variable, other.variables[name], err_msg=name)


def test_a_run_resumes_under_another_layout(tmp_path):
    program, _ = trained(tmp_path, 4, mesh_shape="rows:2", layout="x:rows")
    other = linear.program(Adam(0.1), "cols:4,cores:2", "x:cols,batch:cores", mesh_impl="placement", seed=1)
    assert Checkpoints(tmp_path, other).restore() == 4
    for batch in linear.take(4, start=4):
        np.testing.assert_allclose(other(**batch)["loss"], program(**batch)["loss"], rtol=1e-12)


def test_no_checkpoint(tmp_path):
    program = linear.program(SGD(0.1))
    assert Checkpoints(tmp_path / "new", program).restore() == 0
    with pytest.raises(CheckpointError) as error:
        load_weights(tmp_path, program)
    assert str(error.value) == (
        f"{tmp_path}: this folder holds no checkpoint. Fix: train there first, or give another model_dir."
    )
    assert error.value.settings == ("model_dir",)


@pytest.mark.parametrize("damage", ["data", "index", "data is gone"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, damage, caplog):
    trained(tmp_path, 2)
    path = tmp_path / ("ckpt-2.index" if damage == "index" else "ckpt-2.data-00000-of-00001")
    if damage == "data is gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with caplog.at_level(logging.WARNING):
        assert Checkpoints(tmp_path, linear.program(Adam(0.1))).restore() == 1
    assert "ckpt-2 is damaged; using the previous one" in caplog.text


@pytest.mark.parametrize("closed", ["ckpt-2.index", "ckpt-2.data-00000-of-00001", ""])
def test_an_unreadable_checkpoint_is_not_treated_as_damaged(open_folder, closed, caplog):
    trained(open_folder, 2)
    (open_folder / closed).chmod(0o311)
    program = linear.program(Adam(0.1))
    with as_nobody(), pytest.raises(PermissionError) as error:
        Checkpoints(open_folder, program).restore()
    assert error.value.filename == str(open_folder / closed)
    assert not caplog.records


def test_flipped_bits_are_detected(tmp_path, caplog):
    program, _ = trained(tmp_path, 2)
    path = tmp_path / "ckpt-2.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    at = data.find(weights(program).tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert Checkpoints(tmp_path, linear.program(Adam(0.1))).restore() == 1


def test_all_damaged(tmp_path):
    trained(tmp_path, 2)
    for path in tmp_path.glob("*.index"):
        path.write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"ckpt-1: this checkpoint is damaged: .* Older ones: none\. Fix: train on"
    ):
        Checkpoints(tmp_path, linear.program(Adam(0.1))).restore()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def files(*steps):
    """Returns the names of all files in a folder with these checkpoints."""
    each = [(f"ckpt-{step}.data-00000-of-00001", f"ckpt-{step}.index") for step in steps]
    return ["checkpoint", *(name for pair in each for name in pair)]


@pytest.mark.parametrize(
    ("lost", "last"),
    [
        (["checkpoint"], 3),
        (["ckpt-3.index"], 2),
        (["ckpt-3.data-00000-of-00001"], 2),
        (["ckpt-3.index", "ckpt-2.data-00000-of-00001"], 1),
    ],
)
def test_deleted_files_lose_only_their_steps(tmp_path, lost, last):
    trained(tmp_path, 3)
    for name in lost:
        (tmp_path / name).unlink()
    program = linear.program(Adam(0.1), seed=1)
    checkpoints = Checkpoints(tmp_path, program, keep=2)
    assert checkpoints.restore() == last
    for batch in linear.take(5 - last, start=last):
        program(**batch)
        checkpoints.save()
    assert names(tmp_path) == files(4, 5)


def test_a_wrong_state_file_is_corrected(tmp_path):
    trained(tmp_path, 2)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-7"')
    program = linear.program(Adam(0.1), seed=1)
    checkpoints = Checkpoints(tmp_path, program)
    assert checkpoints.restore() == 2
    checkpoints.save()
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-2")


def test_a_damaged_later_checkpoint_does_not_count_as_kept(tmp_path):
    trained(tmp_path, 3)
    (tmp_path / "ckpt-3.data-00000-of-00001").write_bytes(b"")
    (tmp_path / "ckpt-2.index").write_bytes(b"")
    program = linear.program(Adam(0.1), seed=1)
    checkpoints = Checkpoints(tmp_path, program, keep=1)
    assert checkpoints.restore() == 1
    program(**next(linear.take(1, start=1)))
    checkpoints.save()
    assert names(tmp_path) == files(2, 3)
    assert Checkpoints(tmp_path, program).restore() == 2


def test_tensorflow_reads_the_checkpoints(tmp_path):
    program, _ = trained(tmp_path / "a", 2)
    (tmp_path / "a").rename(tmp_path / "b")
    other = linear.program(Adam(0.1), seed=1)
    last = tf.train.latest_checkpoint(str(tmp_path / "b"))
    tf.train.Checkpoint(program=other).restore(last).assert_consumed()
    np.testing.assert_array_equal(weights(other), weights(program))


def test_files_do_not_depend_on_the_number_of_saves(tmp_path):
    trained(tmp_path / "often", 2)
    program = linear.program(Adam(0.1))
    for batch in linear.take(2):
        program(**batch)
    Checkpoints(tmp_path / "once", program).save()
    for name in files(2):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "often" / name).read_bytes(), name


def test_a_reader_tolerates_a_run_that_saves_and_deletes_checkpoints(tmp_path, monkeypatch, caplog):
    trained(tmp_path, 1)
    load = tf.train.load_checkpoint

    def load_late(path):
        if path.endswith("ckpt-1"):
            trained(tmp_path, 2, keep=1)
        return load(path)

    monkeypatch.setattr(tf.train, "load_checkpoint", load_late)
    assert load_weights(tmp_path, linear.program(Adam(0.1))) == str(tmp_path / "ckpt-2")
    assert "damaged" not in caplog.text


def test_a_failed_write_keeps_the_earlier_checkpoints(tmp_path, monkeypatch):
    def full_disk(_):
        raise OSError(28, "No space left on device")

    program, checkpoints = trained(tmp_path, 2)
    program(**next(linear.take(1)))
    text = r"the checkpoint of step 3 cannot be written: .*No space left on device\. Last checkpoint: .*ckpt-2\. Fix: "
    with monkeypatch.context() as disk:
        disk.setattr(checkpoint_files, "sync", full_disk)
        with pytest.raises(CheckpointError, match=text):
            checkpoints.save()
    assert names(tmp_path) == files(1, 2)
    checkpoints.save()
    assert names(tmp_path) == files(1, 2, 3)


def test_temporary_folders_of_a_killed_save_are_deleted(tmp_path):
    trained(tmp_path, 2)
    leftover = tmp_path / "ckpt-3_temp"
    leftover.mkdir()
    (leftover / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")
    assert Checkpoints(tmp_path, linear.program(Adam(0.1))).restore() == 2
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("optimizer", "task", "text"),
    [
        (
            SGD(0.1),
            linear.Linear(),
            r"'linear/weights/velocity' is missing in the checkpoint, but float64 \[8\] in the network; "
            r"'linear/weights/mean' float64 \[8\] is only in the checkpoint",
        ),
        (
            Adam(0.1),
            linear.Linear(name="a.b"),
            r"'a\.b/weights' is missing in the checkpoint, but float64 \[8\] in the network; .*; and \d more\. Fix: ",
        ),
        (
            Adam(0.1),
            linear.Linear(size=6),
            r"'linear/weights' is float64 \[8\] in the checkpoint, but float64 \[6\] in",
        ),
    ],
    ids=["optimizer", "name", "shape"],
)
def test_a_checkpoint_of_another_network_is_refused(tmp_path, optimizer, task, text):
    trained(tmp_path, 1)
    program = linear.program(optimizer, task=task)
    before = {name: variable.numpy() for name, variable in program.variables.items()}
    with pytest.raises(CheckpointError, match=text):
        Checkpoints(tmp_path, program).restore()
    for name, value in before.items():
        np.testing.assert_array_equal(program.variables[name], value)


class InFloat32(linear.Linear):
    def inputs(self, batch_size, sizes=None, labels=True):
        return {name: (shape, tf.float32) for name, (shape, _) in super().inputs(batch_size, sizes, labels).items()}


@pytest.mark.parametrize(("saved", "own"), [("float32", "float64"), ("float64", "float32")])
def test_a_checkpoint_of_another_dtype_is_refused(tmp_path, saved, own, caplog):
    tasks = {"float32": InFloat32(), "float64": linear.Linear()}
    Checkpoints(tmp_path, linear.program(Adam(0.1), task=tasks[saved])).save()
    program = linear.program(Adam(0.1), task=tasks[own])
    before = weights(program)
    for restore in (Checkpoints(tmp_path, program).restore, lambda: load_weights(tmp_path, program)):
        with pytest.raises(CheckpointError) as error:
            restore()
        assert f"'linear/weights' is {saved} [8] in the checkpoint, but {own} [8] in the network" in str(error.value)
        assert "dtype" in error.value.settings
    np.testing.assert_array_equal(weights(program), before)
    assert not caplog.records


def test_names_with_dots_and_slashes_are_read_back(tmp_path):
    program = linear.program(SGD(0.1), task=linear.Linear(name="a.b/c"))
    Checkpoints(tmp_path, program).save()
    assert Checkpoints(tmp_path, program).restore() == 0


def test_weights_alone_are_enough_to_predict(tmp_path):
    program, _ = trained(tmp_path, 2)
    other = linear.program(SGD(0.1, momentum=0.0), seed=5)
    assert load_weights(tmp_path, other) == str(tmp_path / "ckpt-2")
    np.testing.assert_array_equal(weights(other), weights(program))


def test_a_state_that_is_not_finite_is_not_saved(tmp_path):
    program, checkpoints = trained(tmp_path, 1)
    program.variables["linear/weights"].assign(np.full(8, np.nan))
    with pytest.raises(
        TrainingError, match=r"'linear/weights' is not finite after step 1; .* Last checkpoint: .*ckpt-1"
    ):
        checkpoints.save()
    assert checkpoints_module.last_checkpoint(tmp_path) == str(tmp_path / "ckpt-1")


def test_a_checkpoint_in_the_background_equals_another(tmp_path):
    program = linear.program(Adam(0.05), "rows:2", "x:rows")
    now, later = Checkpoints(tmp_path / "now", program), Checkpoints(tmp_path / "later", program, in_background=True)
    for inputs in linear.take(3):
        program(**inputs)
        later.save_once()
        now.save_once()
    expected = {name: value.numpy() for name, value in program.variables.items()}
    program(**next(linear.take(1)))  # does not change the copy
    later.wait()
    assert sorted(path.name for path in (tmp_path / "later").iterdir()) == sorted(
        path.name for path in (tmp_path / "now").iterdir()
    )
    first, second = (tf.train.load_checkpoint(str(tmp_path / name / "ckpt-3")) for name in ("now", "later"))
    assert first.get_variable_to_dtype_map() == second.get_variable_to_dtype_map()
    for name in first.get_variable_to_shape_map().keys() - {"_CHECKPOINTABLE_OBJECT_GRAPH"}:
        np.testing.assert_array_equal(first.get_tensor(name), second.get_tensor(name))
    assert later.restore() == 3
    for name, value in program.variables.items():
        np.testing.assert_array_equal(value.numpy(), expected[name])


def test_an_error_in_the_background_is_raised_by_the_next_call(tmp_path, monkeypatch, caplog):
    program = linear.program(Adam(0.05))
    checkpoints = Checkpoints(tmp_path, program, in_background=True)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints_module.checkpoint_files, "write", fail)
    message = r"checkpoint of step \d cannot be written: No space left"
    program(**next(linear.take(1)))
    checkpoints.save()
    with pytest.raises(CheckpointError, match=message):
        checkpoints.save()
    checkpoints.save()
    with pytest.raises(CheckpointError, match=message):
        checkpoints.wait()
    checkpoints.wait()  # the error is raised only once
    checkpoints.save()
    checkpoints.close()
    assert "cannot be written: No space left" in caplog.text


@pytest.mark.parametrize("name", ["run[lr=0.1]", r"a\b", "[", "st*r", "run?"])
def test_the_folder_can_have_a_name_that_tensorflow_reads_as_a_pattern(tmp_path, name, caplog):
    program, checkpoints = trained(tmp_path / "runs" / name / "in", 2)
    other = linear.program(Adam(0.1), seed=1)
    assert Checkpoints(checkpoints._directory, other).restore() == 2
    np.testing.assert_array_equal(weights(other), weights(program))
    load_weights(checkpoints._directory, third := linear.program(Adam(0.1), seed=2))
    np.testing.assert_array_equal(weights(third), weights(program))
    InitialWeights(checkpoints._directory).apply(fourth := linear.program(SGD(0.1), seed=3))
    np.testing.assert_array_equal(weights(fourth), weights(program))
    assert "damaged" not in caplog.text


def test_a_checkpoint_gets_its_name_after_its_data_is_on_the_disk(tmp_path, monkeypatch):
    """Records the flushes and renames of one checkpoint, without the random part of temporary names."""
    events, flush, replace = [], checkpoint_files.sync, Path.replace

    def record(what, call):
        def recorded(path, *rest):
            events.append((what, Path(path).name if Path(path) != tmp_path else "folder"))
            return call(path, *rest)

        return recorded

    monkeypatch.setattr(checkpoint_files, "sync", record("flush", flush))
    monkeypatch.setattr(Path, "replace", record("rename", replace))
    trained(tmp_path, 1)
    data, index = "ckpt-1.data-00000-of-00001", "ckpt-1.index"
    assert sorted(events[:3]) == [("flush", data), ("flush", index), ("flush", "state")]
    assert events[3:] == [
        ("flush", "ckpt-1_temp"),
        ("rename", "state"),
        ("rename", data),
        ("flush", "folder"),
        ("rename", index),
        ("rename", "checkpoint"),
        ("flush", "folder"),
    ]
