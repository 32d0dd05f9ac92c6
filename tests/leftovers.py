"""Temporary files of processes that have ended, and processes that are killed before each change of the disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

from mtf_imaging.files.partial import partial_path

_KILL = """
import os, signal, sys
from pathlib import Path

program, place, *changes = sys.argv[1:]
names, scope = {f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "symlink", "link", "truncate")}, {}
begin = compile(program, "program", "exec")

def kill_before(number):
    seen = []
    def count(event, arguments):
        if event in names or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            seen.append(event)
            if len(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)

for position, changing in enumerate(changes):
    code = compile(changing, "changing", "exec")
    for number in range(1, 1000):
        folder = Path(place, str(position), str(number))
        folder.mkdir(parents=True)
        scope["folder"] = folder
        exec(begin, scope)
        child = os.fork()
        if child == 0:
            kill_before(number)
            exec(code, scope)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
"""


def ended_path(path: Path) -> Path:
    """Returns a temporary path next to `path` as a process has left it that had this PID at another time."""
    own = partial_path(path)
    return own.with_name(re.sub(rf"-{os.getpid()}-\d+", f"-{os.getpid()}-1", own.name, count=1))


def kill_at_every_change(folder: Path, before: str, *changes: str) -> list[list[Path]]:
    """Runs code in processes that are killed before their first, second, ... change of the disk.

    They are forked from one process, so that its imports take their time once for all changes.

    Args:
      folder: receives a folder for each of these processes, named `folder` in the code.
      before: code that runs first and is not interrupted.
      *changes: code whose process is killed before it calls the operating system to change the disk. The last process
        completes it.

    Returns:
      The folders of the killed processes, for each change.
    """
    folder.mkdir()
    subprocess.run([sys.executable, "-c", _KILL, before, str(folder), *changes], check=True)
    places = [folder / str(position) for position in range(len(changes))]
    return [sorted(place.iterdir(), key=lambda path: int(path.name))[:-1] for place in places]
