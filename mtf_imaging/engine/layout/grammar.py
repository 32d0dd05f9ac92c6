"""The grammar of shapes and layouts: "rows:2,cols:2" and "x:rows,y:cols".

The shape of a tensor or a mesh is written `name:size,name:size`. A layout is a list of rules `tensor_dim:mesh_dim`,
each of which splits a tensor dimension over a mesh dimension. `;` means the same as `,`, and spaces around names and
sizes are ignored. The empty string is valid and means no dimensions or no rules. Any other text raises an error that
marks the fault with a caret.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mtf_imaging.engine.layout.legacy_blocks import blocked_dimension, explain_blocks, without_blocks
from mtf_imaging.errors import LayoutError
from mtf_imaging.spelling import did_you_mean

Shape = tuple[tuple[str, int], ...]
Rules = tuple[tuple[str, str], ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
NAME_RULE = "a name starts with a letter or '_' and contains only letters, digits, '_', '.', '/' and '-'"
_SIZE = re.compile(r"[1-9][0-9]*")
_SEPARATORS = ",;"


def is_name(text: str) -> bool:
    """Returns whether a text is a valid name of a dimension."""
    return _NAME.fullmatch(text) is not None


class _Word(NamedTuple):
    """A piece of the string that the user typed, with its start index in that string."""

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
      string: `name:size,name:size`, or "" for no dimensions.
      what: a noun for the string in the error message.

    Returns:
      Pairs (name, size) in the order of the string, which `mtf.convert_to_shape` accepts.

    Raises:
      LayoutError: the string has faults. The error lists all of them, each marked with a caret.
    """
    pairs, faults = _read_shape(string, what)
    if faults:
        raise LayoutError(_report(what, string, faults))
    return tuple((name.text, int(size.text)) for name, size in pairs)


def parse_layout(string: str) -> Rules:
    """Parses the rules of a layout. `check_names` checks that the names exist.

    >>> parse_layout("x:rows; y:cols")
    (('x', 'rows'), ('y', 'cols'))

    Args:
      string: `tensor_dim:mesh_dim,tensor_dim:mesh_dim`, or "" for no rules.

    Returns:
      Pairs (tensor dimension, mesh dimension), which `mtf.convert_to_layout_rules` accepts.

    Raises:
      LayoutError: the string has faults. The error lists all of them, each marked with a caret.
    """
    pairs, faults = _read_layout(string)
    if faults:
        raise LayoutError(_report("layout", string, faults))
    return tuple((tensor_dim.text, mesh_dim.text) for tensor_dim, mesh_dim in pairs)


def format_shape(shape: Iterable[tuple[str, int]]) -> str:
    """Formats a shape as a string that `parse_shape` accepts.

    >>> format_shape([("rows", 2), ("cols", 4)])
    'rows:2,cols:4'
    """
    return ",".join(f"{name}:{size}" for name, size in shape)


def format_rules(rules: Iterable[tuple[str, str]]) -> str:
    """Formats rules as a string that `parse_layout` accepts.

    >>> format_rules([("x", "rows"), ("y", "cols")])
    'x:rows,y:cols'
    """
    return ",".join(f"{tensor_dim}:{mesh_dim}" for tensor_dim, mesh_dim in rules)


def check_names(layout: str, mesh_shape: str, tensor_dims: Iterable[str]) -> tuple[str, ...]:
    """Checks that a layout can be parsed and names only dimensions that exist.

    >>> check_names("x:rows", "rows:2,cols:2", ["batch", "x", "y"])
    ('cols',)

    Args:
      layout: the layout as the user typed it.
      mesh_shape: the shape of the mesh as the user typed it.
      tensor_dims: dimension names of all tensors in the program.

    Returns:
      The mesh dimensions larger than 1 that no rule uses. The caller warns about them, because all processors along
      such a dimension repeat the same work.

    Raises:
      LayoutError: a string has faults. The error lists the faults of both strings.
    """
    mesh_pairs, mesh_faults = _read_shape(mesh_shape, "mesh shape")
    rules, layout_faults = _read_layout(layout)
    names = {"mesh": [name.text for name, _ in mesh_pairs], "tensor": sorted(set(tensor_dims))}
    corrected = without_blocks([(name.text, onto.text) for name, onto in rules], names["tensor"])
    for rule in rules:
        for word, kind in zip(rule, ("tensor", "mesh"), strict=True):
            if not is_name(word.text) or word.text in names[kind]:
                continue
            if kind == "tensor" and blocked_dimension(word.text):
                layout_faults.append(_Fault(word, explain_blocks(word.text, corrected, names[kind])))
            else:
                layout_faults.append(_unknown(word, kind, names[kind]))
    reports = []
    if mesh_faults:
        reports.append(_report("mesh shape", mesh_shape, mesh_faults))
    if layout_faults:
        reports.append(_report("layout", layout, layout_faults))
    if reports:
        raise LayoutError("\n".join(reports))
    used = {mesh_dim.text for _, mesh_dim in rules}
    return tuple(name.text for name, size in mesh_pairs if name.text not in used and int(size.text) > 1)


def _unknown(word: _Word, kind: str, names: list[str]) -> _Fault:
    listed = f"Known {kind} dimensions: {', '.join(names)}." if names else f"There are no {kind} dimensions."
    return _Fault(word, f"no {kind} dimension is called '{word.text}'.{did_you_mean(word.text, names)} {listed}")


def _read_shape(string: str, what: str) -> tuple[list[tuple[_Word, _Word]], list[_Fault]]:
    pairs, faults = _read_pairs(string, what, "name:size", "rows:2,cols:2")
    for name, size in pairs:
        if not size.text:
            faults.append(_Fault(name, f"'{name.text}' has no size. Fix: add one, for instance '{name.text}:2'."))
        elif not _SIZE.fullmatch(size.text):
            message = f"the size of '{name.text}' must be a positive integer such as 2, not '{size.text}'."
            faults.append(_Fault(size, message))
    return pairs, faults + _repeated(pairs, "dimension '{}' appears {} times. Fix: give each dimension one size.")


def _read_layout(string: str) -> tuple[list[tuple[_Word, _Word]], list[_Fault]]:
    pairs, faults = _read_pairs(string, "layout", "tensor_dim:mesh_dim", "x:rows,y:cols")
    for tensor_dim, mesh_dim in pairs:
        if not mesh_dim.text:
            name = tensor_dim.text
            faults.append(
                _Fault(tensor_dim, f"'{name}' has no mesh dimension. Fix: add one, for instance '{name}:rows'.")
            )
        elif not is_name(mesh_dim.text):
            faults.append(_Fault(mesh_dim, f"'{mesh_dim.text}' is not a valid mesh dimension: {NAME_RULE}."))
    return pairs, faults + _repeated(pairs, "tensor dimension '{}' has {} rules. Fix: keep only one of them.")


def _read_pairs(string: str, what: str, grammar: str, example: str) -> tuple[list[tuple[_Word, _Word]], list[_Fault]]:
    """Splits a string into pairs of words.

    Returns:
      The pairs, and a fault for each item that is not a pair or does not start with a valid name.

    Raises:
      LayoutError: the argument is not a string.
    """
    if not isinstance(string, str):
        raise LayoutError(f"{what} must be a string such as '{example}', not {string!r} ({type(string).__name__}).")
    pairs, faults = [], []
    for item in _items(string):
        words = _split(item, ":")
        if item.text in _SEPARATORS:
            faults.append(_Fault(item, f"the item before or after this '{item.text}' is empty. Fix: remove it."))
        elif len(words) == 1:
            hint = re.sub(r"\s*[=\s]\s*", ":", item.text, count=1)
            fix = f" Did you mean '{hint}'?" if hint != item.text else ""
            faults.append(_Fault(item, f"'{item.text}' has no ':'; each item is {grammar}.{fix}"))
        elif len(words) > 2:
            message = (
                f"'{item.text}' has {len(words) - 1} ':', but each item is {grammar}. Fix: separate items with ','."
            )
            faults.append(_Fault(item, message))
        elif not words[0].text:
            faults.append(_Fault(item, f"'{item.text}' has no name before the ':'; each item is {grammar}."))
        elif not is_name(words[0].text):
            faults.append(_Fault(words[0], f"'{words[0].text}' is not a valid name: {NAME_RULE}."))
        else:
            pairs.append((words[0], words[1]))
    return pairs, faults


def _items(string: str) -> Iterator[_Word]:
    """Yields the items between separators; for an empty item, yields the separator next to it."""
    items = _split(_Word(_on_one_line(string), 0), _SEPARATORS)
    if len(items) == 1 and not items[0].text:
        return
    reported = set()
    for item in items:
        if item.text:
            yield item
            continue
        after = item.start < len(string)
        separator = item.start if after else max(string.rfind(mark) for mark in _SEPARATORS)
        if separator not in reported:
            reported.add(separator)
            yield _Word(string[separator], separator)


def _on_one_line(string: str) -> str:
    """Replaces every whitespace character with a plain space, so that carets line up."""
    return re.sub(r"\s", " ", string)


def _split(word: _Word, separators: str) -> list[_Word]:
    """Splits a word at any of the separators and strips the pieces; an empty piece starts at the next separator."""
    pieces, start = [], word.start
    for text in re.split(f"[{separators}]", word.text):
        pieces.append(_Word(text.strip(), start + len(text) - len(text.lstrip())))
        start += len(text) + 1
    return pieces


def _repeated(pairs: list[tuple[_Word, _Word]], message: str) -> list[_Fault]:
    """Returns one fault for each repeated name, at its second occurrence."""
    counts = Counter(name.text for name, _ in pairs)
    places = {text: [name for name, _ in pairs if name.text == text] for text, count in counts.items() if count > 1}
    return [_Fault(words[1], message.format(text, len(words))) for text, words in places.items()]


def _report(what: str, string: str, faults: list[_Fault]) -> str:
    """Formats faults: for each, the string, a caret under the faulty word, and the explanation."""
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    shown = _on_one_line(string)
    lines = [f"{what} '{shown.strip()}' has {count}:"]
    for word, message in sorted(faults, key=lambda fault: fault.word.start):
        lines += [f"    {shown}", f"    {' ' * word.start}{'^' * max(1, len(word.text))}", f"  {message}"]
    return "\n".join(lines)
