"""Reads gin files without binding or importing anything, before TensorFlow is imported."""

import re
from collections.abc import Iterable
from pathlib import Path
from tokenize import TokenError
from typing import NamedTuple

from gin import config_parser

from mtf_imaging.cli.config.gin_config import CIRCLE, find_gin_file, read_gin_file
from mtf_imaging.errors import ConfigError


class GinText(NamedTuple):
    """The contents of gin files and parameters.

    Attributes:
      bound: {"name.parameter": value}; names omit the module `mtf_imaging`. A reference or macro is a `Named`.
      uses: "import" or "include" for each such statement.
    """

    bound: dict[str, object]
    uses: list[str]


class Named(NamedTuple):
    """A reference or macro as written, such as `@UNet3D()` or `%size`.

    Attributes:
      text: the text.
      name: the name without scopes, modules and parentheses.
    """

    text: str
    name: str

    def __repr__(self):
        return self.text


class _NoReferences(config_parser.ParserDelegate):
    """Replaces each reference and macro with its name instead of resolving it."""

    def configurable_reference(self, scoped_configurable_name, evaluate):
        return Named(f"@{scoped_configurable_name}{'()' * evaluate}", re.split(r"[/.]", scoped_configurable_name)[-1])

    def macro(self, macro_name):
        return Named(f"%{macro_name}", macro_name)


def read_gin_text(files: Iterable[Path], bindings: Iterable[str] = (), follow: bool = False) -> GinText:
    """Reads gin files, then parameters; later bindings take precedence.

    Args:
      files: paths of gin files.
      bindings: strings of the form `name.parameter = value`.
      follow: whether to read included files, too.

    Raises:
      SyntaxError: a file or binding is not valid gin.
      ConfigError: an included file does not exist, or files include each other.
    """
    contents = GinText({}, [])
    for file in files:
        _read(read_gin_file(file), contents, (file,) if follow else ())
    for binding in bindings:
        _read(binding, contents, ())
    return contents


def _statements(text):
    """Yields the statements of a gin file. Python 3.12 and later raise TokenError for an unterminated string."""
    try:
        parser = config_parser.ConfigParser(text, _NoReferences())
        while (statement := parser.parse_statement()) is not None:
            yield statement
    except TokenError as error:
        raise SyntaxError(*error.args[:1]) from error


def _read(text, contents, files):
    """Adds the contents of a text; `files` is the chain of files that include it, innermost last."""
    for statement in _statements(text):
        if isinstance(statement, config_parser.BindingStatement):
            contents.bound[f"{statement.selector.removeprefix('mtf_imaging.')}.{statement.arg_name}"] = statement.value
        elif isinstance(statement, config_parser.ImportStatement):
            contents.uses.append("import")
        elif isinstance(statement, config_parser.IncludeStatement):
            contents.uses.append("include")
            if files:
                file = find_gin_file(statement.filename, [Path(), files[-1].parent])
                if file.resolve() in {one.resolve() for one in files}:
                    raise ConfigError(f"gin file {files[0]}: {CIRCLE}")
                _read(read_gin_file(file), contents, (*files, file))
