"""A wall clock that jumps in one process, using the library libfaketime (Debian: faketime)."""

from pathlib import Path

FOLDERS = ("/usr/lib", "/usr/local/lib")
_NAME = "libfaketimeMT.so.1"
_FILE = "clock"


def find_library() -> Path | None:
    """Returns the library, or None if it is not installed."""
    return next((path for folder in FOLDERS for path in sorted(Path(folder).rglob(_NAME))), None)


def find_missing() -> str:
    """Returns the reason that the clock of a process cannot jump here, or ""."""
    return "" if find_library() else f"{_NAME} is not installed (Debian: apt-get install faketime)"


def environment(folder: Path) -> dict[str, str]:
    """Returns variables that make a process read its clock from a file; its monotonic clock is unchanged.

    Args:
      folder: the folder of the file.
    """
    set_offset(folder, 0)
    return {
        "LD_PRELOAD": str(find_library()),
        "FAKETIME_TIMESTAMP_FILE": str(folder / _FILE),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",  # the name of this variable until version 0.9.9
    }


def set_offset(folder: Path, seconds: int) -> None:
    """Makes the process's clock jump.

    Args:
      folder: the folder of the file.
      seconds: the difference to the true time.
    """
    part = folder / f"{_FILE}.new"
    part.write_text(f"{seconds:+d}\n")
    part.replace(folder / _FILE)
