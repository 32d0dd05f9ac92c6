"""Prints the files of a folder with the first line of each: `python -m tests.map mtf_imaging/data`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def first_line(path: Path) -> str:
    """Returns the first line of the docstring of a module; "" without one."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def lines(folder: Path, depth: int = 0) -> Iterator[str]:
    """Yields a line for each module of a folder and its subfolders."""
    package = folder / "__init__.py"
    yield f"{'  ' * depth + folder.name + '/':34}{first_line(package) if package.exists() else ''}".rstrip()
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.is_dir() and path.name != "__pycache__":
            yield from lines(path, depth + 1)
        elif path.suffix == ".py" and path.name != "__init__.py":
            yield f"{'  ' * (depth + 1) + path.name:34}{first_line(path)}"


if __name__ == "__main__":
    for name in sys.argv[1:] or ["mtf_imaging", "models"]:
        print("\n".join(lines(ROOT / name)))
