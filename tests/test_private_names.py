"""Private names of TensorFlow and mesh_tensorflow: only one module uses them, and its table lists them.

The tests read sources and import neither library.
"""

import ast
import importlib.util
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPAT = ROOT / "mtf_imaging/engine/compat.py"
FILES = sorted({*(ROOT / "mtf_imaging").rglob("*.py"), *(ROOT / "models").rglob("*.py")} - {COMPAT})

OF_PYTHON = {"_asdict", "_exit", "_fields", "_make", "_replace"}
CODE = {"__closure__", "__code__", "__globals__"}  # attributes for rebuilding a function of another library
DIGESTED = "mtf_imaging/files/provenance/content.py"  # reads the code of a user's functions
# Attributes that all subclasses set, including those in mesh_tensorflow.
PROTOCOL = {"Operation": {"_outputs"}, "Lowering": {"_counters"}}


def is_private(name: str) -> bool:
    return name in CODE or (name.startswith("_") and not name.startswith("__") and name not in OF_PYTHON)


def root(node: ast.expr) -> str | None:
    """Returns the first name in a chain of attributes, or None if the chain starts with a call."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def private_reads(tree: ast.AST) -> set[str]:
    """Returns the private names in a source, except those of `self`, `cls`, `super()`, gin and its own classes."""
    nodes, found = list(ast.walk(tree)), set()
    own = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and root(n) == "self"}
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            value = node.value
            is_super = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
            is_self = isinstance(value, ast.Name) and value.id in {"self", "cls"} and node.attr not in CODE
            if not is_super and not is_self and root(value) != "gin":
                found.add(node.attr)
        elif isinstance(node, ast.Call) and root(node.func) in {"getattr", "setattr", "hasattr"}:
            found |= {a.value for a in node.args[1:2] if isinstance(a, ast.Constant) and is_private(str(a.value))}
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            found |= {name for name in names if name.startswith("tensorflow.python")}
    return found


@cache
def upstream_classes() -> dict[str, ast.ClassDef]:
    """Returns {name: class definition} for the classes in the operations module of mesh_tensorflow."""
    (folder,) = importlib.util.find_spec("mesh_tensorflow").submodule_search_locations
    return {n.name: n for n in ast.parse((Path(folder) / "ops.py").read_text()).body if isinstance(n, ast.ClassDef)}


def upstream_names(name: str) -> set[str]:
    """Returns the private attributes of a class of mesh_tensorflow and of its base classes."""
    node = upstream_classes().get(name)
    if node is None:
        return set()
    own = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and root(n) == "self" and is_private(n.attr)}
    own |= {n.name for n in node.body if isinstance(n, ast.FunctionDef) and is_private(n.name)}
    return own.union(*(upstream_names(base.id) for base in node.bases if isinstance(base, ast.Name)))


def upstream_bases(name: str, classes: dict[str, ast.ClassDef]) -> set[str]:
    """Returns the direct and indirect base classes in mesh_tensorflow of a class of this package."""
    found = set()
    for base in classes[name].bases:
        if isinstance(base, ast.Attribute) and root(base) == "mtf":
            found.add(base.attr)
        elif isinstance(base, ast.Name) and base.id in classes and base.id != name:
            found |= upstream_bases(base.id, classes)
    return found


def table() -> list[str]:
    """Returns the names in the table of the adapter."""
    calls = [node for node in ast.walk(ast.parse(COMPAT.read_text())) if isinstance(node, ast.Call)]
    return [call.args[0].value for call in calls if root(call.func) == "Private"]


@pytest.mark.parametrize(
    "source",
    [
        "op._ksize",
        "self.layout_rules._pairs",
        "getattr(op, '_variables', [])",
        "fn.__closure__",
        "from tensorflow.python.client import device_lib",
        "import tensorflow.python.framework.ops as ops",
        "f(x)._data",
    ],
)
def test_all_forms_of_private_names_are_found(source):
    assert private_reads(ast.parse(source))


def test_private_names_of_the_own_class_are_ignored():
    source = "class A:\n  def f(self, b):\n    self._x = b._x\n    return super()._y, self._z, b.t._asdict()"
    assert not private_reads(ast.parse(source))


def test_only_the_adapter_uses_private_names():
    reads = {str(path.relative_to(ROOT)): private_reads(ast.parse(path.read_text())) for path in FILES}
    assert {path: names for path, names in reads.items() if names} == {DIGESTED: CODE}


def test_subclasses_use_no_private_attribute_of_their_base_in_mesh_tensorflow():
    trees = [ast.parse(path.read_text()) for path in FILES]
    classes = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    shared = {}
    for name, node in classes.items():
        own = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and root(n) == "self"}
        for base in upstream_bases(name, classes):
            shared[name] = own & upstream_names(base) - PROTOCOL.get(base, set())
    assert "_outputs" in upstream_names("Operation")
    assert len(shared) > 20
    assert {name: names for name, names in shared.items() if names} == {}


def test_the_table_lists_what_the_adapter_uses():
    assert {name.rpartition(".")[2] for name in table() if name.startswith(("mtf.", "tf."))} == {
        node.attr
        for node in ast.walk(ast.parse(COMPAT.read_text()))
        if isinstance(node, ast.Attribute) and is_private(node.attr)
    }
    text = COMPAT.read_text()
    for module, _, name in (entry.rpartition(".") for entry in table() if "tensorflow.python" in entry):
        assert f"from {module} import {name}" in text


@pytest.mark.parametrize("name", [name for name in table() if name.startswith("mtf.")])
def test_mesh_tensorflow_has_the_private_names(name):
    _, owner, attribute = name.split(".")
    assert attribute in upstream_names(owner)
