"""Messages below the command line name keyword arguments, and not flags, gin or models."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mtf_imaging

PACKAGE = Path(mtf_imaging.__file__).parent
CALLERS = {"cli", "models"}
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in CALLERS]

FORBIDDEN = {
    "a flag": re.compile(r"--[a-z]"),
    "a command": re.compile(r"mtf-imaging [a-z]"),
    "a gin parameter": re.compile(r"(?<![.\w])(train|job|setup|hardware|UNet3D|ResNet)\.(?!gin\b)[a-z_]"),
    "gin": re.compile(r"\bgin\b"),
    "a model": re.compile(r"(?<!nn)\bU-?Net(?!_)|\bResNet"),
}
# The name of a file of a run, and an option of Slurm, which do not refer to a caller.
ALLOWED = {("files/run_folder.py", "config.gin"), ("engine/processes/slurm.py", "srun --distribution=block")}


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields line and text of each string except docstrings; replacement fields of f-strings become "x"."""
    skipped = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def names_of_callers(text: str) -> list[str]:
    return [what for what, pattern in FORBIDDEN.items() if pattern.search(text)]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("f('Fix: fewer --workers.')", ["a flag"]),
        ("f(f'Fix: another --{name}.')", ["a flag"]),
        ("f(f'{path}: as ' + f'job.{name} = 1')", ["a gin parameter"]),
        ("f('UNet3D.gather_below = 1')", ["a gin parameter", "a model"]),
        ("f('run `mtf-imaging launch`')", ["a command"]),
        ("f('a gin file')", ["gin"]),
        ("f('a larger job. It trains; tf.train.Checkpoint, nnU-Net')", []),
        ("'''--docstring'''", []),
    ],
)
def test_forbidden_names_are_found(source, named):
    assert [what for _, text in strings(ast.parse(source)) for what in names_of_callers(text)] == named


def test_messages_below_the_jobs_name_no_caller():
    faults = []
    for path in FILES:
        where = str(path.relative_to(PACKAGE))
        if where == "evaluation/export/segment.py":  # a program of its own, with flags of its own
            continue
        for line, text in strings(ast.parse(path.read_text())):
            named = names_of_callers(text)
            if named and (where, text) not in ALLOWED:
                faults.append(f"{where}:{line} names {' and '.join(named)}: {text!r}")
    assert not faults, "\n".join(faults)


def test_docstrings_below_the_jobs_name_no_flag():
    texts = [(path, text) for path in FILES for text in docstrings(ast.parse(path.read_text()))]
    assert not [(str(path), text) for path, text in texts if FORBIDDEN["a flag"].search(text)]
