"""The program `segment.py` of an exported network: one file, with the parts of this package that it uses."""

import ast
import functools
import importlib.util
from types import ModuleType
from typing import NamedTuple

from mtf_imaging.evaluation.export import segment

NAME = "segment.py"
_PACKAGE = "mtf_imaging"


def program_text(module: ModuleType = segment) -> str:
    """Returns the text of a program that does not import this package.

    Each name that the program imports from the package is replaced by its definition, after those that it needs. A name
    that the program itself defines replaces that of the package.

    Args:
      module: the program.
    """
    name = module.__name__
    nodes = _source_nodes(name)
    parts: dict[str, _Part] = {}
    skipped = {own for own, node in nodes.items() if not _from_package(node)}
    replaced = dict.fromkeys(node for node in nodes.values() if _from_package(node))
    for node in replaced:
        for alias in node.names:
            _add(alias.name, node.module, parts, skipped)
    lines = _source(name).splitlines()
    first, last = min(node.lineno for node in replaced), max(node.end_lineno for node in replaced)
    imports = sorted({part.text for part in parts.values() if part.is_import})
    definitions = [part.text for part in parts.values() if not part.is_import]
    return "\n".join([*lines[: first - 1], *imports, "", *definitions, *lines[last:]]) + "\n"


class _Part(NamedTuple):
    """A definition or an import of a program, and the module that it comes from."""

    text: str
    module: str
    is_import: bool = False


def _add(name: str, module: str, parts: dict[str, _Part], skipped: set[str]) -> None:
    """Adds the definition of a name in a module to `parts`, after the definitions that it needs.

    Raises:
      ValueError: modules give the same name to different things, which cannot share one file.
    """
    if name in skipped:
        return
    nodes = _source_nodes(module)
    node = nodes[name]
    if _from_package(node):
        _add(name, node.module, parts, skipped)
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        alias = next(alias for alias in node.names if name in (alias.name, alias.asname))
        one = ast.ImportFrom(node.module, [alias], 0) if isinstance(node, ast.ImportFrom) else ast.Import([alias])
        part = _Part(ast.unparse(one), getattr(node, "module", name), is_import=True)
    else:
        first = min(each.lineno for each in (node, *getattr(node, "decorator_list", [])))
        source = "\n".join(_source(module).splitlines()[first - 1 : node.end_lineno])
        part = _Part(source if isinstance(node, ast.Assign) else f"\n\n{source}\n", module)
    if name in parts:
        if parts[name] != part:
            raise ValueError(
                f"{name} is defined in {parts[name].module} and in {part.module}. Fix: rename one of them."
            )
        return
    if not part.is_import:
        used = (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in nodes)
        for other in dict.fromkeys(used):
            _add(other, module, parts, {*skipped, name})  # a class may name itself
    parts[name] = part


def _from_package(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == _PACKAGE


@functools.cache
def _source(module: str) -> str:
    return importlib.util.find_spec(module).loader.get_source(module)


@functools.cache
def _source_nodes(module: str) -> dict[str, ast.stmt]:
    """Returns the statements at the top level of a module by the names that they define or import."""
    nodes: dict[str, ast.stmt] = {}
    for node in ast.parse(_source(module)).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names = [each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        else:
            names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        nodes |= dict.fromkeys(names, node)
    return nodes
