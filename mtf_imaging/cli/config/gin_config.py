"""Finds gin files and binds their parameters; errors name the place and suggest the closest name."""

import importlib
import inspect
import io
import logging
import re
from collections.abc import Collection, Iterable
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError

import gin

from mtf_imaging.cli.config import configurables, gin_internals, resources
from mtf_imaging.cli.config.own_modules import OwnModules
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.text_file import read_text
from mtf_imaging.spelling import did_you_mean

_NO_MACRO = re.compile(r"No bindings specified for '([^']+)/gin\.macro'")
_NO_CONFIGURABLE = re.compile(r"No configurable matching (?:reference )?'@?([^'()]+)(?:\(\))?'")
_AMBIGUOUS = re.compile(r"Ambiguous selector '([^']+)', matches \[([^]]+)\]\.?")
_MALFORMED = re.compile(r"malformed node or string.*")  # a memory address of an object at the end
_NO_PARAMETER = re.compile(r"Configurable '([^']+)' doesn't have a parameter named '([^']+)'")
_log = logging.getLogger(__name__)
CIRCLE = "its files include each other in a circle. Fix: remove an include."


def find_gin_file(name: str, folders: Iterable[Path] = (Path(),)) -> Path:
    """Finds a gin file by path, or a shipped gin file by name, with or without its folder and `.gin`.

    Args:
      name: the path or name.
      folders: folders to which the path may be relative; the first one that contains the file wins.

    Raises:
      ConfigError: the file does not exist.
    """
    with_suffix = name if name.endswith(".gin") else f"{name}.gin"
    for path in (folder / file for folder in folders for file in (name, with_suffix)):
        if path.is_file():
            return path
    shipped = resources.shipped_files()
    for candidate in (with_suffix, *(f"{folder}/{with_suffix}" for folder in resources.FOLDERS)):
        if candidate in shipped:
            return shipped[candidate]
    folders_left_out = {Path(path).stem: path for path in shipped}
    hint = did_you_mean(Path(name).stem, folders_left_out)
    raise ConfigError(
        f"there is no gin file '{name}', neither here nor shipped.{hint} Fix: check the path. Shipped: "
        f"{', '.join(shipped)}"
    )


def read_gin_file(file: Path) -> str:
    """Reads a gin file, with or without a byte order mark.

    Raises:
      ConfigError: the file is not a regular file, or not text in UTF-8.
    """
    try:
        return read_text(file)
    except DataError as error:
        raise ConfigError(f"gin file {error}") from error


def _without_registration(text: str) -> str:
    """Returns the text of a gin file, unless it could call functions that no module has registered.

    Raises:
      ConfigError: it could, for instance `@mtf_imaging.files.workers.os.system()`.
    """
    if "__gin__" in text:
        raise ConfigError(
            "a statement imports from __gin__. With gin's dynamic registration, a file can call any function of "
            "Python. Fix: remove the statement, and decorate your own functions with @gin.configurable."
        )
    return text


def bind(files: Iterable[Path], bindings: Iterable[str], values: dict, import_modules: bool = True) -> None:
    """Binds gin parameters: files first, then bindings, then values. The last binding of a parameter wins.

    Gin files can `import` modules from the working folder and from their own folder.

    Args:
      files: gin files. `find_gin_file` finds the files that they `include`, in the working folder or in their own.
      bindings: strings of the form `name.parameter = value`, in gin's syntax.
      values: {"name.parameter": Python value}. If a file binds the parameter to a macro, the macro gets the value, so
        that all parameters that share it agree, for example the number of steps and the end of the schedule.
      import_modules: whether files and bindings may import modules outside of this package, which runs their code.

    Raises:
      ConfigError: a file or binding cannot be read, a name does not exist, or imports are not allowed.
    """
    # The saved configuration of a run names training parameters, so every command registers them. Imports TensorFlow.
    training_settings = importlib.import_module("mtf_imaging.cli.config.training_settings")
    modules = OwnModules(import_modules)
    modules.add_folder(Path.cwd())

    folders = [Path()]

    def read(name):
        file = find_gin_file(name, folders)
        if not resources.is_shipped(file):
            modules.add_folder(file.parent)
            folders.append(file.parent)
        text = io.StringIO(_without_registration(read_gin_file(file)))
        text.name = str(file)  # gin includes it in messages
        return text

    gin_internals.read_files_with(read)
    gin_internals.import_modules_with(modules.import_module)
    for file in files:
        with _explained(f"gin file {file}", read_gin_file(file)):
            gin.parse_config_file(str(file), print_includes_and_imports=False)
    for binding in bindings:
        modules.named_in = f"gin parameter {binding}"
        with _explained(f"gin parameter {binding}", binding):
            gin.parse_config(binding)
    for name, value in values.items():
        gin.bind_parameter(_macro_of(name) or name, value)
    for binding in bindings:
        name = binding.partition("=")[0].strip()
        if name.isidentifier() and not re.search(rf"%{name}\b", gin.config_str()):
            raise ConfigError(
                f"gin parameter {binding}: '{name}' is not of the form NAME.PARAMETER, and no file uses %{name}."
                f"{_owner_hint(name)} Fix: give both names, for instance --gin.train.num_steps=100."
            )
    with _explained("the gin configuration"):
        gin.finalize()
        for binding in gin_internals.bindings():
            _check_no_circle(*binding)
    if unused := _unused_bindings(training_settings.BY_REFERENCE):
        _log.warning(
            "these settings have no effect, because no other setting uses their class or scope: %s. Fix: correct them, "
            "or set a parameter such as train.optimizer to their class.",
            ", ".join(unused),
        )


def _check_no_circle(scope: str, selector: str, within: tuple[str, ...] = ()) -> None:
    """Checks that the value of no parameter needs the value itself, which Python would compute without an end.

    Args:
      scope: the scope of a class or macro, "" for none.
      selector: its full name.
      within: the classes and macros that refer to it, outermost first.

    Raises:
      ValueError: the last of these refer to each other in a circle.
    """
    name = scope if selector.startswith("gin.") else f"{scope}/{selector.removeprefix('mtf_imaging.')}".lstrip("/")
    if name in within:
        raise ValueError(
            f"{' -> '.join([*within[within.index(name) :], name])} refer to each other in a circle. "
            "Fix: give one of them another value"
        )
    bound, scopes = gin_internals.bindings(), scope.split("/")
    every = [bound.get(("/".join(scopes[:end]), selector), {}) for end in range(len(scopes) + 1)]
    values = {parameter: value for each in every for parameter, value in each.items()}
    for one in gin.config.iterate_references(values):
        if isinstance(one, gin.config.ConfigurableReference) and one.evaluate:
            own, _, inner = one.scoped_selector.rpartition("/")
            _check_no_circle(own or scope, inner, (*within, name))


def _unused_bindings(by_reference: Collection[type]) -> list[str]:
    """Returns the bound parameters, in file order, of classes or scopes to which no value refers.

    Args:
      by_reference: the classes that are used only if a value refers to them.
    """
    references = [
        each.scoped_selector
        for each in gin.config.iterate_references(gin_internals.bindings())
        if isinstance(each, gin.config.ConfigurableReference)
    ]
    names = {reference.rpartition("/")[2] for reference in references}
    scopes = {scope for reference in references for scope in reference.split("/")[:-1]}
    unused = {*by_reference} - {*map(gin_internals.wrapped, names)}
    return [
        f"{scope}{'/' * bool(scope)}{selector.removeprefix('mtf_imaging.')}.{parameter}"
        for (scope, selector), parameters in gin_internals.bindings().items()
        for parameter in parameters
        if not selector.startswith("gin.")
        and (not {*scope.split("/")} <= {"", *scopes} or gin_internals.wrapped(selector) in unused)
    ]


def _macro_of(name: str) -> str | None:
    """Returns the parameter of the macro to which a parameter is bound; None if it is not bound to a macro."""
    try:
        bound = gin.query_parameter(name)
    except ValueError:  # it is not bound
        return None
    is_macro = isinstance(bound, gin.config.ConfigurableReference) and bound.selector.split(".")[-1] == "macro"
    return f"{bound.scoped_selector}.value" if is_macro else None


def _owner_hint(parameter: str) -> str:
    """Returns " Did you mean 'train.seed'?" for a parameter without its configurable, or "" if none has it."""
    owners = [
        selector.removeprefix("mtf_imaging.")
        for selector, configurable in gin_internals.configurables()
        if selector.startswith("mtf_imaging.") and parameter in inspect.signature(configurable.wrapped).parameters
    ]
    names = [f"'{owner}.{parameter}'" for owner in sorted(owners, key=lambda owner: owner.count("."))]
    return f" Did you mean {' or '.join(names[:3])}?" if names else ""


@contextmanager
def _explained(where: str, bindings: str = ""):
    """Converts gin errors to `ConfigError`s.

    Args:
      where: the place that the message names.
      bindings: the text that gin reads.
    """
    try:
        yield
    except (RecursionError, MemoryError) as error:  # Python's parser raises both for thousands of parentheses
        raise ConfigError(f"{where}: a value is nested too deeply, or {CIRCLE}") from error
    except (ValueError, TypeError, SyntaxError, OSError, ImportError, RuntimeError, KeyError, TokenError) as error:
        raise ConfigError(f"{where}: {_explanation(error, bindings)}", getattr(error, "settings", ())) from error


def _explanation(error: Exception, bindings: str) -> str:
    text = str(error).split("\n  In bindings string line")[0]  # the message already names the binding
    if match := _AMBIGUOUS.search(text):
        names = sorted(match[2].replace("'", "").split(", "))
        place = "\n".join(text.splitlines()[1:])
        text = f"'{match[1]}' is ambiguous: {', '.join(names)}. Fix: write one of these names in full."
        return f"{text}\n{place}".rstrip()
    if match := _NO_MACRO.match(text):
        return f"%{match[1]} has no value. Fix: add a line such as {match[1]} = 1, or remove %{match[1]}."
    if match := _NO_CONFIGURABLE.search(text):
        name = match[1].split("/")[-1]
        names = {selector.split(".")[-1] for selector, _ in gin_internals.configurables()}
        known = names - {"macro", "constant", "singleton"}
        first, *rest = text.splitlines()
        if module := configurables.module_of(name):
            return "\n".join([f"{first} Fix: add the line: import {module}", *rest])
        hint = did_you_mean(name.split(".")[-1], known) or f" Known: {', '.join(sorted(known))}."
    elif match := _NO_PARAMETER.search(text):
        known = list(inspect.signature(gin_internals.wrapped(match[1])).parameters)
        hint = did_you_mean(match[2], known) or f" Known: {', '.join(known)}."
    elif isinstance(error, SyntaxError | TokenError):
        text = _MALFORMED.sub("the value is not valid gin.", text)
        hint = f" In gin, a string needs quotes, for instance {_quoted_example(bindings)}."
    else:
        hint = ""
    first, *rest = text.splitlines() or [type(error).__name__]
    return "\n".join([f"{first}{hint}", *rest])


def _quoted_example(binding: str) -> str:
    """Returns the flag for a binding, with its value quoted as a string.

    >>> print(_quoted_example("job.dtype=bfloat16"))
    --gin.job.dtype='"bfloat16"'
    """
    match = re.fullmatch(r"([\w.]+)\s*=\s*([\w:,./-]+)", binding.strip()) or ("", "setup.layout", "x:rows")
    return f"""--gin.{match[1]}='"{match[2]}"'"""
