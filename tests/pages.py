"""What a page of the documentation holds: files to write, and commands to run."""

import re
from pathlib import Path

_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_NAME = re.compile(r"# ([\w./]+\.(?:py|gin))\n")


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a language that are no files."""
    return [text for found, text in _BLOCK.findall(page.read_text()) if found == language and not _NAME.match(text)]


def files(page: Path) -> dict[str, str]:
    """The blocks whose first line is a comment with a file's name, by that name."""
    return {match[1]: text for _, text in _BLOCK.findall(page.read_text()) if (match := _NAME.match(text))}


def write_files(page: Path, folder: Path) -> None:
    """Writes the files of a page into a folder."""
    for name, text in files(page).items():
        (folder / name).write_text(text)


def command_lines(page: Path) -> list[str]:
    """The lines of all bash blocks, with those that go on in the next one joined, without comments of a whole line."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]
