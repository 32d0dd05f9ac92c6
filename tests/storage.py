"""Disks that are full or read-only, and files that may not be read, for tests."""

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
    """A file system of its own in memory: a function of options that mounts it, or changes it when called again."""
    place.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return place

    yield mount
    subprocess.run(["umount", "--lazy", str(place)], capture_output=True)


def fill(folder, leave):
    """Fills the disk of a folder but for some bytes."""
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
    """Drops root's rights for the block, so that permissions bind the tests of root, too."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@contextlib.contextmanager
def open_folder():
    """A folder that any user can reach; pytest's are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(folder)
