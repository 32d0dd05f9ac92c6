"""Parses --setup: a mesh and a layout, or a layout file."""

from pathlib import Path
from typing import NamedTuple

from mtf_imaging.cli.config.gin_config import find_gin_file
from mtf_imaging.cli.config.gin_text import read_gin_text
from mtf_imaging.errors import ConfigError
from mtf_imaging.layout import ONE_PROCESSOR, Layout

_ONE_PROCESSOR_NAME = "one processor"
_FORM = "give --setup MESH/LAYOUT (rows:2,cols:2/x:rows,y:cols), --setup / (one processor) or a layout file (4x4)"
_BOUND = ("mesh_shape", "layout")


class NamedSetup(NamedTuple):
    """A layout and its name in tables."""

    name: str
    layout: Layout


def parse_setup(text: str) -> NamedSetup:
    """Parses the value of one --setup.

    Raises:
      ConfigError: the text has neither format, or the gin file is not a layout file.
      LayoutError: the mesh or the layout is not valid.

    >>> parse_setup("rows:2 / x:rows")
    NamedSetup(name='rows:2/x:rows', layout=Layout(mesh_shape=(('rows', 2),), rules=(('x', 'rows'),)))
    >>> parse_setup("/").name
    'one processor'
    """
    stripped = text.strip()
    if stripped in ("", "/", "single"):
        return NamedSetup(_ONE_PROCESSOR_NAME, ONE_PROCESSOR)
    if ":" not in stripped or stripped.endswith(".gin"):
        return _read_layout_file(stripped)
    mesh_shape, slash, layout = (part.strip() for part in stripped.partition("/"))
    if not slash or "/" in layout:
        number = stripped.count("/")
        raise ConfigError(
            f"--setup {text}: has {number or 'no'} '/', but needs 1 between the mesh and the layout. Fix: {_FORM}."
        )
    return NamedSetup(f"{mesh_shape}/{layout}", Layout.parse(mesh_shape, layout))


def _read_layout_file(name: str) -> NamedSetup:
    """Reads a layout file without binding it, because gin has only one configuration, which the job uses."""
    path = find_gin_file(name)
    try:
        bound, uses = read_gin_text([path])
    except SyntaxError as error:
        raise ConfigError(f"--setup {name}, gin file {path}: {error}") from error
    others = sorted({*bound, *uses} - {f"setup.{parameter}" for parameter in _BOUND})
    if others or not bound:
        fault = f"has {', '.join(others)}" if others else "binds nothing"
        raise ConfigError(
            f"--setup {name}, gin file {path}: {fault}; a layout file binds only setup.mesh_shape and setup.layout. "
            f"Fix: give it to all setups with --gin_file {name}, and each layout with --setup MESH/LAYOUT."
        )
    mesh_shape, layout = (bound.get(f"setup.{parameter}", "") for parameter in _BOUND)
    if not (isinstance(mesh_shape, str) and isinstance(layout, str)):
        raise ConfigError(
            f"--setup {name}, gin file {path}: setup.mesh_shape is {mesh_shape!r} and setup.layout is {layout!r}; both "
            'must be strings. Fix: for instance setup.layout = "x:rows".'
        )
    return NamedSetup(Path(name).stem, Layout.parse(mesh_shape, layout))
