"""Writes reference pages from the code.

The source of a page contains comments such as `<!-- generated: commands -->`. The build replaces each comment by
Markdown. On GitHub the comment is invisible, so the page also names a command that prints the same text.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from absl import flags
from pygments.lexers import PythonLexer

from mtf_imaging import errors
from mtf_imaging.cli.commands.all_commands import COMMANDS, GROUPS, flags_of, load
from mtf_imaging.cli.config import configurables, gin_internals, resources
from mtf_imaging.cli.config.flags_of_settings import required, shown_default
from mtf_imaging.cli.runtime.usage import needed, usage_line

# purpose -> prefixes of the modules that define its configurables; the first purpose counts
CONFIGURABLE_GROUPS = {
    "Runs": ("mtf_imaging.cli.",),
    "Networks and tasks": ("mtf_imaging.models.",),
    "Learning-rate schedules": ("mtf_imaging.training.optimizers.schedules",),
    "Optimizers": ("mtf_imaging.training.optimizers.",),
    "Data": ("mtf_imaging.data.", "mtf_imaging.kinds."),
    "Hardware": ("mtf_imaging.planner.",),
}
_CODE = re.compile(r"(`[^`]*`)")
_FLAG = re.compile(r"(?<![\w`-])--[a-z]\w*")


class GinLexer(PythonLexer):
    """A lexer for gin files. Their syntax is close enough to Python's."""

    name = "gin"
    aliases = ("gin",)


def commands() -> str:
    """Returns a section for each command, grouped by purpose."""
    index = [(f"[`{name}`](#{name})", _escaped(load(name).SUMMARY)) for name in COMMANDS]
    parts = [_table(("command", "purpose"), index)]
    for purpose, names in GROUPS.items():
        parts += [f"## {purpose}", *map(command, names)]
    return "\n\n".join(parts)


def command(name: str) -> str:
    """Returns the section of a command: its purpose, an example and its flags."""
    module = load(name)
    values = flags_of(module)
    idle = getattr(module, "IDLE", {})
    rows = []
    for flag in (values[key] for key in values):
        if flag.name in idle:
            continue
        default = needed(module, flag.name) if flag.name in required(*module.SETTINGS) else _default(flag)
        rows.append((f"`--{flag.name}`", default, _meaning(flag)))
    parts = [
        f"### {name}",
        f"{_sentence(module.SUMMARY)}",
        f"```bash\n{module.EXAMPLE}\n```",
        f"Usage: `{usage_line(name, module)}`",
        _table(("flag", "default", "meaning"), rows),
        *(_escaped(note) for note in getattr(module, "NOTES", ())),
    ]
    return "\n\n".join(parts)


def parameters() -> str:
    """Returns a section for each gin configurable, grouped by purpose."""
    sections: dict[str, list[str]] = {purpose: [] for purpose in CONFIGURABLE_GROUPS}
    for name, (thing, rows) in shipped_configurables().items():
        purposes = [key for key, modules in CONFIGURABLE_GROUPS.items() if thing.__module__.startswith(modules)]
        if not purposes:
            raise ValueError(f"{name} of {thing.__module__} is in no group of CONFIGURABLE_GROUPS")
        sections[purposes[0]].append(_configurable(name, thing, rows))
    return "\n\n".join(part for purpose, texts in sections.items() for part in (f"### {purpose}", *texts))


def shipped_configurables() -> dict[str, tuple[Callable, list[configurables.Parameter]]]:
    """Returns the configurables of this package with their parameters, by name; users may have registered others."""
    configurables.import_all()
    wrapped = {selector: entry.wrapped for selector, entry in gin_internals.configurables()}
    grouped = groupby(configurables.parameters(), lambda one: one.name.rpartition(".")[0])
    all_things = {name: (wrapped.get(f"mtf_imaging.{name}") or wrapped[name], list(rows)) for name, rows in grouped}
    return {name: thing for name, thing in all_things.items() if thing[0].__module__.startswith("mtf_imaging.")}


def _configurable(name: str, thing: Callable, rows: Iterable[configurables.Parameter]) -> str:
    table = []
    for row in rows:
        default = "required" if row.default is None else _escaped(f"`{row.default}`")
        table.append((f"`{row.name}`", _escaped(f"`{row.type}`"), default, _escaped(row.meaning)))
    first = inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return "\n\n".join([f"#### {name}", _escaped(first), _table(("parameter", "type", "default", "meaning"), table)])


def gin_files() -> str:
    """Returns the shipped job files, each with its contents."""
    return _files("gin")


def layout_files() -> str:
    """Returns the shipped layout files, each with its contents."""
    return _files("layouts")


def _files(folder: str) -> str:
    shipped = {Path(name).stem: path for name, path in resources.shipped_files().items() if name.startswith(folder)}
    return "\n\n".join(f"### {name}\n\n```gin\n{path.read_text().strip()}\n```" for name, path in shipped.items())


def error_classes() -> str:
    """Returns a table of the error classes."""
    classes = [
        thing for thing in vars(errors).values() if inspect.isclass(thing) and thing.__module__ == errors.__name__
    ]
    rows = [
        (f"`mi.{thing.__name__}`", _escaped(inspect.cleandoc(thing.__doc__).partition("\n\n")[0].replace("\n", " ")))
        for thing in classes
    ]
    return _table(("class", "meaning"), rows)


def api(module_name: str, names: str) -> str:
    """Returns directives that show docstrings, below a table of the names if there are several.

    Args:
      module_name: the public module.
      names: the names in it, separated by spaces.
    """
    module, lines = importlib.import_module(module_name), []
    if " " in names:
        lines = [
            ".. autosummary::",
            "   :nosignatures:",
            "",
            *(f"   ~{module_name}.{name}" for name in names.split()),
            "",
        ]
    for name in names.split():
        thing = getattr(module, name)
        if inspect.isclass(thing):
            lines += [
                f".. autoclass:: {module_name}.{name}",
                *([] if issubclass(thing, Exception) else ["   :members:"]),
            ]
        else:
            lines += [f".. {'autofunction' if callable(thing) else 'autodata'}:: {module_name}.{name}"]
        lines.append("")
    return "\n".join(["```{eval-rst}", *lines, "```"])


PARTS = {
    "commands": commands,
    "error classes": error_classes,
    "gin files": gin_files,
    "layout files": layout_files,
    "parameters": parameters,
}


def expand(text: str) -> str:
    """Replaces the comments of a page by the parts that they name.

    Raises:
      ValueError: a comment names an unknown part.
    """

    def part(match: re.Match) -> str:
        if match[1].startswith("api "):
            return api(*match[1].removeprefix("api ").split(": "))
        if match[1] not in PARTS:
            raise ValueError(f"'{match[0]}' is not a generated part. Known: {', '.join(PARTS)}.")
        return PARTS[match[1]]()

    return re.sub(r"^<!-- generated: (.*?) -->$", part, text, flags=re.MULTILINE)


def _default(flag: flags.Flag) -> str:
    return _escaped(f"`{shown}`") if (shown := shown_default(flag)) else ""


def _meaning(flag: flags.Flag) -> str:
    """Returns the help of a flag as the text of a table cell."""
    text = flag.help.split(";\n")[0]  # absl appends a note to the help of flags that may be repeated
    match = re.match(r"<(?P<choices>[^<>]*)>: (?P<meaning>.*)", text)
    if match is None:
        return _escaped(text)
    choices = ", ".join(f"`{choice}`" for choice in match["choices"].split("|"))
    return f"{choices}. {_escaped(match['meaning'])}"


def _sentence(text: str) -> str:
    text = _escaped(text)
    return text[0].upper() + text[1:].rstrip(".") + "."


def _escaped(text: str) -> str:
    """Escapes plain text for a Markdown table. Flags become code."""
    pieces = _CODE.split(text)
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            pieces[place] = re.sub(r"([*\[\]<>])", r"\\\1", _FLAG.sub(r"`\g<0>`", piece))
    return "".join(pieces).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]
    return "\n".join(["```{table}", ":class: meanings", "", *lines, "```"])


def setup(app) -> dict:
    def read(app, name, source):
        source[0] = expand(source[0])

    app.connect("source-read", read)
    app.add_lexer("gin", GinLexer)
    return {"parallel_read_safe": True}
