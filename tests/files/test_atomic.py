"""Folders get their names only when they are complete."""

import os

import pytest

from mtf_imaging.files.atomic import atomic_folder, atomic_path, write_bytes
from mtf_imaging.files.partial import is_partial, partial_path, remove
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
    left = partial_path(tmp_path / "record")
    (left / "in").mkdir(parents=True)
    (left / "in" / "half").write_text("half")
    write(tmp_path / "record", "whole")
    assert contents(tmp_path) == {"record/in/file": b"whole"}


def test_errors_name_the_final_path(tmp_path):
    path = tmp_path / "record"
    with pytest.raises(OSError, match=f"'{path}'$"), atomic_folder(path):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("start", ["", "a", "ä"])
def test_the_longest_names_can_be_written(tmp_path, start):
    name = start + "ä" * 120 + "x" * (255 - len(start.encode()) - 240 - 7) + ".nii.gz"
    assert len(name.encode()) == 255
    with atomic_path(tmp_path / name) as temporary:
        assert temporary.name.endswith(".nii.gz")
        assert is_partial(temporary)
        temporary.write_text("one")
    write(tmp_path / name, "two")
    write(tmp_path / name, "three")
    assert contents(tmp_path) == {f"{name}/in/file": b"three"}


def test_temporary_names_of_long_names_with_the_same_ending_differ(tmp_path):
    with atomic_path(tmp_path / f"a{'x' * 254}") as one, atomic_path(tmp_path / f"b{'x' * 254}") as two:
        assert one != two
        one.touch(), two.touch()


def test_a_link_with_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "photo").write_text("mine")
    (tmp_path / "out").mkdir()
    partial_path(tmp_path / "out/1.png").symlink_to(tmp_path / "photo")
    write_bytes(tmp_path / "out" / "1.png", b"picture")
    assert contents(tmp_path) == {"photo": b"mine", "out/1.png": b"picture"}
