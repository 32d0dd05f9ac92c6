"""The memory budget, and small files that declare more than it."""

import gzip
import json
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pydicom
import pytest
import SimpleITK
from PIL import Image
from pydicom.uid import DeflatedExplicitVRLittleEndian, RLELossless

from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.formats.ome_zarr.codecs import COMPRESSORS
from mtf_imaging.errors import CheckpointError, DataError
from mtf_imaging.files import memory
from mtf_imaging.files.workers import in_parallel
from mtf_imaging.training.checkpoints.weight_files.all_files import open_weights
from mtf_imaging.training.checkpoints.weight_files.pytorch import LEGACY_START
from tests.data.dicom_folder import write_plane
from tests.data.zarr_image import write_image

SIZE = 120  # of an image of 28,800 bytes, which is larger than the budget
BUDGET = 20_000


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: BUDGET)


def test_the_limit_of_a_cgroup_or_of_its_parents_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_OWN", tmp_path / "own")
    (tmp_path / "user/job").mkdir(parents=True)
    (tmp_path / "memory/docker").mkdir(parents=True)
    (tmp_path / "user/job/memory.max").write_text("max\n")
    (tmp_path / "user/memory.max").write_text("5000\n")
    (tmp_path / "memory/docker/memory.limit_in_bytes").write_text("4000\n")
    whole = memory.machine_memory.__wrapped__
    (tmp_path / "own").write_text("0::/user/job\n")
    assert whole() == 5000
    (tmp_path / "own").write_text("7:cpu,cpuacct:/docker\n4:memory:/docker\n")
    assert whole() == 4000
    (tmp_path / "own").write_text("0::/other\n")
    assert whole() > 1 << 20


def budget(_):
    return memory.memory_budget()


def test_workers_share_the_memory():
    own = memory.memory_budget()
    assert {result for _, result in in_parallel(budget, [1, 2], workers=2)} == {own // 2}
    assert memory.memory_budget() == own


def _png(path):
    Image.fromarray(np.zeros((SIZE, SIZE), np.uint16)).save(path)


def _nrrd(path):
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.zeros((2, SIZE, SIZE), np.int16)), str(path), True)


def _zarr(path):
    write_image(path, np.zeros((SIZE, SIZE, 4), np.int16), chunk=SIZE)


def _dicom(path, syntax):
    write_plane(path / "1.dcm", np.zeros((SIZE, SIZE), np.int16), (0, 0, 0))
    header = pydicom.dcmread(path / "1.dcm")
    if syntax == RLELossless:
        header.compress(syntax)
    header.file_meta.TransferSyntaxUID = syntax
    header.save_as(path / "1.dcm")


IMAGES = {
    "a.png": _png,
    "a.nrrd": _nrrd,
    "a.ome.zarr": _zarr,
    "rle": lambda path: _dicom(path, RLELossless),
    "deflated": lambda path: _dicom(path, DeflatedExplicitVRLittleEndian),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_larger_than_the_budget_are_refused_before_they_are_decoded(tmp_path, small, name):
    IMAGES[name](tmp_path / name)
    with pytest.raises(DataError, match=r"which need about .* GB to read, but this process"):
        open_stored(tmp_path / name)


def test_a_run_length_of_two_bytes_has_at_most_128(tmp_path):
    _dicom(tmp_path / "rle", RLELossless)
    header = pydicom.dcmread(tmp_path / "rle/1.dcm")
    header.Rows = header.Columns = 2000
    header.save_as(tmp_path / "rle/1.dcm")
    with pytest.raises(DataError, match=r"2000 rows and 2000 columns .* but the file has \d+ compressed bytes"):
        open_stored(tmp_path / "rle")


def test_a_chunk_of_empty_members_takes_the_time_of_its_bytes():
    content = np.arange(1000, dtype=np.uint8).tobytes()
    data = gzip.compress(b"") * 30_000 + gzip.compress(content)
    np.testing.assert_array_equal(COMPRESSORS["gzip"](data, 1000), np.frombuffer(content, np.uint8))
    with pytest.raises(ValueError, match="more than the 999 bytes"):
        COMPRESSORS["gzip"](data, 999)
    np.testing.assert_array_equal(COMPRESSORS["zlib"](zlib.compress(content), 1000), np.frombuffer(content, np.uint8))


def test_a_compressed_description_larger_than_the_budget_is_refused(tmp_path, small):
    with zipfile.ZipFile(tmp_path / "a.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", json.dumps({"a": "b" * 50_000}))
        archive.writestr("model.weights.h5", b"")
    with pytest.raises(CheckpointError, match=r"'config\.json' of 50009 bytes, which need .*Fix: use fewer"):
        open_weights(tmp_path / "a.keras")


def _declared_member(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"")
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\1\2")
    data[at + 20 : at + 28] = struct.pack("<II", 4 << 29, 4 << 29)
    path.write_bytes(data)


def _declared_bytes(path):
    path.write_bytes(LEGACY_START + pickle.PROTO + b"\x02" + pickle.BINUNICODE8 + struct.pack("<Q", 9 << 30))


@pytest.mark.parametrize("write", [_declared_member, _declared_bytes])
def test_a_file_of_torch_has_the_bytes_that_it_declares(tmp_path, write):
    write(tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a\.pt: this file is not a file of torch"):
        open_weights(tmp_path / "a.pt")
