"""The code map in CONTRIBUTING.md lists every package, and the first lines of files say the rest."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests import pages
from tests.map import first_line, lines

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"


def mapped(text: str) -> Iterator[Path]:
    """Yields the paths in a code map: folders by indentation, and files on or below the lines of their folders."""
    folders: list[Path] = []
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names, *rest = re.split(r"\s{2,}", line.strip(), maxsplit=1)
        folders, here = folders[:depth], Path(*folders[:depth][-1:])
        if names.endswith("/"):
            here = here / names
            folders.append(here)
            yield here
            names = ""
        files = re.findall(r"\b\w+\.py\b", " ".join([names, *rest]))
        yield from (here / file for file in files)


def test_the_reader_of_maps():
    text = "a/            text\n  b.py c.py    more of b\n  d/         e.py and f.py\n    g.py   text\nh/\n"
    assert [str(path) for path in mapped(text)] == [
        "a",
        "a/b.py",
        "a/c.py",
        "a/d",
        "a/d/e.py",
        "a/d/f.py",
        "a/d/g.py",
        "h",
    ]


def the_map() -> set[Path]:
    (text,) = [block for block in pages.blocks(PAGE, "text") if block.startswith("mtf_imaging/")]
    assert len(text.splitlines()) <= 24, "the map no longer fits on a page"
    return {*mapped(text)}


def test_every_file_in_the_map_exists():
    missing = [str(path) for path in the_map() if not (ROOT / path).exists()]
    assert not missing


def test_the_map_lists_every_package_and_the_first_lines_of_files_say_the_rest():
    units = {path.parent.relative_to(ROOT) for path in (ROOT / "mtf_imaging").glob("*/__init__.py")}
    units |= {path.relative_to(ROOT) for path in (ROOT / "mtf_imaging").glob("[a-z]*.py")}
    assert not {str(path) for path in units - the_map()}
    files = [path for folder in ("mtf_imaging", "models", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert not [str(path) for path in files if not first_line(path)]


def test_the_printed_map():
    text = "\n".join(lines(ROOT / "mtf_imaging/engine/processes"))
    assert re.search(r"^processes/ +The processes of one program", text)
    assert re.search(r"^  slurm.py +The tasks of a Slurm step", text, re.MULTILINE)
