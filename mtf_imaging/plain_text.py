"""Plain text for people: tables, numbers, and numbers with their nouns."""

from collections.abc import Iterable, Mapping, Sequence


def text_table(
    rows: Sequence[Sequence[str]], least: Sequence[int] = (0,), left: int = 1, titles: Mapping[int, str] | None = None
) -> list[str]:
    """Returns the lines of a table whose columns are two spaces apart.

    >>> print("\\n".join(text_table([("Dice", "liver"), ("case 7", "0.9")])))
    Dice    liver
    case 7    0.9

    Args:
      rows: the cells of each row, the head first.
      least: the least width of each column; the last one is that of all further columns.
      left: the number of left-aligned columns, which come first.
      titles: {first column of a group: title}, for a line above the head.
    """
    if not rows:
        return []
    floors = [*least, *[least[-1]] * len(rows[0])]
    widths = [max(floor, *map(len, column)) for floor, column in zip(floors, zip(*rows, strict=True), strict=False)]
    aligned = [f"{'<' if number < left else '>'}{width}" for number, width in enumerate(widths)]
    lines = ["  ".join(map(format, row, aligned)).rstrip() for row in rows]
    above = ""
    for column, title in (titles or {}).items():
        above = above.ljust(sum(widths[:column]) + 2 * column) + title
    return [above, *lines] if above else lines


def some(names: Iterable[object], most: int = 3) -> str:
    """Returns the first names of a list for a message, such as "a, b, c, ..."."""
    shown = [*map(str, names)]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")


def decimals(value: float | None) -> str:
    """Returns a number with three decimals; None, an undefined value, becomes a dash."""
    return "-" if value is None else f"{value:.3f}"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun.

    >>> counted(1, "case"), counted(3000, "case")
    ('1 case', '3,000 cases')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"
