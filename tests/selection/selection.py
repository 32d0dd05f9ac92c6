"""Selects the slow tests that run: those that import a changed file, and a rotating part of the others."""

import dataclasses
import json
import zlib
from typing import Self

from tests.selection import changes
from tests.selection.imports import ROOT, module_name, modules

PARTS = 8  # so many commits in a row run every slow test once
# Parameters of tables that are a setup. The cases of one setup share programs.
SETUP = ("setup", "mesh", "mesh_shape", "layout", "mesh_impl", "impl", "split")


@dataclasses.dataclass(frozen=True)
class Selection:
    """The slow tests that run.

    Attributes:
      commit: the commit with which the files were compared, or "" if there is none.
      files: the number of files that changed.
      modules: the test modules that the changes can break.
      part: the rotating part of the other slow tests, from 0 to `PARTS` - 1.
    """

    commit: str
    files: int
    modules: frozenset[str]
    part: int

    @classmethod
    def since(cls, revision: str) -> Self:
        """Selects the tests for the changes since a commit; see `changes.base`."""
        tests = {name for name in modules() if name.rpartition(".")[2].startswith("test_")}
        commit = changes.base(revision)
        if commit is None:
            return cls("", 0, frozenset(tests), 0)
        files = changes.changed_files(commit)
        changed = changes.changed_modules(files)
        broken = frozenset(test for test in tests if changes.can_break(test, changed))
        return cls(commit, len(files), broken, changes.number_of_commits() % PARTS)

    def to_json(self) -> str:
        return json.dumps({**dataclasses.asdict(self), "modules": sorted(self.modules)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        return cls(**{**values, "modules": frozenset(values["modules"])})

    def runs(self, item) -> bool:
        """Returns whether a slow test runs, a `pytest.Item`."""
        return module_name(item.path) in self.modules or _group(item) % PARTS == self.part

    def __str__(self) -> str:
        if not self.commit:
            return "selection: all tests, because the history has no earlier commit to compare with"
        return (
            f"selection: {self.files} files changed since {self.commit[:10]}; all slow tests of {len(self.modules)} "
            f"test modules, and part {self.part} of {PARTS} of the others"
        )


def _group(item) -> int:
    """Returns the number of the group of a test; tests of one file and setup are in one group, and share programs."""
    values = getattr(item, "callspec", None)
    setup = {name: str(values.params[name]) for name in SETUP if name in values.params} if values else {}
    return zlib.crc32(f"{item.path.relative_to(ROOT)} {setup}".encode())
