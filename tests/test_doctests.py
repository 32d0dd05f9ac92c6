"""Runs the examples in the docstrings of every module."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("mtf_imaging", "models") for path in sorted((ROOT / folder).rglob("*.py"))]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    return name if parts[0] == "mtf_imaging" else f"mtf_imaging.{name}"


@pytest.mark.parametrize("name", [module_name(path) for path in FILES if ">>> " in path.read_text()])
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
