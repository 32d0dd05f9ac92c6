"""Selects the tests that run after a change."""

import collections
import dataclasses
import json
import math
from typing import Self

from tests.selection import changes
from tests.selection.durations import recorded
from tests.selection.imports import module_name, modules

SECONDS = 960  # processor seconds of slow tests in one run: 8 minutes on 2 cores
LEAST = 160  # of which at least so many are for tests that do not import a changed file
STANDALONE = "tests.engine."  # these tests depend on nothing else, as test_imports.py checks
# Parameters of tables that are a setup. The cases of one setup share programs.
SETUP = ("setup", "mesh", "mesh_shape", "layout", "mesh_impl", "impl", "split")


@dataclasses.dataclass(frozen=True)
class Selection:
    """The fast tests, and a part of the slow tests that takes `SECONDS`.

    The slow tests that import a changed file run, or one of the fewest parts of them that take `SECONDS` each. In the
    time that is left, a part of the other slow tests runs. Parts have about the same duration and rotate with the
    changes of code. The tests of the engine, fast and slow, run only if they import a changed file.

    Attributes:
      commit: the commit with which the files were compared, or "" if there is none. All modules then count as changed.
      files: the number of files that changed.
      modules: the test modules that the changes can break.
      turn: a number that selects the rotating parts.
    """

    commit: str
    files: int
    modules: frozenset[str]
    turn: int

    @classmethod
    def since(cls, revision: str) -> Self:
        """Selects the tests for the changes since a commit; see `changes.base`."""
        commit = changes.base(revision)
        files = changes.changed_files(commit) if commit else []
        changed = changes.changed_modules(files) if commit else None
        tests = (name for name in modules() if name.rpartition(".")[2].startswith("test_"))
        broken = frozenset(test for test in tests if changes.can_break(test, changed))
        return cls(commit or "", len(files), broken, changes.turn())

    def to_json(self) -> str:
        return json.dumps({**dataclasses.asdict(self), "modules": sorted(self.modules)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        return cls(**{**values, "modules": frozenset(values["modules"])})

    def parts(self) -> tuple[int, int]:
        """Returns the numbers of parts of the slow tests that import a changed file, and of the others."""
        seconds = recorded()
        broken = sum(seconds.get(module, 0) for module in self.modules)
        others = sum(own for module, own in seconds.items() if self._is_other(module))
        parts = max(1, math.ceil(broken / SECONDS))
        return parts, max(1, math.ceil(others / max(LEAST, SECONDS - broken / parts)))

    def choose(self, items: list) -> list:
        """Returns the tests that run, of all `pytest.Item` that were collected, in their order."""
        chosen, slow = [], {True: [], False: []}
        for item in items:
            module = module_name(item.path)
            if module in self.modules or self._is_other(module):
                own = slow[module in self.modules] if item.get_closest_marker("slow") else chosen
                own.append(item)
        for number, tests in zip(self.parts(), slow.values(), strict=True):
            chosen += _part(tests, number, self.turn % number)
        order = {id(item): number for number, item in enumerate(items)}
        return sorted(chosen, key=lambda item: order[id(item)])

    def _is_other(self, module: str) -> bool:
        return module not in self.modules and not module.startswith(STANDALONE)

    def __str__(self) -> str:
        since = f"{self.files} files changed since {self.commit[:10]}" if self.commit else "no earlier commit"
        broken, others = (f"part {self.turn % number + 1} of {number}" for number in self.parts())
        count = len(self.modules)
        return f"selection: {since}; {broken} of the slow tests of {count} test modules, {others} of the others"


def _part(tests: list, number: int, at: int) -> list:
    """Returns one of several parts of some tests with about the same duration, a longest group first.

    Tests of one file and setup are in one group, and share programs.
    """
    modules_of = [module_name(test.path) for test in tests]
    counts, seconds = collections.Counter(modules_of), collections.Counter()
    groups = collections.defaultdict(list)
    for module, test in zip(modules_of, tests, strict=True):
        values = getattr(test, "callspec", None)
        setup = {name: str(values.params[name]) for name in SETUP if name in values.params} if values else {}
        groups[f"{module} {setup}"].append(test)
        seconds[f"{module} {setup}"] += recorded().get(module, counts[module]) / counts[module]
    totals, part = [0.0] * number, []
    for group in sorted(groups, key=lambda group: (-seconds[group], group)):
        shortest = totals.index(min(totals))
        totals[shortest] += seconds[group]
        part += groups[group] if shortest == at else []
    return part
