"""The documentation does what it says: Python blocks run, and every command line in it is one.

Blocks that are files of a name are run with the commands of their page, by `test_own_model.py` and `test_packaging.py`;
the example of docs/guides/notebooks.md runs in `jobs/test_example.py`.
"""

import importlib
import re
import shlex
from pathlib import Path

import pytest

import mtf_imaging as mi
from mtf_imaging.cli.runtime import usage
from tests import pages

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def _blocks(language):
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, text in enumerate(pages.blocks(page, language))
    ]


@pytest.mark.parametrize("code", [block for block in _blocks("python") if not block.id.startswith("notebooks.md")])
def test_python_blocks_run(code):
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def _command_lines():
    for page in PAGES:
        for line in pages.command_lines(page):
            yield shlex.split(line, comments=True)


def test_every_command_line_is_one():
    seen = set()
    for words in _command_lines():
        if words[0] == "mtf-imaging":
            command = importlib.import_module(f"mtf_imaging.cli.commands.{words[1]}")
            usage.parse_flags(words[1], command, words[2:])  # raises what a user would see
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
        seen.add(words[0])
    assert {"mtf-imaging", "make"} <= seen


def test_the_layout_error_in_the_documentation_is_real():
    page = ROOT / "docs/reference/errors.md"
    shown = re.search(r"```text\n(layout .*?)\n```", page.read_text(), re.DOTALL).group(1)
    inputs = {
        "image": "batch:1,x:5",
        "other": "batch:1,x:4,y:6,z:4,channels:3",
        "kernel": "fx:1,fy:3,fz:3,channels:3,filters:4",
    }
    with pytest.raises(mi.LayoutError) as error:
        mi.Program(
            lambda image, other, kernel: (image * 2, mi.ops.conv3d(other, kernel, (1, 2, 2), name="stem")),
            inputs,
            "rows:2,cols:2",
            "x:rows,y:cols",
        )
    assert str(error.value) == shown
