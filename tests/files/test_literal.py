"""Paths that TensorFlow would read as patterns are replaced by others of the same files."""

import os

import pytest

from mtf_imaging.errors import ConfigError
from mtf_imaging.files import literal
from mtf_imaging.files.literal import check_literal, literal_prefix

NAMES = ["run[lr=0.1]", r"a\b", "st*r", "q?", "]", "M\udcfcller"]


def test_a_plain_path_stays_as_it_is(tmp_path):
    with literal_prefix(tmp_path / "run" / "ckpt-2") as prefix:
        assert prefix == str(tmp_path / "run" / "ckpt-2")


@pytest.mark.parametrize("has_proc", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_the_other_path_has_the_same_files_and_no_pattern(tmp_path, monkeypatch, name, has_proc):
    if not has_proc:  # as on macOS
        monkeypatch.setattr(literal.os.path, "isdir", lambda path: False)
    folder = tmp_path / name
    folder.mkdir()
    for ending in ("index", "data-00000-of-00001"):
        (folder / f"ckpt-2.{ending}").write_text(ending)
    with literal_prefix(folder / "ckpt-2") as prefix:
        assert not set(prefix) & set("[]*?\\")
        assert prefix.isascii()
        for ending in ("index", "data-00000-of-00001"):
            with open(f"{prefix}.{ending}") as file:
                assert file.read() == ending
        open_files = os.listdir("/proc/self/fd")
    assert not os.path.exists(f"{prefix}.index")
    assert len(os.listdir("/proc/self/fd")) < len(open_files) or not has_proc


def test_the_name_of_the_checkpoint_can_be_a_pattern(tmp_path):
    (tmp_path / "model[1].ckpt.index").write_text("here")
    (tmp_path / "model1.ckpt.index").write_text("matches the pattern")
    with literal_prefix(tmp_path / "model[1].ckpt") as prefix, open(f"{prefix}.index") as file:
        assert file.read() == "here"


def test_a_relative_path_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a[1].index").write_text("here")
    with literal_prefix("a[1]") as prefix, open(f"{prefix}.index") as file:
        assert file.read() == "here"


def test_a_model_is_not_written_where_tensorflow_cannot_load_it():
    check_literal("out/model")
    with pytest.raises(
        ConfigError, match=r"out/m\[1\]: TensorFlow cannot load .* with '\['.* Fix: choose another output"
    ):
        check_literal("out/m[1]")
