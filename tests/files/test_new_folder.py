"""New folders appear when they are complete, and never replace another one."""

import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.files.new_folder import check_new_folder, new_folder
from mtf_imaging.files.partial import is_partial


def test_a_folder_appears_at_the_end(tmp_path):
    path = tmp_path / "a/b"
    with new_folder(path) as folder:
        assert is_partial(folder)
        (folder / "sub").mkdir()
        (folder / "sub/file").write_text("text")
        assert not path.exists()
    assert (path / "sub/file").read_text() == "text"
    assert [*(tmp_path / "a").iterdir()] == [path]


def test_an_error_leaves_nothing(tmp_path):
    def write_half():
        with new_folder(tmp_path / "new") as folder:
            (folder / "file").write_text("text")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write_half()
    assert not any(tmp_path.iterdir())


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "empty").mkdir()
    with new_folder(tmp_path / "empty") as folder:
        (folder / "file").write_text("text")
    assert (tmp_path / "empty/file").is_file()


def test_others_are_never_replaced(tmp_path):
    for name in ("file", "folder", "link"):
        path = tmp_path / name
        if name == "folder":
            path.mkdir()
            (path / "content").touch()
        elif name == "link":
            path.symlink_to(tmp_path / "missing")
        else:
            path.touch()
        with pytest.raises(DataError, match=f"{name}: already exists, and is never replaced") as error:
            check_new_folder(path, "output")
        assert error.value.settings == ("output",)


def test_a_folder_of_another_process_is_kept(tmp_path):
    late = tmp_path / "late"

    def write_twice():
        with new_folder(late) as folder:
            (folder / "file").touch()
            late.mkdir()
            (late / "content").touch()  # by another process

    with pytest.raises(DataError, match="late: already exists"):
        write_twice()
    assert [path.name for path in late.iterdir()] == ["content"]
    assert not [*filter(is_partial, tmp_path.iterdir())]
