"""Every imported package is declared in setup.py, and every declared one is used."""

import ast
import functools
import importlib.metadata
import json
import re
import sys
from pathlib import Path

import pytest

from tests import audit
from tests.selection.imports import module_name

ROOT = Path(__file__).parents[1]
OWN = {"mtf_imaging", "models"}
FILES = sorted([*(ROOT / "mtf_imaging").rglob("*.py"), *(ROOT / "models").rglob("*.py")])
# Declared packages that no file imports: the reason.
NOT_IMPORTED = {
    "tensorboard": "shows the summaries that TensorFlow writes",
    "python-gdcm": "decodes pixels for pydicom",
    "alembic": "creates the tables of a database for mlflow-skinny",
    "sqlalchemy": "opens databases for mlflow-skinny",
}


@functools.cache
def keywords() -> dict[str, ast.expr]:
    """Returns the arguments of `setup` by name."""
    (call,) = [
        node
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setup"
    ]
    return {keyword.arg: keyword.value for keyword in call.keywords}


def project(requirement: str) -> str:
    """Returns the name of a requirement, normalized."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


@functools.cache
def required() -> set[str]:
    return {project(text) for text in ast.literal_eval(keywords()["install_requires"])}


@functools.cache
def optional() -> set[str]:
    extras = ast.literal_eval(keywords()["extras_require"])
    names = ("dicom", "dicom-seg", "itk", "mlflow", "onnx", "tflite", "wandb")
    return {project(text) for extra in names for text in extras[extra]}


def imports(path: Path, at_start: bool) -> set[str]:
    """Returns the packages of others that a file imports.

    Args:
      path: the file.
      at_start: whether to leave out the imports within functions.
    """
    nodes, names = [ast.parse(path.read_text())], set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
        elif not (at_start and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            nodes += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return {name.split(".")[0] for name in names} - OWN - sys.stdlib_module_names


@functools.cache
def projects() -> dict[str, set[str]]:
    """Returns the normalized names of the projects that contain each package."""
    installed = importlib.metadata.packages_distributions()
    return {package: {project(name) for name in names} for package, names in installed.items()}


def test_every_imported_package_is_declared():
    missing = {}
    for path in FILES:
        for at_start, declared in ((True, required()), (False, required() | optional())):
            for package in imports(path, at_start):
                if not projects().get(package, {package}) & declared:
                    missing.setdefault(package, module_name(path))
    assert not missing, "add these packages to setup.py"


def test_every_declared_package_is_imported():
    used = set().union(*(projects().get(package, {package}) for path in FILES for package in imports(path, False)))
    assert required() | optional() == (used & (required() | optional())) | NOT_IMPORTED.keys()
    assert not used & NOT_IMPORTED.keys()


def test_installed_versions_are_within_the_declared_ranges():
    from packaging.requirements import Requirement

    for text in ast.literal_eval(keywords()["install_requires"]):
        requirement = Requirement(text)
        assert requirement.specifier.contains(importlib.metadata.version(requirement.name)), text


def test_versions_of_zarr_that_run_code_are_not_admitted():
    """Zarr 3.0.10 with numcodecs 0.15.1 unpickles the chunks of images that name the codec pickle."""
    from packaging.requirements import Requirement

    ranges = {each.name: each.specifier for each in map(Requirement, ast.literal_eval(keywords()["install_requires"]))}
    assert not ranges["zarr"].contains("3.0.10")
    assert not ranges["numcodecs"].contains("0.15.1")


PLAIN = {"name": "numpy", "version": "2.0.0", "vulns": []}
FAULTY = {"name": "pillow", "version": "1.0", "vulns": [{"id": "CVE-1", "fix_versions": ["1.1", "2.0"]}]}
SKIPPED = {"name": "zarr", "skip_reason": "not found"}
OURS = {"name": "mtf-imaging", "skip_reason": "distribution marked as editable"}


@pytest.mark.parametrize(
    ("packages", "status", "text"),
    [
        ([PLAIN, OURS], 0, "1 packages audited, 0 with known vulnerabilities, 0 not audited"),
        ([PLAIN, FAULTY], 1, "pillow 1.0: CVE-1, fixed in 1.1, 2.0\n2 packages audited, 1 with known"),
        ([PLAIN, SKIPPED], 1, "zarr: not audited (not found)\n1 packages audited, 0 with known vulner"),
        (
            [SKIPPED, OURS],
            2,
            "The index of vulnerabilities cannot be reached, so nothing was audited (not found)",
        ),
    ],
)
def test_an_audit_names_vulnerable_and_skipped_packages(packages, status, text):
    found, code = audit.summarize(json.dumps({"dependencies": packages, "fixes": []}), "")
    assert found.startswith(text)
    assert code == status


def test_an_audit_without_network_says_so():
    found, code = audit.summarize("", "Traceback\nConnectionError: no route\n")
    assert found == audit.UNREACHABLE.format("ConnectionError: no route")
    assert code == 2
