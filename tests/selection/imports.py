"""The imports of all Python files of the repository, read from their sources without running them."""

import ast
import functools
import itertools
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "mtf_imaging"
FOLDERS = (PACKAGE, "models", "benchmarks", "tests")

# Files that import modules whose names their sources do not contain, with these modules. "a.*" stands for all of a.
DYNAMIC = {
    "benchmarks.partition.contender": ["benchmarks.partition.*"],
    "benchmarks.reliability.mutations": ["mtf_imaging.*"],  # the readers of files
    "mtf_imaging.cli.commands.all_commands": ["mtf_imaging.cli.commands.*"],
    "mtf_imaging.cli.config.configurables": ["mtf_imaging.models.*"],
    "mtf_imaging.cli.config.gin_config": ["mtf_imaging.models.*"],  # gin files import the models
    "mtf_imaging.kinds.kind": ["mtf_imaging.kinds.*"],
    "mtf_imaging.engine.program.lowering": ["tests.poison"],  # in tests only: tests/importing.py
    "tests.cli.test_flags_in_messages": ["mtf_imaging.cli.config.*", "mtf_imaging.models.*"],
    "tests.references.test_keras_unet_collection": [],  # modules of other packages
    "tests.test_docs": ["mtf_imaging.*"],
    "tests.test_docs_generated": ["mtf_imaging.*"],
    "tests.test_doctests": ["mtf_imaging.*"],
}
_READ = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Constant)  # the nodes that are read
# Files that name modules without importing them.
CONDITIONAL = ("tests.importing", "tests.selection.imports", "tests.selection.changes", "tests.test_typed")


def module_name(path: Path) -> str:
    """Returns the module name of a file in an installation."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = [PACKAGE, *parts] if parts[0] == "models" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, module: str, is_package: bool = False) -> set[str]:
    """Returns the dotted names of all imports in a source; `from a import b` counts as a.b."""
    return {name for _, name in _bindings([*itertools.chain(*_nodes(ast.parse(source)))], module, is_package)}


def all_imports(module: str) -> set[str]:
    """Returns the dotted names of all imports of a module of the repository, also of those for types only."""
    _, *nodes = _source(module)
    return {name for _, name in _bindings([*itertools.chain(*nodes)], module, _is_package(module))}


def _bindings(nodes: list[ast.AST], module: str, is_package: bool) -> list[tuple[str, str]]:
    """Returns (name in the source, dotted name) of all imports."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            # `import a.b` binds the name a.
            found += [(alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            found += [(alias.asname or alias.name, f"{base}.{alias.name}") for alias in node.names]
    return found


def _nodes(tree: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    """Returns all imports, attributes and constants of a syntax tree.

    Returns:
      (those that run, those in blocks that begin with `if TYPE_CHECKING:`).
    """
    found, types, pending = [], [], [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            types += [each for each in ast.walk(node) if isinstance(each, _READ)]
            continue
        if isinstance(node, _READ):
            found.append(node)
        pending += ast.iter_child_nodes(node)
    return found, types


@functools.cache
def modules() -> dict[str, Path]:
    """Returns {dotted name: file} of all modules of the repository."""
    return {module_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}


@functools.cache
def _source(module: str) -> tuple[ast.Module, list[ast.AST], list[ast.AST]]:
    """Returns the syntax tree of a module, and its `_nodes`."""
    tree = ast.parse(modules()[module].read_text())
    return tree, *_nodes(tree)


def _is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


@functools.cache
def _lazy(module: str) -> dict[str, tuple[str, bool]]:
    """Returns {name: (module, whether the name is the module itself)} of the names that a package imports lazily."""
    names = {}
    for node in _source(module)[0].body if _is_package(module) else []:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) in ("_LAZY", "_MODULES"):
            for name, value in ast.literal_eval(node.value).items():
                target, attribute = (value, name) if isinstance(value, str) else value
                target = target if target in modules() else f"{module}.{target}"
                names[name] = target, attribute is None
    return names


def _attributes(module: str) -> list[list[str]]:
    """Returns the names of each chain of attributes, such as ["mi", "ops", "conv3d"]."""
    chains = []
    for node in _source(module)[1]:
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if names and isinstance(node, ast.Name):
            chains.append([node.id, *reversed(names)])
    return chains


def _follow(module: str, names: list[str]) -> set[str]:
    """Returns the modules that the attributes `names` of a module stand for."""
    found = set()
    for name in names:
        if name in _lazy(module):
            module, is_module = _lazy(module)[name]
            found.add(module)
            if not is_module:
                break
        elif f"{module}.{name}" in modules():
            module = f"{module}.{name}"
            found.add(module)
        else:
            break
    return found


def _expand(name: str) -> set[str]:
    """Returns the modules that a name stands for; "a.*" stands for a and everything in it."""
    package = name.removesuffix(".*")
    within = {module for module in modules() if module == package or module.startswith(f"{package}.")}
    return within if name.endswith(".*") else {package} & within


@functools.cache
def direct_imports(module: str) -> frozenset[str]:
    """Returns the modules of the repository that a module imports or names, with their packages."""
    found, bound = set(), {}
    for name, target in _bindings(_source(module)[1], module, _is_package(module)):
        base, _, last = target.rpartition(".")
        if target in modules():
            found.add(target)
            # `import a.b` binds a; `from a import b` and `import a.b as c` bind the module itself.
            bound[name] = name if target.startswith(f"{name}.") else target
        elif base in modules():
            found |= {base} | _follow(base, [last])
            if last in _lazy(base) and _lazy(base)[last][1]:
                bound[name] = _lazy(base)[last][0]
    for first, *names in _attributes(module):
        if bound.get(first) in modules():
            found |= _follow(bound[first], names)
    if not _lazy(module) and module not in CONDITIONAL:
        # Programs for other processes are named by strings, such as "tests.between.worker".
        words = {node.value for node in _source(module)[1] if isinstance(node, ast.Constant)}
        run = {word for word in words if isinstance(word, str) and "." in word and word in modules()}
        found |= run | {f"{word}.__main__" for word in run if f"{word}.__main__" in modules()}
    for name in DYNAMIC.get(module, []):
        found |= _expand(name)
    names = [name.split(".") for name in found | {module}]
    packages = {".".join(parts[:depth]) for parts in names for depth in range(1, len(parts))}
    if module.startswith("tests."):
        packages |= {f"{package}.conftest" for package in packages}
    return frozenset((found | packages) & modules().keys() - {module})


@functools.cache
def closure(module: str) -> frozenset[str]:
    """Returns a module and all modules of the repository that its tests can run."""
    found, pending = {module}, [module]
    while pending:
        new = direct_imports(pending.pop()) - found
        found |= new
        pending += new
    return frozenset(found)
