"""Pipes, sockets and devices in place of files are refused before anything waits for them."""

import os
import socket

import numpy as np
import pytest

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.data.listing.dicom_files import dicom_files
from mtf_imaging.data.pixels.photo_files import read_photo
from mtf_imaging.data.records.splits import read_splits
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import check_not_special
from mtf_imaging.kinds.objects.reading.instances import read_instances
from tests.data.dicom_folder import write_series
from tests.data.reading import read_volume

READERS = {
    "photo.jpg": read_photo,
    "table.csv": read_spacing_table,
    "splits.json": read_splits,
    "instances.json": read_instances,
    "cases/volume-1.nii.gz": lambda path: find_cases(path.parent, need_labels=False),
    "cases/dataset.json": lambda path: find_cases(path.parent, need_labels=False),
    "one.nii.gz": lambda path: find_cases(path, need_labels=False),
    "series/1.dcm": lambda path: dicom_files(path.parent),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_not_opened(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(DataError, match=rf"{name}: is a named pipe, not a file\. Fix: give the path of a file\."):
        READERS[name](path)


def test_other_special_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.nii")
        with pytest.raises(DataError, match=r"a\.nii: is a socket, not a file"):
            read_volume("a.nii")
    with pytest.raises(DataError, match="/dev/zero: is a device, not a file"):
        check_not_special("/dev/zero")
    (tmp_path / "link.nii").symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"link\.nii: is a device, not a file"):
        read_volume(tmp_path / "link.nii")
    for path in (tmp_path, tmp_path / "missing", "null\0byte"):
        check_not_special(path)


def test_special_files_with_other_names_do_not_matter(tmp_path):
    write_series(tmp_path / "a", np.zeros((4, 4, 2), np.int16))
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "a" / "notes.txt")
    assert len(find_cases(tmp_path, need_labels=False)) == 1
