"""Full disks, read-only disks and unreadable files, for tests."""

import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounting(place):
    """Yields a function that mounts a file system in memory with given options, or remounts it with other options."""
    place.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this system cannot mount a file system: {done.stderr.strip()}")
        return place

    yield mount
    subprocess.run(["umount", "--lazy", str(place)], capture_output=True)


def fill(folder, leave):
    """Fills the disk of a folder, except for `leave` bytes."""
    with open(folder / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(2**12)):
            pass
    os.truncate(folder / "filler", max(0, (folder / "filler").stat().st_size - leave))


@contextlib.contextmanager
def no_file_larger_than(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def as_nobody():
    """Drops the privileges of root in the block, so that file permissions also apply if root runs the tests."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@contextlib.contextmanager
def open_folder():
    """Yields a folder that all users can access; only the owner can access the folders of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(folder)
