"""Reads a page of the documentation: files to write, commands to run, code with its output, headings and links."""

import re
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^(```+)(?!`).*?^\1`*$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"# ([\w./]+\.(?:py|gin))\n")
_LINK = re.compile(r"!?\[(?:[^\]`]|`[^`]*`)*\]\(([^)\s]+)\)")
# a block and its output, which follows directly or after one line such as "It prints:"
_OUTPUT = r"^```{}\n(.*?)^```\n\n(?:[^\n`]+:\n\n)?```text\n(.*?)^```"


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


def outputs(page: Path, language: str) -> list[tuple[str, str]]:
    """Returns pairs of a code block and the text block with its output."""
    pattern = re.compile(_OUTPUT.format(language), re.DOTALL | re.MULTILINE)
    pairs = [match.groups() for match in pattern.finditer(page.read_text())]
    return [(code, text) for code, text in pairs if "\n```" not in code]


def command_lines(page: Path) -> list[str]:
    """Returns the commands in all bash blocks, with continued lines joined and without comment lines."""
    return _lines("\n".join(blocks(page, "bash")))


def _lines(text: str) -> list[str]:
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def commands_with_output(page: Path) -> list[tuple[str, str]]:
    """Returns pairs of a command and the text block with its output."""
    pairs = [(_lines(block), text) for block, text in outputs(page, "bash")]
    return [(lines[0], text) for lines, text in pairs if len(lines) == 1]


def prose(text: str) -> str:
    """Removes the code blocks from Markdown."""
    return _FENCE.sub("", text)


def inline_code(text: str) -> list[str]:
    """Returns the inline code of Markdown."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(text))


def links(text: str) -> list[str]:
    """Returns the targets of links and pictures."""
    return _LINK.findall(prose(text))


def anchors(text: str) -> set[str]:
    """Returns the link fragments of the headings, as on GitHub."""
    counts: dict[str, int] = {}
    slugs = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", prose(text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = counts.get(slug, 0)
        counts[slug] = number + 1
        slugs.add(f"{slug}-{number}" if number else slug)
    return slugs
