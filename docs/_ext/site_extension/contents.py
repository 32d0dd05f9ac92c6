"""Builds the table of contents from plain Markdown, so that the pages are readable on GitHub.

`site_contents` in conf.py lists the parts of the site. The index page of each part contains a list of links, followed
by the comment `<!-- contents -->`. The linked pages are the pages of the part, in the order of the list.
"""

import re

_MARK = "<!-- contents -->"
_ITEM = re.compile(r"^- \[[^\]]*\]\(([^)#]+)\.(?:md|ipynb)\)", re.MULTILINE)


def toctree(pages: list[str]) -> str:
    """Returns a toctree, which appears only in the sidebar."""
    return "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])


def expand(text: str) -> str:
    """Replaces the comment of a page by a toctree of the pages in its list."""
    return text.replace(_MARK, toctree(_ITEM.findall(text)))


def setup(app) -> dict:
    app.add_config_value("site_contents", [], "env", list)

    def read(app, name, source):
        if name == app.config.root_doc:
            source[0] += f"\n\n{toctree(app.config.site_contents)}\n"
        else:
            source[0] = expand(source[0])

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
