"""The grammar of shapes and layouts: "rows:2,cols:2" and "x:rows,y:cols".

A shape, of a tensor or of a mesh, is `name:size,name:size`. A layout is a list of rules `tensor_dim:mesh_dim`: the
tensor dimension is split over the mesh dimension. `;` is read as `,`, spaces around names and sizes are ignored, and
the empty string is valid: no dimension, or no rule. Whatever else a string holds is an error that shows where.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mtf_imaging.errors import LayoutError
from mtf_imaging.layout.legacy_blocks import axis_of_blocks, explain_blocks, without_blocks
from mtf_imaging.spelling import did_you_mean

Shape = tuple[tuple[str, int], ...]
Rules = tuple[tuple[str, str], ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_SIZE = re.compile(r"[1-9][0-9]*")
_SEPARATORS = ",;"


def is_name(text: str) -> bool:
    """Whether a dimension can be called so."""
    return _NAME.fullmatch(text) is not None


class _Word(NamedTuple):
    """A piece of the string that the user typed, and where it starts in it."""

    text: str
    start: int


class _Fault(NamedTuple):
    word: _Word
    message: str


def parse_shape(string: str, what: str = "shape") -> Shape:
    """Parses the dimensions of a tensor or a mesh.

    >>> parse_shape("batch:1, x:12, channels:3")
    (('batch', 1), ('x', 12), ('channels', 3))

    Args:
      string: `name:size,name:size`, or "" for no dimension.
      what: what the string is, for the error message.

    Returns:
      Pairs of name and size, in the order of the string, as `mtf.convert_to_shape` takes them.

    Raises:
      LayoutError: with every fault of the string, a caret under each.
    """
    pairs, faults = _read_shape(string, what)
    if faults:
        raise LayoutError(_report(what, string, faults))
    return tuple((name.text, int(size.text)) for name, size in pairs)


def parse_layout(string: str) -> Rules:
    """Parses the rules of a layout; whether its names exist is the business of `check_names`.

    >>> parse_layout("x:rows; y:cols")
    (('x', 'rows'), ('y', 'cols'))

    Args:
      string: `tensor_dim:mesh_dim,tensor_dim:mesh_dim`, or "" for no rule.

    Returns:
      Pairs of tensor dimension and mesh dimension, as `mtf.convert_to_layout_rules` takes them.

    Raises:
      LayoutError: with every fault of the string, a caret under each.
    """
    pairs, faults = _read_layout(string)
    if faults:
        raise LayoutError(_report("layout", string, faults))
    return tuple((tensor_dim.text, mesh_dim.text) for tensor_dim, mesh_dim in pairs)


def format_shape(shape: Iterable[tuple[str, int]]) -> str:
    """Writes a shape as `parse_shape` reads it.

    >>> format_shape([("rows", 2), ("cols", 4)])
    'rows:2,cols:4'
    """
    return ",".join(f"{name}:{size}" for name, size in shape)


def format_rules(rules: Iterable[tuple[str, str]]) -> str:
    """Writes rules as `parse_layout` reads them.

    >>> format_rules([("x", "rows"), ("y", "cols")])
    'x:rows,y:cols'
    """
    return ",".join(f"{tensor_dim}:{mesh_dim}" for tensor_dim, mesh_dim in rules)


def check_names(layout: str, mesh_shape: str, tensor_dims: Iterable[str]) -> tuple[str, ...]:
    """Checks that a layout can be read, and speaks of dimensions that exist.

    >>> check_names("x:rows", "rows:2,cols:2", ["batch", "x", "y"])
    ('cols',)

    Args:
      layout: the layout as the user typed it.
      mesh_shape: the shape of the mesh as the user typed it.
      tensor_dims: names of all dimensions that some tensor of the program has.

    Returns:
      The mesh dimensions larger than 1 that no rule uses: the work is repeated along them, of which the caller warns.

    Raises:
      LayoutError: one error with every fault of both strings.
    """
    mesh_pairs, mesh_faults = _read_shape(mesh_shape, "mesh shape")
    rules, layout_faults = _read_layout(layout)
    known = {"mesh": [name.text for name, _ in mesh_pairs], "tensor": sorted(set(tensor_dims))}
    corrected = without_blocks([(name.text, onto.text) for name, onto in rules], known["tensor"])
    for rule in rules:
        for word, kind in zip(rule, ("tensor", "mesh"), strict=True):
            if not is_name(word.text) or word.text in known[kind]:
                continue
            if kind == "tensor" and axis_of_blocks(word.text):
                layout_faults.append(_Fault(word, explain_blocks(word.text, corrected, known[kind])))
            else:
                layout_faults.append(_unknown(word, kind, known[kind]))
    reports = []
    if mesh_faults:
        reports.append(_report("mesh shape", mesh_shape, mesh_faults))
    if layout_faults:
        reports.append(_report("layout", layout, layout_faults))
    if reports:
        raise LayoutError("\n".join(reports))
    used = {mesh_dim.text for _, mesh_dim in rules}
    return tuple(name.text for name, size in mesh_pairs if name.text not in used and int(size.text) > 1)


def _unknown(word: _Word, kind: str, known: list[str]) -> _Fault:
    listed = f"Known {kind} dimensions: {', '.join(known)}." if known else f"There is no {kind} dimension at all."
    return _Fault(word, f"no {kind} dimension is called '{word.text}'.{did_you_mean(word.text, known)} {listed}")


def _read_shape(string: str, what: str) -> tuple[list[tuple[_Word, _Word]], list[_Fault]]:
    pairs, faults = _read_pairs(string, what, "name:size", "rows:2,cols:2")
    for name, size in pairs:
        if not size.text:
            faults.append(_Fault(name, f"'{name.text}' has no size. Write it as '{name.text}:2'."))
        elif not _SIZE.fullmatch(size.text):
            faults.append(_Fault(size, f"the size of '{name.text}' must be 1, 2, 3 ..., not '{size.text}'."))
    return pairs, faults + _repeated(pairs, "dimension '{}' is named {} times; one size each.")


def _read_layout(string: str) -> tuple[list[tuple[_Word, _Word]], list[_Fault]]:
    pairs, faults = _read_pairs(string, "layout", "tensor_dim:mesh_dim", "x:rows,y:cols")
    for tensor_dim, mesh_dim in pairs:
        if not mesh_dim.text:
            faults.append(
                _Fault(tensor_dim, f"'{tensor_dim.text}' has no mesh dimension, as in '{tensor_dim.text}:rows'.")
            )
        elif not is_name(mesh_dim.text):
            faults.append(_Fault(mesh_dim, f"'{mesh_dim.text}' is no name of a mesh dimension."))
    return pairs, faults + _repeated(pairs, "tensor dimension '{}' has {} rules; one mesh dimension each.")


def _read_pairs(string: str, what: str, grammar: str, example: str) -> tuple[list[tuple[_Word, _Word]], list[_Fault]]:
    """Splits a string into pairs of words whose first is a name; what is no such pair becomes a fault."""
    if not isinstance(string, str):
        raise LayoutError(f"{what} must be a string such as '{example}', not {string!r} ({type(string).__name__}).")
    pairs, faults = [], []
    for item in _items(string):
        words = _split(item, ":")
        if item.text in _SEPARATORS:
            faults.append(_Fault(item, f"a '{item.text}' with nothing on one side of it."))
        elif len(words) == 1:
            hint = re.sub(r"\s*[=\s]\s*", ":", item.text, count=1)
            fix = f" Did you mean '{hint}'?" if hint != item.text else ""
            faults.append(_Fault(item, f"'{item.text}' has no ':'; each item is {grammar}.{fix}"))
        elif len(words) > 2:
            faults.append(_Fault(item, f"'{item.text}' is more than one item; put a ',' after each {grammar}."))
        elif not words[0].text:
            faults.append(_Fault(item, f"no name stands before the ':' of '{item.text}'."))
        elif not is_name(words[0].text):
            faults.append(_Fault(words[0], f"'{words[0].text}' is no name: names start with a letter or '_'."))
        else:
            pairs.append((words[0], words[1]))
    return pairs, faults


def _items(string: str) -> Iterator[_Word]:
    """Yields the items between separators, and as an item of its own each separator that stands beside nothing."""
    items = _split(_Word(_on_one_line(string), 0), _SEPARATORS)
    if len(items) == 1 and not items[0].text:
        return
    lonely = set()
    for item in items:
        if item.text:
            yield item
            continue
        after = item.start < len(string)
        separator = item.start if after else max(string.rfind(mark) for mark in _SEPARATORS)
        if separator not in lonely:
            lonely.add(separator)
            yield _Word(string[separator], separator)


def _on_one_line(string: str) -> str:
    """Makes each space a plain one, so that carets stand where they should."""
    return re.sub(r"\s", " ", string)


def _split(word: _Word, separators: str) -> list[_Word]:
    """Splits a word at any of the separators and strips the pieces; an empty one starts where the next separator is."""
    pieces, start = [], word.start
    for text in re.split(f"[{separators}]", word.text):
        pieces.append(_Word(text.strip(), start + len(text) - len(text.lstrip())))
        start += len(text) + 1
    return pieces


def _repeated(pairs: list[tuple[_Word, _Word]], message: str) -> list[_Fault]:
    """A fault at the second place of each name that comes more than once."""
    counts = Counter(name.text for name, _ in pairs)
    places = {text: [name for name, _ in pairs if name.text == text] for text, count in counts.items() if count > 1}
    return [_Fault(words[1], message.format(text, len(words))) for text, words in places.items()]


def _report(what: str, string: str, faults: list[_Fault]) -> str:
    """Echoes the string once a fault, with a caret under the word that it is about."""
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    shown = _on_one_line(string)
    lines = [f"{what} '{shown.strip()}' has {count}:"]
    for word, message in sorted(faults, key=lambda fault: fault.word.start):
        lines += [f"    {shown}", f"    {' ' * word.start}{'^' * max(1, len(word.text))}", f"  {message}"]
    return "\n".join(lines)
