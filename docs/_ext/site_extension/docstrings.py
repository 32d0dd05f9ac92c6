"""Lets autodoc read the package's docstrings, which are plain text with Google's sections.

Sphinx's own reader of such docstrings, napoleon, takes the text before a colon in `Returns` for a type, and several
exceptions in one entry of `Raises` for a single name. The functions here know the package's conventions instead:

- An indented block outside of sections is code.
- A name in single backticks links to its description, if the site has one. Other text in backticks is code.
- Other characters mean themselves.
"""

import ast
import inspect
import itertools
import re
import textwrap

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
    lines = [*_whole_backticks(inspect.cleandoc(docstring).splitlines()), ""]
    for number, line in enumerate(lines):
        is_top = bool(line) and not line.startswith(" ")
        if block and (is_top if block == "example" else not line):
            block = ""
        if block:
            found.append(line)
        elif match := _SECTION.match(line):
            section = match[1]
            found.append("")
            if section in ("Returns", "Raises", "Yields"):
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
            found += [f".. code-block:: {_language(lines[number:])}", "", line]
        else:
            found.append(_inline(line))
    return "\n".join(found)


def _whole_backticks(lines: list[str]) -> list[str]:
    """Moves the end of code in backticks that continues on the next line to the line on which it begins."""
    found: list[str] = []
    for line in lines:
        if found and found[-1].count("`") % 2 and "`" in line:
            end, _, rest = line.strip().partition("`")
            found[-1] += f" {end}`"
            line = line[: len(line) - len(line.lstrip())] + rest.lstrip() if rest.strip(" .,;:)") else ""
            found[-1] += "" if line else rest.rstrip()
            if not line:
                continue
        found.append(line)
    return found


def _language(lines: list[str]) -> str:
    """Returns the language of the block that lines begin with."""
    block = itertools.takewhile(lambda line: not line or line.startswith(" "), lines)
    try:
        ast.parse(textwrap.dedent("\n".join(block)))
    except SyntaxError:
        return "text"
    return "python"


def _entry(section: str, line: str) -> list[str]:
    """Returns a line of a section as a field, or as the continuation of one."""
    match = _ENTRY.match(line)
    if not match or section in ("Returns", "Yields"):
        return [f"    {_inline(line)}"]
    if section == "Raises":
        names = ", ".join(f":py:exc:`{name}`" for name in match["names"].split(", "))
        return [f"  - {names}: {_inline(match['text'])}"]
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


class Colons(SphinxPostTransform):
    """Puts a colon between a parameter and its description, where Sphinx writes two hyphens."""

    default_priority = 800

    def run(self) -> None:
        for field in self.document.findall(nodes.field_body):
            for text in list(field.findall(nodes.Text)):
                if text == " -- " and isinstance(field.parent.parent.parent, addnodes.desc_content):
                    text.parent.replace(text, nodes.Text(": "))


def setup(app) -> dict:
    def process(app, what, name, thing, options, lines):
        lines[:] = to_restructured_text("\n".join(lines)).splitlines()

    def hide_protocol(app, what, name, thing, options, signature, returns):
        is_protocol = what == "class" and getattr(thing, "_is_protocol", False)
        return ("", None) if is_protocol else None  # Python's own signature of a protocol takes anything

    app.connect("autodoc-process-signature", hide_protocol)
    app.add_post_transform(Colons)
    app.connect("autodoc-process-docstring", process)
    for field in PyClasslike.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True}
