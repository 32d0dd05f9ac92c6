"""Tests for reading JSON and text files."""

import codecs
import os

import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.files.json_file import parse_json, read_json, read_object
from mtf_imaging.files.text_file import read_regular, read_text


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dataset.json"


def test_a_byte_order_mark_and_line_endings_of_windows_are_read(path):
    path.write_bytes(codecs.BOM_UTF8 + '{"labels":\r\n {"Milz ü": 1}}\r\n'.encode())
    assert read_json(path) == {"labels": {"Milz ü": 1}}
    assert read_text(path) == '{"labels":\n {"Milz ü": 1}}\n'


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"a": 1', r"not a JSON file \(Expecting ',' delimiter"),
        (b"", r"not a JSON file \(Expecting value"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", r"not a JSON file \(Exceeds the limit"),
        (b'{"M\xfcller": 1}', r"not a JSON file in UTF-8 \(byte 0xfc at position 3\)\. Fix: save the file in UTF-8"),
        ("{}".encode("utf-16"), "not a JSON file in UTF-8, but in UTF-16"),
        ("{}".encode("utf-32"), "not a JSON file in UTF-8, but in UTF-32"),
        (b'{"a": {"liver": 1, "spleen": 2, "liver": 3}}', "'liver' occurs twice in an object. Fix: give each entry"),
        (rb'{"a": "x\ud800y"}', r"contains \\ud800, which is half a character"),
    ],
)
def test_faults_of_a_file_name_the_file(path, data, text):
    path.write_bytes(data)
    with pytest.raises(DataError, match=text) as caught:
        read_json(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "Fix: " in str(caught.value)


def test_the_fix_of_the_caller_is_used(path):
    path.write_text("{")
    with pytest.raises(DataError, match=r"Fix: train again\.$"):
        read_json(path, "train again")


def test_pairs_of_surrogates_and_escaped_backslashes_are_text(path):
    path.write_text(r'["\ud83d\ude00", "\\ud800", "\u00fc"]')
    assert read_json(path) == ["\U0001f600", r"\ud800", "ü"]


def test_other_values_than_objects(path):
    path.write_text("[1]")
    assert read_json(path) == [1]
    with pytest.raises(DataError, match=r"contains a list instead of an object. Fix: correct it"):
        read_object(path)


def test_objects_can_be_converted_while_they_are_parsed():
    assert parse_json('[{"a": {"b": 1}}]', "x", convert=lambda fields: sorted(fields.items())) == [[("a", [("b", 1)])]]


def test_only_regular_files_are_read(path, tmp_path):
    with pytest.raises(DataError, match="No such file or directory"):
        read_json(path)
    with pytest.raises(DataError, match="is a folder, not a file"):
        read_json(tmp_path)
    with pytest.raises(DataError, match="is a device, not a file"):
        read_json("/dev/zero")
    os.mkfifo(path)  # to open it would wait for a writer
    with pytest.raises(DataError, match="is a named pipe, not a file"):
        read_json(path)


def test_the_size_is_limited(path):
    path.write_text("[1, 2]")
    assert read_regular(path, 6) == b"[1, 2]"
    with pytest.raises(DataError, match="has more than 5 bytes"):
        read_json(path, max_bytes=5)
