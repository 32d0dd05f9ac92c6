"""The pages of the documentation: Python blocks run, commands exist, shown outputs are real, and links lead somewhere.

`test_own_model.py` and `test_packaging.py` run the blocks with a file name, together with the commands of their page.
`jobs/test_example.py` runs the example of docs/guides/notebooks.md. `test_docs_site.py` checks the built site.
"""

import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import mtf_imaging as mi
from mtf_imaging.cli.commands.all_commands import COMMANDS, flags_of, load
from mtf_imaging.cli.commands.launch import resolve_program
from mtf_imaging.cli.runtime import usage
from tests import pages

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
GENERATED = {
    ROOT / "docs/reference/commands.md",
    ROOT / "docs/reference/gin.md",
}  # their headings exist only on the site
# Commands that need neither data nor a GPU, and take seconds.
QUICK = ("explain", "search", "parameters")


def _name(page):
    return str(page.relative_to(ROOT))


def _of_pages(read):
    return [pytest.param(item, id=f"{_name(page)}-{n}") for page in PAGES for n, item in enumerate(read(page))]


def _python_blocks(page):
    return [] if page.name == "notebooks.md" else pages.blocks(page, "python")


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("code", _of_pages(_python_blocks))
def test_python_blocks_run(code):
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("block", _of_pages(lambda page: pages.outputs(page, "python")))
def test_python_blocks_print_the_text_below_them(block, capsys):
    code, text = block
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})
    assert capsys.readouterr().out == text


def _quick_commands(page):
    return [
        pair for pair in pages.commands_with_output(page) if re.match(rf"mtf-imaging ({'|'.join(QUICK)})\b", pair[0])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("block", _of_pages(_quick_commands))
def test_commands_print_the_text_below_them(block, tmp_path):
    """The command prints the lines of the page in this order; "..." stands for any text or for omitted lines."""
    line, text = block
    command = [sys.executable, "-m", "mtf_imaging.cli.main", *shlex.split(line)[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = re.sub(r"[ \t]+", " ", done.stdout)
    place = 0
    for shown in filter(None, (re.sub(r"[ \t]+", " ", line) for line in text.splitlines())):
        match = re.compile(".*".join(map(re.escape, shown.split("...")))).search(printed, place)
        assert match, f"not printed, or in another order: {shown!r}"
        place = match.end()


def test_the_reader_of_outputs(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n1\n```\n\n```text\na\n```\n\n```python\n2\n```\n\nIt prints:\n\n```text\nb\n```\n\n"
        "```python\n3\n```\n\nText.\n\n```text\nc\n```\n\n```bash\nls \\\n  -l\n```\n\n```text\nd\n```\n"
    )
    assert pages.outputs(page, "python") == [("1\n", "a\n"), ("2\n", "b\n")]
    assert pages.commands_with_output(page) == [("ls    -l", "d\n")]


def _command_lines():
    for page in PAGES:
        for line in pages.command_lines(page):
            yield shlex.split(line, comments=True)


def test_pages_have_no_merge_conflicts():
    marked = [page.name for page in PAGES if re.search(r"^(<{7}|={7}|>{7})( |$)", page.read_text(), re.MULTILINE)]
    assert not marked


def test_every_command_line_is_one():
    seen = set()
    for words in _command_lines():
        if words[0] == "mtf-imaging" and words[1] not in ("--help", "--version"):
            command = importlib.import_module(f"mtf_imaging.cli.commands.{words[1]}")
            if "--help" not in words:
                values = usage.parse_flags(words[1], command, words[2:])  # raises the error that a user would see
                if words[1] == "launch":
                    resolve_program(values.command)
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
        elif words[:2] == ["python", "-m"] and words[2].partition(".")[0] in ("benchmarks", "tests", "mtf_imaging"):
            assert importlib.util.find_spec(words[2]), words
        seen.add(words[0])
    assert {"mtf-imaging", "make"} <= seen


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_in_sentences_exist(page):
    for code in pages.inline_code(page.read_text()):
        match = re.match(r"mtf-imaging ([a-z]+)\b(.*)", code)
        if match:
            assert match[1] in COMMANDS, code
            values = flags_of(load(match[1]))
            given = re.findall(r"(?:^| )--(\w+)(?![\w.])", match[2].partition(" -- ")[0])
            assert not {*given} - {*values, "help", "gin"}, code
        elif match := re.match(r"make ([a-z][a-z-]*)\b", code):
            assert re.search(rf"^{match[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), code


def _text(page):
    """Returns the Markdown of a page. A page that only includes a file has the Markdown of that file."""
    text = page.read_text()
    if match := re.match(r"```\{include\} (\S+)\n", text):
        text = (page.parent / match[1]).read_text()
    return text


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page):
    for link in pages.links(page.read_text()):
        if urlsplit(link).scheme:
            continue
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if fragment and target.suffix == ".md" and target.resolve() not in GENERATED:
            assert fragment in pages.anchors(_text(target)), link


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_to_other_sites_are_addresses(page):
    for link in pages.links(page.read_text()):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme in ("https", "http", "mailto"), link
            assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.hostname or ""), link


def test_anchors_are_those_of_github():
    text = "# A `b` [c](d.md)\n```bash\n# none\n```\n## x: y, 50 %\n## Same\n### Same\n## from_x\n"
    assert pages.anchors(text) == {"a-b-c", "x-y-50-", "same", "same-1", "from_x"}
    assert pages.links("[a `[1]`](b.md#c) ![p](q.png)\n```text\n[no](x)\n```\n") == ["b.md#c", "q.png"]


@pytest.mark.parametrize(
    ("fn", "image", "layout"),
    [
        (
            lambda image: mi.ops.softmax(image, image.shape.dims[-1]),
            "batch:1,x:12,y:8,classes:3",
            ("rows:2,cols:3", "x:rows,y:rows,classes:cols"),
        ),
        (
            lambda image: mi.mtf.layers.max_pool2d(image, (2, 2)),
            "batch:1,x:6,y:4,channels:2",
            ("rows:2", "x:rows"),
        ),
    ],
    ids=["mi.ops", "mesh_tensorflow"],
)
def test_the_errors_on_the_page_are_those_that_are_raised(fn, image, layout):
    with pytest.raises(mi.LayoutError) as error:
        mi.Program(fn, {"image": image}, *layout)
    assert str(error.value) + "\n" in pages.blocks(ROOT / "docs/reference/errors.md", "text")
