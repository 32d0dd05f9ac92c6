"""Tables of contents from plain Markdown, which GitHub shows as well.

The front page names its parts in `site_contents` of conf.py. The page of a part is a list of links, followed by the
comment `<!-- contents -->`: the pages that the list links to are the pages of the part, in this order.
"""

import re

_MARK = "<!-- contents -->"
_ITEM = re.compile(r"^- \[[^\]]*\]\(([^)#]+)\.(?:md|ipynb)\)", re.MULTILINE)


def toctree(pages: list[str]) -> str:
    """Returns a table of contents that only the sidebar shows."""
    return "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])


def expand(text: str) -> str:
    """Replaces the comment of a page by a table of contents of the pages that its list links to."""
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
