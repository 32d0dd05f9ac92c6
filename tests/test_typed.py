"""Type annotations and docstrings of the typed modules: complete, and consistent with the arguments.

The tests only read sources, except one, which runs the type checker.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mtf_imaging as mi

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mtf_imaging"

# Once "cli", "data", "evaluation", "kinds" and "planner" are typed, add them here and to `files` of [tool.mypy].
TYPED = [
    "engine",
    "errors.py",
    "files",
    "jobs",
    "kinds/all_kinds.py",
    "kinds/arrays/images.py",
    "kinds/arrays/kind.py",
    "kinds/arrays/training.py",
    "kinds/demo.py",
    "kinds/export.py",
    "kinds/facts.py",
    "kinds/file_images.py",
    "kinds/image_settings.py",
    "kinds/kind.py",
    "kinds/loop.py",
    "kinds/networks.py",
    "kinds/objects/images.py",
    "kinds/objects/kind.py",
    "kinds/objects/output.py",
    "kinds/objects/scoring/folder.py",
    "kinds/objects/training.py",
    "kinds/output.py",
    "kinds/photos/images.py",
    "kinds/photos/kind.py",
    "kinds/photos/output.py",
    "kinds/photos/scoring/folder.py",
    "kinds/photos/training.py",
    "kinds/predicted.py",
    "kinds/batches.py",
    "kinds/volumes/images.py",
    "kinds/volumes/kind.py",
    "kinds/volumes/trained.py",
    "kinds/volumes/training.py",
    "inference",
    "networks",
    "parameters.py",
    "settings",
    "training",
]

FILES = sorted(
    file
    for module in TYPED
    for file in ([PACKAGE / module] if module.endswith(".py") else (PACKAGE / module).rglob("*.py"))
)
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def functions(tree: ast.AST) -> list[FUNCTION]:
    return [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]


def arguments(function: FUNCTION) -> list[ast.arg]:
    """Returns all arguments of a function except `self` and `cls`."""
    args = function.args
    rest = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, *rest] if arg.arg not in {"self", "cls"}]


def missing(tree: ast.AST) -> list[str]:
    """Returns missing annotations: "function(argument)" for an argument, "function" for a return value."""
    found = []
    for function in functions(tree):
        found += [f"{function.name}({arg.arg})" for arg in arguments(function) if arg.annotation is None]
        found += [function.name] * (function.returns is None)
    return found


def docstring_faults(tree: ast.AST) -> list[str]:
    """Returns docstrings whose first line is not a sentence, and entries of `Args` that are not arguments."""
    found = []
    for node in [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | FUNCTION)]:
        text = ast.get_docstring(node) or "."
        title = getattr(node, "name", "the module")
        if not text.splitlines()[0].endswith((".", "`")):
            found.append(f"{title}: its first line is not a sentence")
        if isinstance(node, FUNCTION) and (section := re.search(r"^Args:\n((?:(?:  .*)?\n?)*)", text, re.MULTILINE)):
            own = {arg.arg for arg in arguments(node)}
            listed = re.findall(r"^  \*{0,2}(\w+(?:, \w+)*):", section[1], re.MULTILINE)
            entries = {entry for line in listed for entry in line.split(", ")}
            found += [f"{title}: Args has '{entry}'" for entry in sorted(entries - own)]
            run_on = [arg for arg in own - entries if re.search(rf"[.`] {arg}: ", section[1])]
            found += [f"{title}: '{arg}' has no line of its own" for arg in sorted(run_on)]
    return found


def test_missing_annotations_are_found():
    source = "class A:\n  def f(self, x, *y: int, **z) -> int:\n    def g(): pass\n  async def h(a: int): pass"
    assert missing(ast.parse(source)) == ["f(x)", "f(z)", "h", "g"]


def test_faults_in_docstrings_are_found():
    source = 'def f(x, y):\n    """Adds:\n\n    two.\n\n    Args:\n      x: a. y: b.\n      z: c\n    """'
    assert docstring_faults(ast.parse(source)) == [
        "f: its first line is not a sentence",
        "f: Args has 'z'",
        "f: 'y' has no line of its own",
    ]


@pytest.mark.parametrize("faults", [missing, docstring_faults])
def test_every_function_is_annotated_and_its_docstring_is_complete(faults):
    found = {name(path): faults(ast.parse(path.read_text())) for path in FILES}
    assert {path: faults for path, faults in found.items() if faults} == {}


def test_the_type_checker_reads_the_same_modules():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert sorted(settings["files"]) == sorted(f"mtf_imaging/{module}" for module in TYPED)
    exempt = [entry["module"] for entry in settings["overrides"] if "disallow_untyped_defs" in entry]
    assert not exempt
    silent = [name for entry in settings["overrides"] if "follow_imports" in entry for name in entry["module"]]
    assert not {f"mtf_imaging.{module.removesuffix('.py')}.*" for module in TYPED} & set(silent)


def test_type_checkers_see_the_names_that_are_imported_on_first_use():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imported = [alias.asname for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(imported) == sorted(mi._LAZY)


@pytest.mark.slow
def test_a_type_checker_finds_mistakes_of_a_user(tmp_path):
    mistakes = [
        ("mi.layers.Conv(3, kernel_siz=3)", 'did you mean "kernel_size"'),
        ("mi.Program(abs, {}, layuot='x:rows')", 'did you mean "layout"'),
        ("mi.jobs.train(num_stepz=3)", 'did you mean "num_steps"'),
        ("mi.fit(abs, np.ones(2), np.ones(2)).losess", 'maybe "losses"'),
        ("mi.unknown", 'has no attribute "unknown"'),
    ]
    program = tmp_path / "program.py"
    program.write_text("\n".join(["import numpy as np; import mtf_imaging as mi", *(code for code, _ in mistakes)]))
    command = [sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    done = subprocess.run(
        [*command, "--strict", f"--cache-dir={tmp_path}", str(program)], cwd=ROOT, capture_output=True, text=True
    )
    found = {
        int(line.split(":")[1]): line for line in done.stdout.splitlines() if ".py:" in line and ": error:" in line
    }
    for number, (code, message) in enumerate(mistakes, 2):
        assert message in found.get(number, ""), (code, done.stdout[-500:])
    assert len(found) == len(mistakes)
