"""A bad input: its creation, the command that reads it, and the command's expected behavior."""

import dataclasses
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.reliability.commands import Result

LIMIT_S = 60.0
PEAK_MIB = 3000  # MiB of a process that has imported TensorFlow, which alone needs 500
# Messages about the command line or configuration, which end with exit code 2, may also contain this advice.
_ADVICE = re.compile("Fix:|See:|Example:|Choices:|Did you mean|Known|must be|each item is|In gin,|cannot be imported")
PAYLOAD = "payload-ran"  # the file that code in an input writes if it runs


@dataclasses.dataclass(frozen=True)
class Refused:
    """The command fails, and its message names the file or the setting and a fix.

    Attributes:
      names: a part of the path, or the setting, that the message must contain; "" for the damaged file.
      because: a regular expression that the message must contain.
    """

    names: str = ""
    because: str = ""


@dataclasses.dataclass(frozen=True)
class Warned:
    """The command succeeds, and a warning matches a regular expression."""

    phrase: str


@dataclasses.dataclass(frozen=True)
class Right:
    """The command succeeds and its result is correct.

    Attributes:
      check: a function of the input's folder and the printed text that returns the fault, or "".
    """

    check: Callable[[Path, str], str] = lambda here, text: ""


Outcome = Refused | Warned | Right
REFUSED = Refused()


@dataclasses.dataclass(frozen=True)
class BadInput:
    """One bad input.

    Attributes:
      kind: the row of the page.
      name: the fault of the input, unique together with the command.
      line: the command line. In every word, {good} is the folder with the good data and {here} the input folder.
      make: a function that writes the input to a folder, from the folder with the good data.
      outcomes: the acceptable outcomes.
      file: the damaged file, relative to the input folder; a refusal names this file unless `names` states
        otherwise.
      environment: environment variables of the command.
      writes: the folder that the command may change, relative to the input folder.
      values: additional placeholders in the line, such as {name}, with their values.
    """

    kind: str
    name: str
    line: str
    make: Callable[[Path, Path], object]
    outcomes: tuple[Outcome, ...] = (REFUSED,)
    file: str = ""
    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    writes: str = ""
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def command(self) -> str:
        return self.line.split()[0]

    @property
    def key(self) -> str:
        return f"{self.kind}: {self.name}: {self.command}"

    def words(self, good: Path, here: Path) -> list[str]:
        """Returns the words of the command line."""
        words = self.line.split()
        for name, value in {"good": str(good), "here": str(here), **self.values}.items():
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return words


def fault(result: Result, outcome: Outcome, file: str, here: Path) -> str:
    """Returns the difference between a result and an outcome, or "" if they agree."""
    if result.peak_mib > PEAK_MIB:
        return f"needed more than {PEAK_MIB} MiB of memory"
    if result.code is None:
        return f"ran for more than {LIMIT_S:.0f} s"
    if "Traceback" in result.text:
        return "ended in a traceback"
    if not isinstance(outcome, Refused):
        if result.code:
            return f"exit code {result.code}"
        if isinstance(outcome, Right):
            return outcome.check(here, result.text)
        return "" if re.search(outcome.phrase, result.text) else f"no warning with {outcome.phrase!r}"
    if result.code not in (1, 2):
        return f"exit code {result.code} instead of 1 or 2"
    if "Fix:" not in result.text and (result.code == 1 or not _ADVICE.search(result.text)):
        return "the message has no fix"
    name = outcome.names or Path(file).name
    # Long messages are not wrapped, but names that are not UTF-8 are escaped.
    if name not in result.text and ascii(name)[1:-1] not in result.text:
        return f"the message does not name {name}"
    return "" if re.search(outcome.because, result.text) else f"the message does not say {outcome.because!r}"


def snapshot(here: Path) -> dict[Path, tuple[int, int]]:
    """Returns the size and modification time of every file in a folder."""
    paths = [path for path in here.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}


def judge(result: Result, given: BadInput, here: Path, before: dict[Path, tuple[int, int]]) -> tuple[str, str]:
    """Compares a result with the outcomes of an input.

    Args:
      result: the result of the command.
      given: the input.
      here: its folder.
      before: the snapshot of the folder before the command.

    Returns:
      The name of the matching outcome, or "failed"; and the reason that no outcome matches.
    """
    after = snapshot(here)
    own = here / given.writes if given.writes else None
    changed = [
        str(path.relative_to(here))
        for path in before
        if after.get(path) != before[path] and (own is None or own not in path.parents)
    ]
    if changed:
        return "failed", f"changed {', '.join(changed)}"
    if (here / PAYLOAD).exists():
        return "failed", "ran code of the input"
    left = [path.name for path in after if ".partial-" in str(path) and path not in before]
    if left and result.code is not None:
        return "failed", f"left {left[0]}"
    why = []
    for outcome in given.outcomes:
        reason = fault(result, outcome, given.file, here)
        if not reason:
            return type(outcome).__name__.lower(), ""
        why.append(reason)
    return "failed", "; ".join(dict.fromkeys(why))


def damaged(folder: str, file: str, *edits: Callable[[Path], object]) -> Callable[[Path, Path], None]:
    """Returns a function that copies a good data folder and changes one of its files or folders."""

    def make(good: Path, here: Path) -> None:
        shutil.copytree(good / folder, here / folder, symlinks=True)
        for edit in edits:
            edit(here / folder / file)

    return make
