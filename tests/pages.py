"""Extracts files and commands from the code blocks of documentation pages."""

import re
from pathlib import Path

_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_NAME = re.compile(r"# ([\w./]+\.(?:py|gin))\n")


def blocks(page: Path, language: str) -> list[str]:
    """Returns the code blocks in a language, except for files."""
    return [text for name, text in _BLOCK.findall(page.read_text()) if name == language and not _NAME.match(text)]


def files(page: Path) -> dict[str, str]:
    """Returns {file name: text} for the code blocks whose first line is a comment with a file name."""
    return {match[1]: text for _, text in _BLOCK.findall(page.read_text()) if (match := _NAME.match(text))}


def write_files(page: Path, folder: Path) -> None:
    """Writes the files of a page to a folder."""
    for name, text in files(page).items():
        (folder / name).write_text(text)


def command_lines(page: Path) -> list[str]:
    """Returns the commands in all bash blocks, with continued lines joined and without comment lines."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]
