"""Replaces links from pages to source code.

On GitHub, a page can link to a folder or a file of the repository, which the site does not contain. On the site, a link
to a folder becomes text with its path. MyST turns a link to a file into a download.
"""

import re
from pathlib import Path

_LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)#:\s]+)\)")


def without_folders(text: str, folder: Path, root: Path) -> str:
    """Replaces links to folders with text.

    Args:
      text: the Markdown of a page.
      folder: the folder of the page, which its links are relative to.
      root: the folder of the repository.
    """

    def replacement(match: re.Match) -> str:
        target = (folder / match[2]).resolve()
        if not target.is_dir():
            return match[0]
        path = target.relative_to(root)
        return match[1] if str(path) in match[1] else f"{match[1]} (`{path}/`)"

    return _LINK.sub(replacement, text)


def setup(app) -> dict:
    root = Path(app.srcdir).parent.resolve()

    def read(app, name, source):
        page = Path(app.env.doc2path(name))
        if page.suffix == ".md":
            source[0] = without_folders(source[0], page.parent, root)

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
