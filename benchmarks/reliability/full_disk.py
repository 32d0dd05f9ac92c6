"""Fills the disk during every writing command, frees it, repeats the command, and compares the result.

Each disk is a file system in memory, which needs the permission to mount.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.reliability import commands, good
from benchmarks.reliability.results import Results
from benchmarks.reliability.writers import WRITERS, Undisturbed, content

FILE = "reliability_full_disk.csv"
COLUMNS = ("command", "room", "outcome", "reason", "message")
ROOM = ("0%", "25%", "50%", "75%", "95%")  # shares of the space that the output needs
_LIMIT_S = 240.0
_BLOCK = 4096
_MESSAGE = "No space left on device"


def results(output_dir: Path) -> Results:
    """Returns the results file."""
    return Results(output_dir / FILE, COLUMNS, ("command", "room"))


def measure(
    output_dir: Path, only: Sequence[str] = (), again: bool = False, minutes: float | None = None
) -> list[dict[str, object]]:
    """Runs the commands on disks with too little space, and returns the failures; see `kills.measure`."""
    file, good_dir = results(output_dir), good.prepare(output_dir / "good")
    done = set() if again else file.keys()
    end = time.monotonic() + 60 * minutes if minutes else None
    failures = []
    for command in only or WRITERS:
        left = [room for room in ROOM if (command, room) not in done]
        if not left or (end is not None and time.monotonic() > end):
            continue
        place = output_dir / f"disk-{command}"
        shutil.rmtree(place, ignore_errors=True)
        whole = Undisturbed(WRITERS[command], good_dir, place, _LIMIT_S)
        for room in left:
            row = {"command": command, "room": room, **fill_once(whole, float(room[:-1]) / 100, place / "disk--00")}
            file.add(row)
            print(f"{row['outcome']:8} {command} {room} {row['reason']}", flush=True)
            if row["outcome"] == "failed":
                failures.append(row)
        shutil.rmtree(place)
    return failures


def fill_once(whole: Undisturbed, part: float, place: Path) -> dict[str, object]:
    """Runs a command on a disk with space for part of its output, and repeats it with enough space."""
    needed = sum(-(-len(data) // _BLOCK) * _BLOCK for data in whole.files.values())
    with _disk(place, 4 * needed + 2**24):
        out = place / "out"
        out.mkdir()
        _fill(place / "filler", int(part * needed))
        first = commands.run(whole.writer.words(whole.good, out), place, _LIMIT_S)
        reason = "" if first.code == 0 or "Traceback" not in first.text else "ended in a traceback"
        if not reason and first.code not in (0, 1, 75):
            reason = f"exit code {first.code}"
        if not reason and first.code and not (_MESSAGE in first.text and "Fix:" in first.text):
            reason = "the message does not name the full disk and a fix"
        if not reason and (name := whole.find_half_written(content(out))):
            reason = f"{name} has its final name, but is not whole"
        (place / "filler").unlink()
        if not reason and not whole.is_complete(out):
            second = commands.run(whole.writer.words(whole.good, out, again=True), place, _LIMIT_S)
            if second.code:
                reason = f"repeated: exit code {second.code}: {' '.join(second.text.split())[-200:]}"
        reason = reason or whole.find_difference(content(out))
    message = next((line for line in first.text.splitlines() if _MESSAGE in line), "")
    return {
        "outcome": "failed" if reason else "equal" if first.code else "fitted",
        "reason": reason,
        "message": message.replace(str(out), "OUT")[:300],
    }


@contextlib.contextmanager
def _disk(place: Path, size: int) -> Iterator[None]:
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        place.rmdir()
        raise SystemExit(f"cannot mount a file system: {done.stderr.strip()}. Fix: run this part as root.")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


def _fill(path: Path, leave: int) -> None:
    """Fills the disk that contains a file, except for some bytes."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(2**16)):
            pass
    os.truncate(path, max(0, path.stat().st_size - leave))
