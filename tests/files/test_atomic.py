"""Folders get their names only when they are complete."""

import os

import pytest

from mtf_imaging.files.atomic import atomic_folder, is_partial, remove
from tests.records import contents


def write(path, text):
    with atomic_folder(path) as folder:
        assert is_partial(folder)
        assert folder.parent == path.parent
        (folder / "in").mkdir()
        (folder / "in" / "file").write_text(text)


def test_a_folder_replaces_an_older_folder_or_file(tmp_path):
    path = tmp_path / "new" / "record"
    write(path, "one")
    assert contents(tmp_path) == {"new/record/in/file": b"one"}
    (path / "left over").write_text("of the older folder")
    write(path, "two")
    assert contents(tmp_path) == {"new/record/in/file": b"two"}
    remove(path)
    path.write_text("a file")
    write(path, "three")
    assert contents(tmp_path) == {"new/record/in/file": b"three"}


def test_a_failed_block_changes_nothing(tmp_path):
    path = tmp_path / "record"
    write(path, "one")
    with pytest.raises(TypeError):
        write(path, 2)  # not a text
    assert contents(tmp_path) == {"record/in/file": b"one"}


def test_a_failed_rename_restores_the_older_folder(tmp_path, monkeypatch):
    path, replace = tmp_path / "record", os.replace
    write(path, "one")

    def fail_once(source, target):
        if os.fspath(target) == os.fspath(path):
            monkeypatch.setattr(os, "replace", replace)
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_once)
    with pytest.raises(OSError, match="Input/output error"):
        write(path, "two")
    assert contents(tmp_path) == {"record/in/file": b"one"}


def test_the_leftovers_of_a_killed_process_with_the_same_number_are_replaced(tmp_path):
    left = tmp_path / f".partial-{os.getpid()}-record"
    (left / "in").mkdir(parents=True)
    (left / "in" / "half").write_text("half")
    write(tmp_path / "record", "whole")
    assert contents(tmp_path) == {"record/in/file": b"whole"}


def test_errors_name_the_final_path(tmp_path):
    path = tmp_path / "record"
    with pytest.raises(OSError, match=f"'{path}'$"), atomic_folder(path):
        raise OSError(28, "No space left on device")
