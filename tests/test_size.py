"""What `make size` counts."""

from tests.size import Size, excess, measure

SOURCE = '''"""A docstring
of two lines."""

import os  # an import


def check_value(value: Any) -> None:
    """Another docstring."""
    if value:
        raise ValueError(
            "of two lines"
        )


def f(a, b, c, d, e, f, g, h, *, i):
    # a comment
    text = """a string,

    not a docstring"""
    raise ValueError(text)


class C:
    def f(self, a, b, c, d, e, f, g, h):
        return a
'''


def test_lines_are_counted():
    # check_value has 5 lines and f 5, of which one raises; the class has 3
    assert measure(SOURCE) == Size(files=1, code=13, refusing=6, untyped=1, wide=1)


def test_a_folder_may_not_grow_over_its_entry():
    ledger = {"a": Size(1, 10, 1, 0, 0)._asdict()}
    assert excess({"a": Size(1, 10, 1, 0, 0)}, ledger) == []
    assert excess({"a": Size(1, 9, 2, 0, 0)}, ledger) == ["a: refusing is 2, and the ledger allows 1"]
    assert excess({"b": Size(1, 3, 0, 0, 0)}, ledger) == [
        "b: files is 1, and the ledger allows 0",
        "b: code is 3, and the ledger allows 0",
    ]
