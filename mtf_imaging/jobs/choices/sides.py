"""Finds the side of the body that the name of a label states."""

import re
from collections.abc import Iterable, Iterator

LEFT, RIGHT = "left", "right"
# The words for left and right in published data sets. Longer ones may have one of the endings.
_SIDES = (
    (LEFT, RIGHT),
    ("l", "r"),
    ("lt", "rt"),
    ("lh", "rh"),
    ("sx", "dx"),
    ("link", "recht"),
    ("gauche", "droit"),
    ("izquierd", "derech"),
    ("sinistr", "destr"),
    ("esquerd", "direit"),
)
_ENDINGS = ("", "s", "e", "er", "es", "o", "a")
_WORDS = {
    word + end: side
    for pair in _SIDES
    for side, word in zip(_SIDES[0], pair, strict=True)
    for end in (_ENDINGS if len(word) > 2 else ("",))
}
_NAME_WORDS = re.compile(r"(?:[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+)\d*")


def sides_of(names: Iterable[str]) -> dict[str, str]:
    """Returns the side of each name that states one, by a word of its own or by the name of the other side.

    >>> sides_of(("aorta", "kidney_left", "RightLung")), sides_of(("lkid", "liver", "rkid"))
    ({'kidney_left': 'left', 'RightLung': 'right'}, {'lkid': 'left', 'rkid': 'right'})
    """
    plain, sides = {name: name.casefold() for name in names}, {}
    for name, own in plain.items():
        words = [found.casefold() for found in _NAME_WORDS.findall(name)]
        stated = [_WORDS[word] for word in map(_without_number, words) if word in _WORDS]
        stated += [side for side, other in _mirrored(own) if other in plain.values()]
        if stated:
            sides[name] = stated[0]
    return sides


def _without_number(word: str) -> str:
    """Returns a word without a number at its end; a single letter keeps it, because L1 is a vertebra."""
    plain = word.rstrip("0123456789")
    return plain if len(plain) > 1 else word


def _mirrored(name: str) -> Iterator[tuple[str, str]]:
    """Yields the sides that a name may state, at any place in it, each with the name of the other side."""
    for pair in _SIDES:
        for side, one, other in ((LEFT, *pair), (RIGHT, *pair[::-1])):
            for place in re.finditer(one, name):
                yield side, name[: place.start()] + other + name[place.end() :]
