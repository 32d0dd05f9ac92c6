"""The built site: it loads nothing from the network, its links have targets, and its pages fit a narrow window."""

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed; make docs installs it")
from site_extension import docstrings, offline, repository_links

from tests import waiting

ROOT = Path(__file__).parents[1]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LOOK = """<script>
    addEventListener("load", () => setTimeout(() => {
      const pages = [...document.querySelectorAll("iframe")];
      document.title = pages.map((page) => {
        const root = page.contentDocument.documentElement;
        const hidden = [...page.contentDocument.querySelectorAll("article img")].filter((image) => !image.naturalWidth);
        return `${root.scrollWidth - root.clientWidth},${hidden.length}`;
      }).join(" ");
    }, 500));
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Builds the site with the options of `make docs`."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", folder / "doctrees"]
    command = [sys.executable, "-m", "sphinx", *options, "--builder", "html", ROOT / "docs", folder / "html"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_page_is_built(site):
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {Path("start/layouts.html"), *written} <= {path.relative_to(site) for path in site.rglob("*.html")}
    assert (site / "searchindex.js").stat().st_size > 10_000


@pytest.mark.slow
def test_no_page_loads_anything_from_the_network(site):
    assert not list(offline.check_folder(site))


@pytest.mark.slow
def test_links_of_the_pages_lead_somewhere(site):
    texts = {path: path.read_text() for path in site.rglob("*.html")}
    ids = {path: {html.unescape(name) for name in re.findall(r'\bid="([^"]*)"', text)} for path, text in texts.items()}
    for path, text in texts.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            parts = urlsplit(html.unescape(link))
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target in ids:
                assert unquote(parts.fragment) in ids[target], f"{path.relative_to(site)}: {link}"


@pytest.mark.slow
def test_the_reference_is_complete(site):
    assert 'id="train"' in (site / "reference/commands.html").read_text()
    assert 'id="mtf_imaging.engine.ops.conv3d"' in (site / "reference/api/ops.html").read_text()
    assert "unet3d.UNet3D.base_filters" in (site / "reference/gin.html").read_text()


def look(folder, width):
    """Opens the pages of a folder in frames of a width, because the window of the browser is at least 500 px wide.

    Returns:
      {page: (overflow in pixels, number of missing pictures)} for the pages with one of these faults.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html") if path.name != "look.html")
    frames = [f'<iframe src="{name}" style="width:{width}px;height:900px"></iframe>' for name in names]
    (folder / "look.html").write_text("\n".join([*frames, LOOK]))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]
    command += ["--allow-file-access-from-files", f"--user-data-dir={folder.parent / 'profile'}"]
    command += ["--virtual-time-budget=60000", f"--window-size={max(500, width)},1000", (folder / "look.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=waiting.LIMIT)
    (folder / "look.html").unlink()
    assert done.returncode == 0, done.stderr
    (title,) = re.findall(r"<title>(.*?)</title>", done.stdout)
    faults = [tuple(map(int, pair.split(","))) for pair in title.split()]
    return {name: fault for name, fault in zip(names, faults, strict=True) if fault != (0, 0)}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None or subprocess.run([CHROMIUM, "--version"], capture_output=True).returncode:
        pytest.skip("there is no browser that runs; install Debian's package chromium")


@pytest.mark.slow
@pytest.mark.parametrize("width", [420, 1400])
def test_pages_fit_the_window_and_show_their_pictures(site, browser, width):
    assert look(site, width) == {}


@pytest.mark.slow
def test_faults_of_a_page_are_found(browser, tmp_path):
    folder = tmp_path / "html"
    folder.mkdir()
    (folder / "good.html").write_text("<article>text</article>")
    (folder / "wide.html").write_text("<article><div style='width:600px'>text</div></article>")
    (folder / "lost.html").write_text("<article><img src='lost.png'></article>")
    faults = look(folder, 420)
    assert faults.keys() == {"wide.html", "lost.html"}
    assert faults["wide.html"][0] > 150
    assert faults["lost.html"] == (0, 1)


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.example.org/a.js"></script>',
        "<img alt='x' src='//example.org/a.png'>",
        '<link rel="stylesheet" href="http://example.org/a.css"/>',
        "@import url(https://fonts.example.org/css);",
        '@font-face { src: url("https://fonts.example.org/a.woff2") }',
    ],
)
def test_what_a_browser_loads_is_found(text, tmp_path):
    assert len(offline.loads_from_network(text)) == 1
    (tmp_path / "a.html").write_text(text)
    assert next(offline.check_folder(tmp_path)).startswith("a.html loads ")


def test_links_that_a_reader_clicks_are_not_loaded():
    text = '<a href="https://example.org">x</a><img src="a.png"><link href="b.css"><svg xmlns="http://www.w3.org/2000/svg">'
    assert not offline.loads_from_network(text)


def test_docstrings_become_restructured_text():
    docstring = """Splits `x`, a `Tensor`s* list.

    Text with a|b, name_ and `f(x)`.

        import mtf_imaging as mi

    Args:
      x, y: one
        or `two`.
      **rest: others.

    Returns:
      The sum: a number.

    Raises:
      DataError, ConfigError: it fails.
    """
    assert docstrings.to_restructured_text(docstring).splitlines() == [
        "Splits :py:obj:`x`, a :py:obj:`Tensor`\\ s\\* list.",
        "",
        "Text with a\\|b, name\\_ and ``f(x)``.",
        "",
        ".. code-block:: python",
        "",
        "    import mtf_imaging as mi",
        "",
        "",
        ":param x: one",
        ":param y: one",
        "        or :py:obj:`two`.",
        ":param \\*\\*rest: others.",
        "",
        "",
        ":returns:",
        "      The sum: a number.",
        "",
        "",
        ":raises:",
        "  - :py:exc:`DataError`, :py:exc:`ConfigError`: it fails.",
    ]


def test_code_that_ends_on_the_next_line_is_joined():
    lines = docstrings.to_restructured_text("A `b\nc` d `e\nf`.\n`g` h").splitlines()
    assert lines[:3] == ["A ``b c``", "d ``e f``.", ":py:obj:`g` h"]


def test_links_to_folders_become_text(tmp_path):
    (tmp_path / "models/unet").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").touch()
    text = "[The U-Net](../models/unet) and [a](a.md), [`models/unet`](../models/unet)"
    expected = "The U-Net (`models/unet/`) and [a](a.md), `models/unet`"
    assert repository_links.without_folders(text, tmp_path / "docs", tmp_path) == expected
