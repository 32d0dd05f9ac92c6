"""Converts the docstrings of the package, which are plain text with Google's sections, for autodoc.

Sphinx has an extension for such docstrings, napoleon. It reads the text before a colon in `Returns` as a type, and
several exceptions in one entry of `Raises` as a single name. This module follows the conventions of the package:

- An indented block outside of sections is code.
- A name in single backticks links to its description, if the site has one. Other text in backticks is code.
- All other characters are plain text.
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
_PRIVATE = re.compile(r", _\w+: [^=()]*= \w+(?=[,)])")  # a private parameter with its default
_FIELDS = {"Args": "param", "Attributes": "ivar", "Returns": "returns", "Raises": "raises", "Yields": "yields"}


def to_restructured_text(docstring: str) -> str:
    """Converts a docstring to reStructuredText.

    Args:
      docstring: the docstring, with or without its indentation.
    """
    result: list[str] = []
    section, block = "", ""  # the current section; "example" or "doctest" within such a block
    lines = [*_whole_backticks(inspect.cleandoc(docstring).splitlines()), ""]
    for number, line in enumerate(lines):
        is_top = bool(line) and not line.startswith(" ")
        if block and (is_top if block == "example" else not line):
            block = ""
        if block:
            result.append(line)
        elif match := _SECTION.match(line):
            section = match[1]
            result.append("")
            if section in ("Returns", "Raises", "Yields"):
                result.append(f":{_FIELDS[section]}:")
        elif line.startswith(">>> "):
            section, block = "", "doctest"
            result.append(line)
        elif is_top:
            section = ""
            result.append(_inline(line))
        elif section and line:
            result += _entry(section, line)
        elif line.startswith("    ") and result and not result[-1]:
            block = "example"
            result += [f".. code-block:: {_language(lines[number:])}", "", line]
        else:
            result.append(_inline(line))
    return "\n".join(result)


def _whole_backticks(lines: list[str]) -> list[str]:
    """Joins code in backticks that is split over two lines."""
    result: list[str] = []
    for line in lines:
        if result and result[-1].count("`") % 2 and "`" in line:
            end, _, rest = line.strip().partition("`")
            result[-1] += f" {end}`"
            line = line[: len(line) - len(line.lstrip())] + rest.lstrip() if rest.strip(" .,;:)") else ""
            result[-1] += "" if line else rest.rstrip()
            if not line:
                continue
        result.append(line)
    return result


def _language(lines: list[str]) -> str:
    """Returns the language of the code block at the beginning of some lines: "python" or "text"."""
    block = itertools.takewhile(lambda line: not line or line.startswith(" "), lines)
    try:
        ast.parse(textwrap.dedent("\n".join(block)))
    except SyntaxError:
        return "text"
    return "python"


def _entry(section: str, line: str) -> list[str]:
    """Converts a line of a section to a field, or to the continuation of a field."""
    match = _ENTRY.match(line)
    if not match or section in ("Returns", "Yields"):
        return [f"    {_inline(line)}"]
    if section == "Raises":
        names = ", ".join(f":py:exc:`{name}`" for name in match["names"].split(", "))
        return [f"  - {names}: {_inline(match['text'])}"]
    names = [name.replace("*", "\\*") for name in match["names"].split(", ")]
    return [f":{_FIELDS[section]} {name}: {_inline(match['text'])}" for name in names]


def _inline(text: str) -> str:
    """Converts backticks to links and code, and escapes all other special characters."""
    pieces, end = [], 0
    for match in _BACKTICKS.finditer(text):
        pieces.append(_escaped(text[end : match.start()]))
        role = f":py:obj:`{match[1]}`" if _NAME.fullmatch(match[1]) else f"``{match[1]}``"
        # reStructuredText needs a separator between a role and a letter, as in `Variable`s
        lead = "\\ " if text[match.start() - 1 : match.start()].isalnum() else ""
        pieces.append(f"{lead}{role}\\ {match[2]}" if match[2] else f"{lead}{role}")
        end = match.end()
    return "".join([*pieces, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"([*|`]|_(?!\w))", r"\\\1", text)


class Colons(SphinxPostTransform):
    """Replaces the two hyphens between a parameter and its description by a colon."""

    default_priority = 800

    def run(self) -> None:
        for field in self.document.findall(nodes.field_body):
            for text in list(field.findall(nodes.Text)):
                if text == " -- " and isinstance(field.parent.parent.parent, addnodes.desc_content):
                    text.parent.replace(text, nodes.Text(": "))


def setup(app) -> dict:
    def process(app, what, name, thing, options, lines):
        lines[:] = to_restructured_text("\n".join(lines)).splitlines()

    def shorten_signature(app, what, name, thing, options, signature, returns):
        if what == "class" and getattr(thing, "_is_protocol", False):
            return "", None  # Python's own signature of a protocol is (*args, **kwargs)
        return signature and _PRIVATE.sub("", signature), returns

    app.connect("autodoc-process-signature", shorten_signature)
    app.add_post_transform(Colons)
    app.connect("autodoc-process-docstring", process)
    for field in PyClasslike.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True}
