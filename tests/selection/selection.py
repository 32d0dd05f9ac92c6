"""Selects the tests that run after a change."""

import dataclasses
import json
import zlib
from typing import Self

from tests.selection import changes
from tests.selection.imports import ROOT, module_name, modules

PARTS = 8  # so many commits in a row run every slow test once
STANDALONE = "tests.engine."  # these tests depend on nothing else, as test_imports.py checks
# Parameters of tables that are a setup. The cases of one setup share programs.
SETUP = ("setup", "mesh", "mesh_shape", "layout", "mesh_impl", "impl", "split")


@dataclasses.dataclass(frozen=True)
class Selection:
    """The fast tests, the slow tests that import a changed file, and a part of the other slow tests.

    The part rotates with the commits. After a change of the core, on which most test modules depend, a part of all slow
    tests runs, because all of them take too long for every commit. The tests of the engine, fast and slow, run only if
    they import a changed file.

    Attributes:
      commit: the commit with which the files were compared, or "" if there is none. All modules then count as changed.
      files: the number of files that changed.
      modules: the test modules that the changes can break.
      turn: a number that selects the rotating parts.
      parts: the number of parts into which the slow tests of `modules` are divided; 1 if all of them run.
    """

    commit: str
    files: int
    modules: frozenset[str]
    turn: int
    parts: int

    @classmethod
    def since(cls, revision: str) -> Self:
        """Selects the tests for the changes since a commit; see `changes.base`."""
        tests = {name for name in modules() if name.rpartition(".")[2].startswith("test_")}
        commit = changes.base(revision)
        files = changes.changed_files(commit) if commit else []
        changed = changes.changed_modules(files) if commit else None
        broken = frozenset(test for test in tests if changes.can_break(test, changed))
        parts = PARTS if len(broken) > len(tests) / 2 else 1
        return cls(commit or "", len(files), broken, changes.turn(), parts)

    def to_json(self) -> str:
        return json.dumps({**dataclasses.asdict(self), "modules": sorted(self.modules)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        return cls(**{**values, "modules": frozenset(values["modules"])})

    def runs(self, item) -> bool:
        """Returns whether a test runs, a `pytest.Item`."""
        module = module_name(item.path)
        if module.startswith(STANDALONE) and module not in self.modules:
            return False
        if not item.get_closest_marker("slow"):
            return True
        parts = self.parts if module in self.modules else PARTS
        return _group(item) % parts == self.turn % parts

    def __str__(self) -> str:
        since = f"{self.files} files changed since {self.commit[:10]}" if self.commit else "no earlier commit"
        whole = self.parts == 1
        share = "all slow tests" if whole else f"part {self.turn % self.parts} of {self.parts} of the slow tests"
        others = f"part {self.turn % PARTS} of {PARTS} of the others"
        return f"selection: {since}; {share} of {len(self.modules)} test modules, {others}"


def _group(item) -> int:
    """Returns the number of the group of a test; tests of one file and setup are in one group, and share programs."""
    values = getattr(item, "callspec", None)
    setup = {name: str(values.params[name]) for name in SETUP if name in values.params} if values else {}
    return zlib.crc32(f"{item.path.relative_to(ROOT)} {setup}".encode())
