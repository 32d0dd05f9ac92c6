"""The errors of the package: their attributes, and that the package exports each of them."""

import ast
import builtins
import inspect
import pickle
import re
from pathlib import Path

import pytest

import mtf_imaging as mi
from mtf_imaging import errors

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, mi.MtfImagingError)]
PACKAGE = Path(mi.__file__).parent
RAISED = re.compile(r"^\s*((?:\w+, )*\w+): ")
INTERNAL = {
    "Fault",  # of a file, which the border of its format reports as a DataError that names the file
    "NameTooLong",  # a DataError that is caught within the package and reported as that of one case
    "WorkerError",  # caught within the package and reported in a table
}


def raised(docstring: str) -> set[str]:
    """Returns the names in the section `Raises:` of a docstring."""
    section = re.search(r"^Raises:\n((?:  .*\n?|\n(?=  ))*)", docstring, re.MULTILINE)
    lines = section.group(1).splitlines() if section else []
    entries = (RAISED.match(line) for line in lines if re.match(r"  \S", line))
    return {name for entry in entries if entry for name in entry.group(1).split(", ")}


def test_the_reader_of_docstrings_sees_every_error():
    found = raised(
        "Does.\n\nRaises:\n  ConfigError, LayoutError: this,\n    and: that.\n  DataError: other.\n\nNote: it."
    )
    assert found == {"ConfigError", "LayoutError", "DataError"}


def test_every_error_that_a_docstring_names_can_be_imported_from_the_package():
    unknown = set()
    for path in PACKAGE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        documented = [node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
        names = {name for node in documented for name in raised(ast.get_docstring(node) or "")} - INTERNAL
        unknown |= {(path, name) for name in names if not hasattr(builtins, name) and name not in mi.__all__}
    assert not unknown


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_an_attribute_of_the_package(kind):
    assert getattr(mi, kind.__name__) is kind
    assert kind.__name__ in mi.__all__


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_keeps_its_message_and_settings_in_another_process(kind):
    error = pickle.loads(pickle.dumps(kind("too large. Fix: a smaller batch_size.", ["batch_size"])))
    assert type(error) is kind
    assert str(error) == "too large. Fix: a smaller batch_size."
    assert error.args == ("too large. Fix: a smaller batch_size.",)
    assert error.settings == ("batch_size",)
    assert kind("no fix.").settings == ()
