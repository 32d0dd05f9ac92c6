"""Mutants: small faults of the code that the fast tests must detect."""

import ast
import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import sys

from tests.selection.imports import ROOT, module_name


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A fault: one fragment of a source is replaced.

    Attributes:
      file: the file, relative to the repository.
      old: a fragment that occurs once in the file.
      new: its replacement.
      tests: the test files that should fail, with the words of `-k` after a space: "tests/cli/test_plan.py a or b".
      reason: why no test can fail, if the program does the same; else "".
    """

    file: str
    old: str
    new: str
    tests: str
    reason: str = ""

    @property
    def package(self) -> str:
        """The package of the file, such as "ops", "data" or "models"."""
        first, second, third, *_ = [*self.file.split("/"), ""]
        return first if first == "models" else third if second == "engine" else second

    @property
    def source(self) -> str:
        """The source with the fault.

        Raises:
          ValueError: the fragment does not occur exactly once.
        """
        text = (ROOT / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)

    def __str__(self) -> str:
        return f"{self.file}: {_short(self.old)} -> {_short(self.new)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def mutants(file: str, tests: str, *changes: tuple) -> list[Mutant]:
    """Returns the mutants of a file; each change is (old, new), (old, new, reason) or (old, new, "", other tests)."""
    found = []
    for old, new, *rest in changes:
        reason, own = [*rest, "", ""][0], [*rest, "", ""][1] if len(rest) > 1 else ""
        found.append(Mutant(file, old, new, own or tests, reason))
    return found


class FaultyLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from source code with a fault, and leaves its file unchanged.

    AutoGraph and `inspect` read the source of a function again from the file that its code names. The name given here
    is that of no file, so they call `get_source` instead.
    """

    source = ""

    def get_code(self, fullname):
        return compile(self.source, f"{self.path}.mutant", "exec", dont_inherit=True)

    def get_source(self, fullname):
        return self.source


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant, self._name = mutant, module_name(ROOT / mutant.file)

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._name:
            return None
        loader = FaultyLoader(fullname, str(ROOT / self._mutant.file))
        loader.source = self._mutant.source
        return importlib.util.spec_from_file_location(fullname, loader.path, loader=loader)


def install(mutant: Mutant) -> None:
    """Makes the next import of a module read the source with the fault. The file does not change.

    Raises:
      RuntimeError: the module has been imported.
    """
    name = module_name(ROOT / mutant.file)
    if name in sys.modules:
        raise RuntimeError(f"{name} is imported, so it cannot be changed")
    ast.parse(mutant.source)
    # The hooks of the tests come first, because they find the module through the next finders.
    place = next(i for i, finder in enumerate(sys.meta_path) if type(finder).__module__ != "tests.importing")
    sys.meta_path.insert(place, _Finder(mutant))
