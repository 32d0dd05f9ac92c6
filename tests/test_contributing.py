"""The code map in CONTRIBUTING.md: every file in it exists, and it lists every package."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests import pages

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
    return {*mapped(text)}


def test_every_file_in_the_map_exists():
    missing = [str(path) for path in the_map() if not (ROOT / path).exists()]
    assert not missing


def test_the_map_lists_every_package_and_every_module_below_the_command_line():
    paths = the_map()
    packages = {path.parent.relative_to(ROOT) for path in (ROOT / "mtf_imaging").rglob("__init__.py")}
    assert not {str(path) for path in packages - paths}
    # Modules that a reader finds through another file in the same folder.
    through_another = re.compile(r"planner/render/picture_\w+|evaluation/report/\w+|cli/commands/\w+|__init__")
    modules = {path.relative_to(ROOT) for path in (ROOT / "mtf_imaging").rglob("*.py")}
    lacking = {str(path) for path in modules - paths if not through_another.search(str(path.with_suffix("")))}
    assert not lacking
