"""The list of mutants: its fragments exist, and every package has some."""

import collections
import importlib.util
import sys

import pytest

from tests.mutants.all_mutants import MUTANTS
from tests.mutants.mutant import FaultyLoader, Mutant, install
from tests.selection.imports import ROOT

LEAST = {
    "layout": 15,
    "files": 8,
    "processes": 15,
    "meshes": 25,
    "ops": 20,
    "layers": 5,
    "turns": 5,
    "upstream": 10,
    "program": 8,
    "inference": 10,
    "networks": 7,
    "training": 15,
    "evaluation": 15,
    "data": 15,
    "kinds": 15,
    "jobs": 3,
    "planner": 3,
    "models": 5,
    "cli": 2,
}


def test_every_fragment_occurs_once_and_every_replacement_compiles():
    for mutant in MUTANTS:
        compile(mutant.source, mutant.file, "exec")
        assert mutant.old != mutant.new
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


def test_every_package_has_mutants():
    numbers = collections.Counter(mutant.package for mutant in MUTANTS)
    assert numbers.keys() == LEAST.keys()
    assert {package: least for package, least in LEAST.items() if numbers[package] < least} == {}
    assert numbers.total() >= 120


def test_the_tests_of_every_mutant_exist():
    files = {word for mutant in MUTANTS for word in mutant.tests.split() if word.endswith(".py")}
    assert [file for file in sorted(files) if not (ROOT / file).is_file()] == []


def test_a_fragment_that_is_missing_or_repeated_is_an_error():
    for old in ("no such line", "return"):
        with pytest.raises(ValueError, match="not once"):
            Mutant("mtf_imaging/engine/layout/slices.py", old, "", "").source  # noqa: B018 - raises


def test_a_module_that_is_imported_cannot_be_changed():
    from mtf_imaging.engine.layout import slices

    mutant = next(mutant for mutant in MUTANTS if mutant.file == "mtf_imaging/engine/layout/slices.py")
    with pytest.raises(RuntimeError, match=r"^mtf_imaging\.engine\.layout\.slices is imported"):
        install(mutant)
    assert slices.Slices(5, 4).size == 2


def test_a_function_that_autograph_converts_keeps_its_fault(tmp_path, monkeypatch):
    import tensorflow as tf

    path = tmp_path / "converted.py"
    path.write_text("def number():\n    return 1\n")
    loader = FaultyLoader("converted", str(path))
    loader.source = path.read_text().replace("1", "2")
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("converted", path, loader=loader))
    monkeypatch.setitem(sys.modules, "converted", module)
    loader.exec_module(module)
    assert module.number() == tf.autograph.to_graph(module.number)() == 2
