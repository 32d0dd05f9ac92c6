"""Draws docs/pictures/performance.png from the first tables of docs/evidence/performance.md.

python -m benchmarks.performance_picture
"""

import argparse
import re
from pathlib import Path

from benchmarks.partition.contender import REFERENCE
from benchmarks.partition.plot import Bar, draw_bars

_SECTIONS = ("Layouts", "bfloat16", "A wide network")


def read_bars(page: str) -> dict[str, list[Bar]]:
    """Returns the rows of each table in the pictured sections, by the title above the table."""
    bars = {}
    for section in re.split(r"(?m)^### ", page)[1:]:
        if section.split("\n")[0] not in _SECTIONS:
            continue
        for title, rows in re.findall(r"\*\*(.+?)\*\*\n\n((?:\|.*\n)+)", section):
            head, _, *cells = ([cell.strip() for cell in row.strip("| ").split("|")] for row in rows.splitlines())
            time, memory = head.index("ratio to tf (95%)"), head.index("peak memory") + 1
            bars[title] = [Bar(row[0], *_ratio(row[time]), float(row[memory])) for row in cells if row[0] != REFERENCE]
    return bars


def _ratio(cell: str) -> tuple[float, tuple[float, float]]:
    """Returns the numbers in a cell such as "0.92 (0.92-0.94)"."""
    ratio, low, high = map(float, re.fullmatch(r"([\d.]+) \(([\d.]+)-([\d.]+)\)", cell).groups())
    return ratio, (low, high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, default="docs/evidence/performance.md", help="page with the tables")
    parser.add_argument("--output", type=Path, default="docs/pictures/performance.png", help="PNG file to write")
    arguments = parser.parse_args()
    draw_bars(read_bars(arguments.page.read_text()), arguments.output)


if __name__ == "__main__":
    main()
