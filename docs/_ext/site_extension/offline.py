"""Checks that the built pages load nothing from the network."""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.errors import ExtensionError

# Addresses that a browser loads without a click: of scripts and pictures, of style sheets and icons, and in CSS.
_SOURCE = re.compile(
    r"""<(?!a\b)[a-z]+\b[^>]*?\b(?:src|srcset|poster|data)\s*=\s*["']?\s*((?:https?:)?//[^"'\s>]+)""", re.I
)
_LINKED = re.compile(r"""<link\b[^>]*?\bhref\s*=\s*["']?\s*((?:https?:)?//[^"'\s>]+)""", re.I)
_STYLE = re.compile(r"""(?:@import\s+|url\()\s*["']?\s*((?:https?:)?//[^"')\s]+)""", re.I)


def loads_from_network(text: str) -> list[str]:
    """Returns the network addresses that a browser would load with a page or a style sheet."""
    return [match[1] for pattern in (_SOURCE, _LINKED, _STYLE) for match in pattern.finditer(text)]


def check_folder(folder: Path) -> Iterator[str]:
    """Yields a message for each network address that a file in a folder loads."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css", ".svg"):
            for address in loads_from_network(path.read_text()):
                yield f"{path.relative_to(folder)} loads {address}"


def setup(app) -> dict:
    def check(app, error):
        if error is None and app.builder.format == "html":
            faults = list(check_folder(Path(app.outdir)))
            if faults:
                raise ExtensionError("\n".join([*faults, "Fix: put the files into docs/_static."]))

    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
