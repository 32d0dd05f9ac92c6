"""Commands that are killed at random moments and restarted write the same bytes as undisturbed commands."""

import contextlib
import os
import random
import time
from pathlib import Path

import nibabel
import pytest

from mtf_imaging.data.phantom import make_case
from tests import forked, waiting

NUM_CASES = 4
KILLS = 10
TINY = [
    *("--gin_file", "unet3d_demo", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=1", "--gin.UNet3D.convs=1"),
    *("--seed", "3", "--num_steps", "2"),
]

pytestmark = [pytest.mark.kill, pytest.mark.slow]


def start(*words):
    """Starts a command in a new process."""
    return forked.start("mtf_imaging.cli.main", *words)


def run(*words):
    forked.run("mtf_imaging.cli.main", *words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Cases of half the usual resolution, and a network after two training steps."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "cases").mkdir()
    for number in range(NUM_CASES):
        for name, image in zip(("volume", "segmentation"), make_case(1, number), strict=True):
            nibabel.save(image.slicer[::2, ::2, ::2], folder / f"cases/{name}-{number}.nii.gz")
    run("convert", "--input_dir", folder / "cases", "--output_dir", folder / "records", "--resolution", 16)
    run("train", "--data_dir", folder / "records", "--model_dir", folder / "model", *TINY)
    return folder


def content(folder):
    """Returns the bytes of every file below a folder, by relative path."""
    files = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            # Workers of a killed command may still rename or remove their files while this looks.
            with contextlib.suppress(FileNotFoundError):
                files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def settled(folder):
    """Returns the content of a folder after all workers of a killed command have ended."""
    before, now = None, content(folder)
    while now != before:
        time.sleep(0.3)
        before, now = now, content(folder)
    return now


def whole(files):
    """Returns the files without those that are hidden or in hidden folders, which no command reads."""
    return {name: data for name, data in files.items() if not any(part[0] == "." for part in Path(name).parts)}


def complete(files, expected):
    """Returns the expected files of all records of which there is a file."""
    records = {Path(name).parts[0] for name in files if Path(name).parts[0].endswith(".zarr")}
    return {name: data for name, data in expected.items() if name in files or Path(name).parts[0] in records}


def kill_ten_times(command, tmp_path, seed):
    """Kills a command ten times, five times while it writes, and restarts it; uses a new output folder each time.

    Args:
      command: a function that returns the words of the command for an output folder.
      tmp_path: the folder for the output folders.
      seed: the seed of the random moments.
    """
    began = time.monotonic()
    run(*command(tmp_path / "whole"))
    seconds = time.monotonic() - began
    expected = content(tmp_path / "whole")
    draw = random.Random(seed)
    moments = [(kind, draw.random()) for _ in range(KILLS // 2) for kind in ("any", "writing")]
    print(f"seed {seed}, {seconds:.1f} s: {moments}")
    halfway = 0
    for number, (kind, part) in enumerate(moments):
        out = tmp_path / f"killed-{number}"
        process = start(*command(out))
        _wait(process, out, kind, part, seconds, len(expected))
        process.kill()
        process.join()
        left = whole(settled(out))
        halfway += 0 < len(left) < len(expected)
        # Incomplete files and records never have their final names.
        assert left == complete(left, expected), f"kill {number}, {kind} {part}"
        run(*command(out))
        assert content(out) == expected, f"kill {number}, {kind} {part}"
    assert halfway > 0, "no kill happened while the output was incomplete, so the test shows nothing"


def _wait(process, out, kind, part, seconds, num_files):
    """Waits for a fraction of the duration of the command, or until it has written a fraction of its files."""
    began = time.monotonic()

    def is_there():
        if kind == "any":
            return time.monotonic() - began > part * seconds
        return out.exists() and len(content(out)) > part * num_files

    waiting.wait_until(lambda: is_there() or not process.is_alive(), kind, [process], every=0.001, may_end=True)


def test_convert_killed_ten_times(folder, tmp_path):
    words = ["convert", "--input_dir", folder / "cases", "--resolution", 24, "--workers", 2, "--output_dir"]
    kill_ten_times(lambda out: [*words, out], tmp_path, seed=1)


def test_evaluate_killed_ten_times(folder, tmp_path):
    words = ["evaluate", "--model_dir", folder / "model", "--input_dir", folder / "cases", "--output_dir"]
    kill_ten_times(lambda out: [*words, out], tmp_path, seed=2)
