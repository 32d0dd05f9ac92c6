"""Gzip files with several streams, and with other bytes after the last one."""

import gzip
import io
import time
import zlib

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.formats.nifti import gzip_stream, reading
from mtf_imaging.data.formats.nifti.gzip_stream import open_gzip
from mtf_imaging.errors import DataError
from tests.data.reading import read_volume

CONTENT = np.random.default_rng(0).integers(0, 9, 300_000, np.uint8).tobytes()


def write(path, *parts):
    path.write_bytes(b"".join(parts))
    return path


STREAMS = {
    "one": [gzip.compress(CONTENT)],
    "several": [gzip.compress(CONTENT[at : at + 70_000]) for at in range(0, len(CONTENT), 70_000)],
    "empty ones": [gzip.compress(b""), gzip.compress(CONTENT[:9]), gzip.compress(b""), gzip.compress(CONTENT[9:])],
    "zeros between": [gzip.compress(CONTENT[:99]), bytes(300_000), gzip.compress(CONTENT[99:]), bytes(5)],
    "uncompressed": [gzip.compress(CONTENT, 0)],
}


@pytest.mark.parametrize("name", STREAMS)
def test_all_streams_are_read(tmp_path, name, caplog):
    path = write(tmp_path / "a.gz", *STREAMS[name])
    with open_gzip(path) as file:
        assert file.read() == CONTENT
        for at, size in ((0, 10), (200_000, 100_000), (150, 5), (299_995, 50), (400_000, 1), (0, 300_000)):
            assert file.seek(at) <= at
            assert file.read(size) == CONTENT[at : at + size]
        assert file.seek(100) == 100
        assert file.seek(50, io.SEEK_CUR) == file.tell() == 150
        with pytest.raises(ValueError, match="negative position"):
            file.seek(-1)
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0, io.SEEK_END)
    assert not caplog.records


@pytest.mark.parametrize("block", [1, 2, 7])
def test_streams_may_begin_anywhere_in_a_block(tmp_path, monkeypatch, block):
    monkeypatch.setattr(gzip_stream, "_BLOCK_BYTES", block)
    path = write(tmp_path / "a.gz", *(gzip.compress(CONTENT[at : at + 50]) for at in range(0, 500, 50)), bytes(9))
    with open_gzip(path) as file:
        assert file.read(1000) == CONTENT[:500]


@pytest.mark.parametrize("rest", [b"GARBAGE", b"\x1f", b"\0\0\0x", bytes(200_000) + b"xyz"])
def test_other_bytes_after_the_streams_are_ignored(tmp_path, rest, caplog):
    path = write(tmp_path / "a.gz", gzip.compress(CONTENT), rest)
    with open_gzip(path) as file:
        assert file.read() == CONTENT
    count = len(rest.lstrip(b"\0"))
    assert f"a.gz: {count} bytes follow the compressed data, which is complete and has the right" in caplog.text
    caplog.clear()


def test_damage_is_an_error(tmp_path):
    data = gzip.compress(CONTENT)
    for damaged, error in (
        (data[:-3], EOFError),
        (data[: len(data) // 2], EOFError),
        (data[:-8] + bytes(8), zlib.error),
        (data + b"\x1f\x8bxyz" + bytes(20), zlib.error),
    ):
        with open_gzip(write(tmp_path / "a.gz", damaged)) as file, pytest.raises(error):
            file.read()


def test_long_ends_take_no_time(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(gzip_stream, "_EMPTY_STREAMS", 50)
    start = time.process_time()
    with open_gzip(write(tmp_path / "a.gz", gzip.compress(CONTENT), bytes(50_000_000))) as file:
        assert file.read() == CONTENT
    assert not caplog.records
    with open_gzip(write(tmp_path / "b.gz", gzip.compress(CONTENT), gzip.compress(b"") * 100_000)) as file:
        assert file.read() == CONTENT
    assert time.process_time() - start < 5  # byte by byte, the zeros alone take 20 s
    assert "b.gz: 1999000 bytes follow the compressed data" in caplog.text


def test_a_volume_with_bytes_after_its_stream_is_read(tmp_path, store, arrays, caplog):
    hu = arrays()[0]
    path = store(tmp_path / "volume-0.nii.gz", hu)
    write(path, path.read_bytes(), b"GARBAGE")
    np.testing.assert_array_equal(read_volume(path).hu, hu)
    assert "volume-0.nii.gz: 7 bytes follow the compressed data" in caplog.text
    write(path, path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"volume-0\.nii\.gz: cannot be read as NIfTI or FreeSurfer: .*ends too early"):
        read_volume(path)


def test_far_more_data_than_voxels_is_not_decompressed(tmp_path, arrays, monkeypatch, caplog):
    monkeypatch.setattr(reading, "_SURPLUS_BYTES", 1 << 22)
    hu = arrays()[0]
    data = nibabel.Nifti1Image(hu, np.diag([1.5, 2, 3, 1])).to_bytes()
    for name, surplus in (("a.nii.gz", 1 << 21), ("b.nii.gz", 1 << 25)):
        compressed = bytearray(gzip.compress(data + bytes(surplus)))
        if name == "b.nii.gz":
            compressed[-6] ^= 1  # of the checksum, which is not reached
        np.testing.assert_array_equal(read_volume(write(tmp_path / name, compressed)).hu, hu)
    assert len(caplog.records) == 1
    assert "b.nii.gz: more than 4194304 bytes follow the voxels that its header declares; they are" in caplog.text
