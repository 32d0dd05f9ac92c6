"""Tests conversion to full or read-only disks: the message names the file, and no data are lost."""

import os
import re

import pytest

from mtf_imaging.cli.main import main
from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.records.manifest import record_path
from tests.records import contents, damage, names
from tests.storage import fill, no_file_larger_than


@pytest.fixture
def many(lits_dir, store, arrays):
    """Six cases."""
    for number in (11, 12, 13):
        hu, labels = arrays(number)
        store(lits_dir / f"volume-{number}.nii.gz", hu)
        store(lits_dir / f"segmentation-{number}.nii.gz", labels)
    return lits_dir


def convert(cases, out, workers=1):
    words = ["--input_dir", cases, "--output_dir", out, "--resolution", 16, "--workers", workers]
    return main([str(word) for word in ("convert", *words)])


def disk_bytes(folder):
    """Returns the size of a folder on a disk that stores whole blocks of 4 KiB."""
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_full_disk_loses_nothing_and_conversion_resumes_when_there_is_room(many, tmp_path, mounted, capfd, workers):
    assert convert(many, tmp_path / "whole") == 0
    whole = contents(tmp_path / "whole")
    disk = mounted("size=1m")
    fill(disk, disk_bytes(tmp_path / "whole") // 2)
    assert convert(many, disk / "out", workers) == 1
    message = capfd.readouterr().err
    assert re.search(r"case-\d+\.ome\.zarr", message)
    assert "No space left on device. Fix: free some disk space; files that were complete are unchanged." in message
    assert "Traceback" not in message
    written = contents(disk / "out")
    assert 0 < len(names(disk / "out")) < len(find_cases(many))
    assert written.items() <= whole.items()
    (disk / "filler").unlink()
    assert convert(many, disk / "out", workers) == 0
    assert contents(disk / "out") == whole


def test_a_file_size_limit_is_reported(many, tmp_path, capfd):
    with no_file_larger_than(3 * 16**3 // 4):  # a quarter of the voxels of a record
        assert convert(many, tmp_path / "out") == 1
    message = capfd.readouterr().err
    assert record_path(tmp_path / "out", "2").name in message
    assert "File too large" in message
    assert "Traceback" not in message
    assert not (tmp_path / "out").exists()  # no folder is left behind


def test_a_read_only_folder_is_reported_at_once(many, tmp_path, mounted, capfd):
    if os.getuid():
        out = tmp_path / "out"
        convert(many, out)
        out.chmod(0o555)
    else:  # permissions do not stop root, but a read-only file system does
        out = mounted("size=1m") / "out"
        convert(many, out)
        mounted("remount,ro")
    before = contents(out)
    capfd.readouterr()
    assert convert(many, out) == 1
    message = capfd.readouterr().err
    assert message.startswith(f"mtf-imaging: {out}/")
    assert message.endswith("Fix: check the permissions and the disk, or give another folder.\n")
    assert contents(out) == before
    out.chmod(0o755) if os.getuid() else None


def test_a_corrupt_record_is_made_again(many, tmp_path):
    assert convert(many, tmp_path / "out") == 0
    whole = contents(tmp_path / "out")
    damage(record_path(tmp_path / "out", "9"))
    assert convert(many, tmp_path / "out") == 0
    assert contents(tmp_path / "out") == whole
