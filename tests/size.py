"""The size of the code, compared with the ledger `tests/size.json`: `make size`, or `python -m tests.size`.

Code is the lines of a file without docstrings, comments, blank lines and imports. A line refuses if it belongs to a
`raise` statement or to a function whose name begins with `check`. A folder that grows over its entry fails `make lint`
until the same commit raises the entry by hand, so nothing grows unnoticed.
"""

import ast
import io
import json
import re
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LEDGER = ROOT / "tests/size.json"
MOST_PARAMETERS = 8

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Size(NamedTuple):
    """The size of a file or of several.

    Attributes:
      files: number of files.
      code: lines of code.
      refusing: lines of code that refuse something.
      untyped: annotations `: Any`.
      wide: functions with more than 8 parameters.
    """

    files: int = 0
    code: int = 0
    refusing: int = 0
    untyped: int = 0
    wide: int = 0

    def plus(self, other: "Size") -> "Size":
        return Size(*(a + b for a, b in zip(self, other, strict=True)))


def _lines(node: ast.stmt | ast.expr) -> set[int]:
    return {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    args = function.args
    return len([a for a in [*args.posonlyargs, *args.args, *args.kwonlyargs] if a.arg not in {"self", "cls"}])


def measure(source: str) -> Size:
    """Returns the size of a Python file with this text."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    refusing: set[int] = set()
    wide = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            code -= _lines(node)
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            code -= _lines(node.body[0])
        if isinstance(node, ast.Raise):
            refusing |= _lines(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            wide += _parameters(node) > MOST_PARAMETERS
            if node.name.lstrip("_").startswith("check"):
                refusing |= _lines(node)
    return Size(1, len(code), len(refusing & code), len(re.findall(r": Any\b", source)), wide)


def folders() -> dict[str, Size]:
    """Returns the size of each folder of the package, and of models, tests and benchmarks."""
    sizes: dict[str, Size] = {}
    for top in ("mtf_imaging", "models", "tests", "benchmarks"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            name = "/".join(parts[:2]) if top == "mtf_imaging" and len(parts) > 2 else top
            sizes[name] = sizes.get(name, Size()).plus(measure(path.read_text()))
    return dict(sorted(sizes.items()))


def excess(sizes: dict[str, Size], ledger: dict[str, dict[str, int]]) -> list[str]:
    """Returns a line for each number that is larger than its entry in the ledger; without an entry, it is 0."""
    return [
        f"{folder}: {field} is {value}, and the ledger allows {ledger.get(folder, {}).get(field, 0)}"
        for folder, size in sizes.items()
        for field, value in size._asdict().items()
        if value > ledger.get(folder, {}).get(field, 0)
    ]


def report(sizes: dict[str, Size]) -> str:
    """Returns a table of the folders, with the sum of what is installed."""
    installed = Size()
    for name, size in sizes.items():
        if name.startswith(("mtf_imaging", "models")):
            installed = installed.plus(size)
    lines = [f"{'folder':24s} files   code  refusing       : Any  over {MOST_PARAMETERS} parameters"]
    for name, size in [*sizes.items(), ("mtf_imaging and models", installed)]:
        code = f"{size.code:6d} {size.refusing:5d} {100 * size.refusing / max(1, size.code):4.1f} %"
        lines.append(f"{name:24s} {size.files:5d} {code} {size.untyped:6d} {size.wide:6d}")
    return "\n".join(lines)


def main() -> int:
    sizes = folders()
    print(report(sizes))
    if sys.argv[1:] == ["--write"]:
        LEDGER.write_text(json.dumps({name: size._asdict() for name, size in sizes.items()}, indent=1) + "\n")
        return 0
    grown = excess(sizes, json.loads(LEDGER.read_text()))
    for line in grown:
        print(line)
    if grown:
        print("Fix: make it smaller, or raise tests/size.json in this commit (--write) and say in its message why.")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
