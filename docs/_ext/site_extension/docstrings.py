"""Lets autodoc read the package's docstrings, which are plain text with Google's sections.

Sphinx's own reader of such docstrings, napoleon, takes the text before a colon in `Returns` for a type, and several
exceptions in one entry of `Raises` for a single name. The functions here know the package's conventions instead:

- An indented block outside of sections is an example in Python.
- A name in single backticks links to its description, if the site has one. Other text in backticks is code.
- Other characters mean themselves.
"""

import inspect
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.domains.python import PyClasslike
from sphinx.transforms.post_transforms import SphinxPostTransform

_SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):$")
_ENTRY = re.compile(r"  (?P<names>\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)(?: \([^)]*\))?: +(?P<text>\S.*)$")
_BACKTICKS = re.compile(r"(?<!`)`([^`]+)`(?!`)(\w?)")
_NAME = re.compile(r"(?:mi\.|[a-z_]+\.)*[A-Za-z_]\w*(?:\(\))?")
_FIELDS = {"Args": "param", "Attributes": "ivar", "Returns": "returns", "Raises": "raises", "Yields": "yields"}


def to_restructured_text(docstring: str) -> str:
    """Returns a docstring as reStructuredText.

    Args:
      docstring: the docstring, indented as in the source.
    """
    found: list[str] = []
    section, block = "", ""  # the current section; "example" or "doctest" within such a block
    for line in [*inspect.cleandoc(docstring).splitlines(), ""]:
        is_top = bool(line) and not line.startswith(" ")
        if block and (is_top if block == "example" else not line):
            block = ""
        if block:
            found.append(line)
        elif match := _SECTION.match(line):
            section = match[1]
            found.append("")
            if section in ("Returns", "Yields"):
                found.append(f":{_FIELDS[section]}:")
        elif line.startswith(">>> "):
            section, block = "", "doctest"
            found.append(line)
        elif is_top:
            section = ""
            found.append(_inline(line))
        elif section and line:
            found += _entry(section, line)
        elif line.startswith("    ") and found and not found[-1]:
            block = "example"
            found += [".. code-block:: python", "", line]
        else:
            found.append(_inline(line))
    return "\n".join(found)


def _entry(section: str, line: str) -> list[str]:
    """Returns a line of a section as a field, or as the continuation of one."""
    match = _ENTRY.match(line)
    if not match or section in ("Returns", "Yields"):
        return ["    " + _inline(line)]
    if section == "Raises":
        names = ", ".join(f":py:obj:`{name}`" for name in match["names"].split(", "))
        return [f":raises: {names}: {_inline(match['text'])}"]
    names = [name.replace("*", "\\*") for name in match["names"].split(", ")]
    return [f":{_FIELDS[section]} {name}: {_inline(match['text'])}" for name in names]


def _inline(text: str) -> str:
    """Returns text with links and code instead of backticks, and all other marks escaped."""
    pieces, end = [], 0
    for match in _BACKTICKS.finditer(text):
        pieces.append(_escaped(text[end : match.start()]))
        role = f":py:obj:`{match[1]}`" if _NAME.fullmatch(match[1]) else f"``{match[1]}``"
        # A mark must not touch a word, as in `Variable`s.
        lead = "\\ " if text[match.start() - 1 : match.start()].isalnum() else ""
        pieces.append(f"{lead}{role}\\ {match[2]}" if match[2] else f"{lead}{role}")
        end = match.end()
    return "".join([*pieces, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"([*|`]|_(?!\w))", r"\\\1", text)


class Dashes(SphinxPostTransform):
    """Replaces the two hyphens that Sphinx puts between a parameter and its description."""

    default_priority = 800

    def run(self) -> None:
        for field in self.document.findall(nodes.field_body):
            for text in list(field.findall(nodes.Text)):
                if text == " -- " and isinstance(field.parent.parent.parent, addnodes.desc_content):
                    text.parent.replace(text, nodes.Text(": "))


def setup(app) -> dict:
    def process(app, what, name, thing, options, lines):
        lines[:] = to_restructured_text("\n".join(lines)).splitlines()

    app.add_post_transform(Dashes)
    app.connect("autodoc-process-docstring", process)
    for field in PyClasslike.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True}
