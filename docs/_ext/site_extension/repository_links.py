"""Links from pages to the code.

On GitHub, a page can link to a folder or a source file of the repository. The site contains neither. There, the path
replaces a link to a folder. A link to a file downloads the file, which is what MyST does by default.
"""

import re
from pathlib import Path

_LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)#:\s]+)\)")


def without_folders(text: str, folder: Path, root: Path) -> str:
    """Replaces links to folders of the repository.

    Args:
      text: Markdown.
      folder: the folder that links are relative to.
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
