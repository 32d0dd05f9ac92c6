"""A process that is killed before any of its changes of the disk leaves the old or the new content, and no mixture."""

from pathlib import Path

import pytest

from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.training.checkpoints import files as checkpoint_files
from tests.leftovers import kill_at_every_change
from tests.records import contents

IMPORTS = """
from mtf_imaging.files.atomic import atomic_folder, write_bytes
from mtf_imaging.files.output_folder import writing_to
def write(path, text):
    with atomic_folder(path) as new:
        (new / "in").mkdir()
        (new / "in" / "1").write_text(text)
        (new / "2").write_text(text)
"""
# Without its package, which imports TensorFlow.
CHECKPOINTS = f"""
import runpy
checkpoint_files = runpy.run_path({checkpoint_files.__file__!r})
def write_checkpoint(directory, step, text):
    def write_to(prefix):
        for ending in ("data-00000-of-00002", "data-00001-of-00002", "index"):
            with open(prefix + "." + ending, "w") as file:
                file.write(text)
    checkpoint_files["write"](directory, step, write_to)
"""
OLD, NEW = ({"record/in/1": text, "record/2": text} for text in (b"old", b"new"))


def no_lock(folder):
    return {name: data for name, data in contents(folder).items() if name != ".lock"}


@pytest.mark.parametrize("name", ["record", "r" * 255], ids=["short", "long"])
def test_a_folder_that_replaces_another(tmp_path, name):
    change = f'write(folder / "{name}", "new")'
    (folders,) = kill_at_every_change(tmp_path / "killed", IMPORTS + change.replace('"new"', '"old"'), change)
    assert len(folders) > 10  # mkdir, open and rename of the new folder; mkdir, rename and remove of the old one
    was_missing = 0
    old, new = ({key.replace("record", name): data for key, data in one.items()} for one in (OLD, NEW))
    for folder in folders:
        was_missing += not (folder / name).exists()
        with writing_to(folder):  # the next start
            pass
        assert no_lock(folder) in (old, new)
    assert was_missing == 1  # between the two renames
    assert no_lock(folders[0]) == old
    assert no_lock(folders[-1]) == new


def test_a_folder_that_replaces_a_file(tmp_path):
    before = f'{IMPORTS}(folder / "record").write_text("old")'
    for folder in kill_at_every_change(tmp_path / "killed", before, 'write(folder / "record", "new")')[0]:
        write_bytes(folder / "other", b"")  # the next writer, which does not lock the folder
        (folder / "other").unlink()
        assert no_lock(folder) in ({"record": b"old"}, NEW)


def test_what_a_user_deletes_after_a_kill_does_not_come_back(tmp_path):
    """Neither does a part of it, of which the killed process had deleted the rest."""
    before, change = f'{IMPORTS}write(folder / "record", "old")', 'write(folder / "record", "new")'
    for folder in kill_at_every_change(tmp_path / "killed", before, change)[0]:
        if contents(folder / "record") == {"in/1": b"new", "2": b"new"}:
            (folder / "record").rename(tmp_path / f"taken-{folder.name}")
            with writing_to(folder):
                pass
            assert no_lock(folder) in ({}, OLD)


def test_a_locked_output_folder(tmp_path):
    write = 'with writing_to(folder):\n    write_bytes(folder / "a", b"{0}")\n    write(folder / "record", "{0}")'
    for folder in kill_at_every_change(tmp_path / "killed", IMPORTS + write.format("old"), write.format("new"))[0]:
        with writing_to(folder):
            pass
        found = no_lock(folder)
        assert found.pop("a") in (b"old", b"new")
        assert found in (OLD, NEW)


def checkpoint(folder):
    """Returns the contents of the last checkpoint by the endings of its files, and the name in the state file."""
    (last, *_) = checkpoint_files.paths(folder)
    name = last.rpartition("/")[2]
    state = (folder / "checkpoint").read_text().split('"')[1]
    assert (folder / f"{state}.index").exists()
    return {path.name.removeprefix(f"{name}."): path.read_text() for path in folder.glob(f"{name}.*")}, state, name


@pytest.fixture(scope="module")
def killed_checkpoints(tmp_path_factory):
    """Returns the folders of killed writers of checkpoints by the steps that they write: 1 and 2, and 2 as the best."""
    changes = {
        step: f'write_checkpoint(folder, {step}, "new")\ncheckpoint_files["delete_old"](folder, {step}, 1)'
        for step in (1, 2)
    }
    changes["best"] = 'write_checkpoint(folder, 2, "new")\ncheckpoint_files["delete_others"](folder, 2)'
    before = f'{CHECKPOINTS}write_checkpoint(folder, 1, "old")'
    folder = tmp_path_factory.mktemp("checkpoints") / "killed"
    return dict(zip(changes, kill_at_every_change(folder, before, *changes.values()), strict=True))


@pytest.mark.parametrize("step", [1, 2])
def test_a_checkpoint(killed_checkpoints, step):
    """A checkpoint of the next step, and of a step that has one, as imported weights have."""
    folders = killed_checkpoints[step]
    assert len(folders) > 8
    for folder in folders:
        checkpoint_files.sweep(folder)
        files, state, name = checkpoint(folder)
        assert state == name
        assert len(files) == 3
        assert len({*files.values()}) == 1
        checkpoint_files.delete_old(folder, step, 1)
        assert len([*folder.iterdir()]) == 4


def test_the_best_checkpoint(killed_checkpoints):
    for folder in killed_checkpoints["best"]:
        checkpoint_files.sweep(folder)
        files, state, name = checkpoint(folder)
        assert state == name
        assert {*files.values()} == {"old" if name == "ckpt-1" else "new"}


@pytest.mark.parametrize("is_complete", [True, False])
def test_links_with_the_names_of_temporary_checkpoints_are_not_followed(tmp_path, is_complete):
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("ckpt-3.index", "ckpt-3.data-00000-of-00001", *["checkpoint"] * is_complete):
        (mine / name).write_text("mine")
    before = contents(mine)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/ckpt-3_temp").symlink_to(mine)
    checkpoint_files.sweep(tmp_path / "run")
    assert not [*(tmp_path / "run").iterdir()]
    (tmp_path / "run/ckpt-3_temp").symlink_to(mine)
    checkpoint_files.write(tmp_path / "run", 3, lambda prefix: Path(f"{prefix}.index").write_text("new"))
    assert contents(mine) == before
    assert (tmp_path / "run/ckpt-3.index").read_text() == "new"
