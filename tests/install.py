"""Installs packages into the environment of the Python that runs it, and shows the progress.

Run `.venv/bin/python -m tests.install --editable ".[test]"`; the words are arguments of `pip install`. No other package
is needed. Each line of the output starts with the elapsed time. There is a line for each large download, and at least
one every 15 seconds. Lines are never overwritten, so that logs of CI are readable.
"""

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

PAUSE = 15.0  # seconds without a line, after which one says how far pip is
LARGE = 20.0  # MB; larger downloads get a line of their own


class Progress:
    """How far pip is, read from its output."""

    def __init__(self) -> None:
        self.requirements: set[str] = set()  # names of packages whose versions pip has chosen
        self.total = 0  # packages to install; 0 while pip still searches and downloads
        self._last = ""  # the last download

    def read(self, line: str) -> str:
        """Reads one line of pip, and returns a message about it, or "" if it is not worth one."""
        if match := re.match(r"(?:Collecting|Requirement already satisfied:|Obtaining) *([\w.-]+)", line):
            self.requirements.add(match[1].lower())
        elif match := re.match(r" *(Downloading|Using cached) (\S+) \(([\d.]+) ([kMG]B)\)", line):
            verb, file, size, unit = match.groups()
            name = Path(file).name.split("-")[0]
            self._last = f"{name}, {size} {unit}"
            if float(size) * {"kB": 0.001, "MB": 1, "GB": 1000}[unit] >= LARGE:
                return f"{verb.lower()} {self._last}"
        elif line.startswith("Building wheels for collected packages:"):
            return "building " + line.split(":", 1)[1].strip()
        elif line.startswith("Installing collected packages:"):
            self.total = line.count(",") + 1
            return f"unpacking {self.total} packages"
        return ""

    def status(self, unpacked: int) -> str:
        """Returns a message for a time without news.

        Args:
          unpacked: the number of packages that this run of pip has unpacked.
        """
        if self.total:
            return f"unpacked {min(unpacked, self.total)} of {self.total} packages"
        last = f", the last one {self._last}" if self._last else ""
        return f"found {len(self.requirements)} packages{last}"


def count_packages() -> int:
    """Returns the number of packages in this environment."""
    folders = {Path(path) for path in sys.path if path.endswith("site-packages")}
    return sum(1 for folder in folders for _ in folder.glob("*.dist-info"))


def run(command: list[str], say: Callable[[str], None], pause: float = PAUSE) -> int:
    """Runs pip and reports its progress.

    Args:
      command: the command; its errors go to standard error.
      say: is called with each message.
      pause: seconds without a message, after which one follows.

    Returns:
      The exit status.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    progress, before, news = Progress(), count_packages(), time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def read() -> None:
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        while True:
            message = ""
            try:
                line = lines.get(timeout=max(0.01, news + pause - time.monotonic()))
                if line is None:
                    return process.wait()
                message = progress.read(line)
            except queue.Empty:
                pass
            if not message and time.monotonic() >= news + pause:
                message = progress.status(count_packages() - before)
            if message:
                say(message)
                news = time.monotonic()


def main(words: list[str]) -> int:
    """Installs packages, and returns the exit status of pip.

    Args:
      words: arguments of `pip install`.
    """
    start = time.monotonic()

    def say(message: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - start), 60)
        print(f"{minutes:3}:{seconds:02}  {message}", flush=True)

    pip = [sys.executable, "-u", "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    status = run([*pip, *words], say)
    say("installed" if status == 0 else f"pip failed with exit status {status}; its message is above")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
