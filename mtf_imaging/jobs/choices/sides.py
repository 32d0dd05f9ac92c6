"""Finds the side of the body that the name of a label states."""

import re
from collections.abc import Iterable, Iterator

# The words for left and right in published data sets.
LEFT, RIGHT = "left", "right"
_SIDES = ((LEFT, RIGHT), ("l", "r"), ("links", "rechts"), ("gauche", "droit"), ("izquierd", "derech"))
_WORDS = {
    **{"lh": LEFT, "rh": RIGHT, "droite": RIGHT},
    **{
        word + end: side
        for pair in _SIDES
        for side, word in zip(_SIDES[0], pair, strict=True)
        for end in ("", "o", "a")
    },
}
_NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")


def sides_of(names: Iterable[str]) -> dict[str, str]:
    """Returns the side of each name that states one, by a word of its own or by the name of the other side.

    >>> sides_of(("aorta", "kidney_left", "RightLung")), sides_of(("lkid", "liver", "rkid"))
    ({'kidney_left': 'left', 'RightLung': 'right'}, {'lkid': 'left', 'rkid': 'right'})
    """
    plain, sides = {name: name.casefold() for name in names}, {}
    for name, own in plain.items():
        stated = [_WORDS[word] for found in _NAME_WORDS.findall(name) if (word := found.casefold()) in _WORDS]
        stated += [side for side, other in _mirrored(own) if other in plain.values()]
        if stated:
            sides[name] = stated[0]
    return sides


def _mirrored(name: str) -> Iterator[tuple[str, str]]:
    """Yields the sides that a name may state, at any place in it, each with the name of the other side."""
    for pair in _SIDES:
        for side, one, other in ((LEFT, *pair), (RIGHT, *pair[::-1])):
            for place in re.finditer(one, name):
                yield side, name[: place.start()] + other + name[place.end() :]
