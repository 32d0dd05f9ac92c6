"""The selection of slow tests: the imports of test modules, and the files that are not modules."""

import ast
import contextlib
import fnmatch
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.selection import changes, selection
from tests.selection.durations import processor_seconds, recorded
from tests.selection.imports import CONDITIONAL, DYNAMIC, ROOT, closure, modules
from tests.selection.selection import SECONDS, STANDALONE, Selection

# Files that import what their users name, or that pass an import on.
NAMED_BY_OTHERS = {
    *("mtf_imaging", "mtf_imaging.data", "mtf_imaging.jobs", "mtf_imaging.training"),  # lazy names, which are read
    *("mtf_imaging.cli.config.gin_internals", "mtf_imaging.cli.config.own_modules"),  # modules of users
    *("mtf_imaging.files.user_modules", "tests.cli.test_own_modules"),
    "mtf_imaging.evaluation.export.formats",  # optional packages
    "mtf_imaging.evaluation.export.program",  # the modules that segment.py imports
    "mtf_imaging.files.log_lines",  # the lazy names of the packages above
    "mtf_imaging.training.observers.tracking.services",
    *(
        "tests.importing",
        "benchmarks.reliability.forked",
        "benchmarks.reliability.several.sleepless",
        "benchmarks.reliability.several.struck",
        "tests.benchmarks.test_reliability_processes",
        "tests.references.conftest",
        "tests.test_selection",
        "tests.training.test_video_motion",
    ),
}


@pytest.mark.parametrize(
    ("test", "needed"),
    [
        ("tests.engine.layout.test_layout", "mtf_imaging.engine.layout.grammar"),
        ("tests.engine.program.test_program", "mtf_imaging.engine.upstream.slicewise"),  # mi.Program is imported lazily
        ("tests.jobs.test_photos", "mtf_imaging.jobs.training"),  # so is mi.jobs.train
        ("tests.engine.ops.test_ops_equal_whole", "tests.poison"),  # installed by an import hook
        ("tests.engine.ops.test_ops_equal_whole", "tests.engine.harness"),
        ("tests.between.test_operations", "mtf_imaging.engine.meshes.transport.between_processes"),
        ("tests.between.test_operations", "tests.between.worker"),  # started as a program
        ("tests.cli.test_main", "mtf_imaging.cli.commands.train"),  # imported by its name
        ("tests.cli.test_explain", "mtf_imaging.models.unet3d.segmentation"),  # imported by a gin file
        ("tests.data.test_nifti", "tests.data.conftest"),
        ("tests.models.test_retinanet", "mtf_imaging.models.detection.anchors"),
    ],
)
def test_a_test_depends_on_what_it_runs(test, needed):
    assert needed in closure(test)


def test_tests_of_pure_python_do_not_depend_on_programs():
    assert not any(name.startswith("mtf_imaging.engine.program") for name in closure("tests.engine.layout.test_layout"))
    assert not any(name.startswith("mtf_imaging.models") for name in closure("tests.engine.ops.test_ops_equal_whole"))


LISTING, IMPORTING = ("iter_modules", "walk_packages"), ("import_module", "__import__", "run_module", "find_spec")
BY_NAME = (*LISTING, *IMPORTING)


def _imports_by_name(tree):
    """Returns whether a source imports modules whose names are not in the source."""
    for node in ast.walk(tree):
        name = getattr(node, "attr", getattr(node, "id", None))
        if name in LISTING:
            return True
        if isinstance(node, ast.Call):
            function = getattr(node.func, "attr", getattr(node.func, "id", None))
            named = node.args and isinstance(node.args[0], ast.Constant)
            if function in IMPORTING and not named:
                return True
    return False


def test_every_file_that_imports_by_name_is_listed():
    sources = {name: path.read_text() for name, path in modules().items()}
    sources = {name: source for name, source in sources.items() if any(word in source for word in BY_NAME)}
    found = {name for name, source in sources.items() if _imports_by_name(ast.parse(source))}
    assert len(found) > 10
    assert sorted(found - DYNAMIC.keys() - NAMED_BY_OTHERS) == []
    assert sorted((DYNAMIC.keys() | NAMED_BY_OTHERS | {*CONDITIONAL}) - modules().keys()) == []


def test_the_lists_name_modules_that_exist():
    named = [name.removesuffix(".*") for names in DYNAMIC.values() for name in names]
    named += [name for names in changes.READERS.values() for name in names or []]
    assert sorted({*named} - modules().keys()) == []


def test_every_file_is_a_module_or_has_readers():
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("the sources are not in a repository")
    others = [file for file in done.stdout.split() if not file.endswith(".py") or file == "setup.py"]
    others = [file for file in others if (ROOT / file).exists()]
    unknown = [file for file in others if not any(fnmatch.fnmatch(file, pattern) for pattern in changes.READERS)]
    assert unknown == []
    unused = [pattern for pattern in changes.READERS if not fnmatch.filter(others, pattern)]
    assert unused == []


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        (["mtf_imaging/engine/layout/grammar.py"], {"mtf_imaging.engine.layout.grammar"}),
        (["models/unet3d/segmentation.py"], {"mtf_imaging.models.unet3d.segmentation"}),
        (["gin/unet3d_lits.gin", "mtf_imaging/deleted.py"], {"mtf_imaging.cli.config.gin_config"}),
        (["layouts/2x2.gin", "setup.py"], None),
        (["new/folder/file.txt"], None),
    ],
)
def test_changed_files_are_changed_modules(files, changed):
    assert changes.changed_modules(files) == changed


def test_without_a_known_change_every_test_runs():
    assert changes.can_break("tests.engine.layout.test_layout", None)
    assert not changes.can_break("tests.engine.layout.test_layout", frozenset({"mtf_imaging.engine.program.program"}))
    assert changes.can_break("tests.engine.layout.test_layout", frozenset({"mtf_imaging.engine.layout.grammar"}))


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Returns a function that commits in a new repository, a number of hours after the first commit."""
    monkeypatch.setattr(changes, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)

    def commit(hours):
        stamp = f"{1_700_000_000 + hours * 3600} +0000"
        dates = {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}
        (tmp_path / f"file_{hours}.py").touch()
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a commit"]):
            who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
            subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, env={**os.environ, **dates})
        return changes._git("rev-parse", "HEAD")

    return commit


def test_the_base_is_a_day_older_than_the_last_commit(repository):
    assert changes.base("") is None  # without a repository
    assert changes.turn() == 0
    first = repository(0)
    assert changes.base("") is None
    second = repository(10)
    assert changes.base("") is None
    repository(30)
    assert changes.base("") == first
    assert changes.base(second) == second
    assert changes.changed_files(second) == ["file_30.py"]
    (changes.ROOT / "new file").touch()
    assert changes.changed_files(second) == ["file_30.py", "new file"]
    assert changes.turn() == 3
    with pytest.raises(subprocess.CalledProcessError):
        changes.base("missing")


def test_a_branch_is_compared_with_the_commit_at_which_it_left_main(repository):
    repository(0)
    changes._git("branch", "-m", "main")
    point = repository(1)
    changes._git("checkout", "--quiet", "-b", "branch")
    for hours in (2, 90):
        repository(hours)
    assert changes.base("") == point
    assert changes.changed_files(point) == ["file_2.py", "file_90.py"]
    changes._git("checkout", "--quiet", "main")
    landed = repository(80)
    changes._git("checkout", "--quiet", "branch")
    assert changes.base("") == point
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    changes._git("checkout", "--quiet", "main")
    changes._git(*who, "merge", "--quiet", "--no-ff", "-m", "a merge", "branch")
    assert changes.base("") == landed  # not file_90, which main did not contain a day ago


@pytest.mark.parametrize(("pattern", "outcome"), [("no browser|no Slurm", "failed"), ("no Slurm", "skipped")])
def test_a_skip_fails_where_the_environment_says_so(pattern, outcome, monkeypatch):
    monkeypatch.setenv("FAIL_ON_SKIP", pattern)
    report = SimpleNamespace(skipped=True, outcome="skipped", longrepr=("file.py", 3, "Skipped: there is no browser"))
    hook = conftest.pytest_runtest_makereport(None, None)
    next(hook)
    with pytest.raises(StopIteration) as stop:
        hook.send(report)
    assert stop.value.value.outcome == outcome


@pytest.mark.parametrize(("slow", "minutes", "skipped"), [(True, 9, True), (True, 11, False), (False, 9, False)])
def test_slow_tests_do_not_begin_after_their_time(slow, minutes, skipped, monkeypatch):
    monkeypatch.setattr(conftest, "_BEGAN", time.monotonic() - 600)
    config = SimpleNamespace(getoption={"slow_minutes": minutes}.get)
    item = SimpleNamespace(config=config, get_closest_marker={"slow": slow}.get)
    with pytest.raises(pytest.skip.Exception) if skipped else contextlib.nullcontext():
        conftest.pytest_runtest_setup(item)


def _item(file, slow=True, **values):
    callspec = SimpleNamespace(params=values)
    return SimpleNamespace(path=ROOT / "tests" / file, callspec=callspec, get_closest_marker=lambda name: slow)


def _selection(*modules, turn=0):
    return Selection("abc", 1, frozenset(modules), turn)


@pytest.fixture
def durations(monkeypatch):
    """The recorded durations, which a test changes."""
    seconds = {"tests.models.test_unet3d": 5 * SECONDS / 2, "tests.test_layout": SECONDS}
    monkeypatch.setattr(selection, "recorded", lambda: seconds)
    return seconds


@pytest.mark.parametrize(
    ("modules", "parts"),
    [
        (["models.test_unet3d", "test_layout"], (4, 1)),
        (["models.test_unet3d"], (3, 6)),  # a sixth of the time is left
        (["test_layout"], (1, 15)),
        ([], (1, 4)),
    ],
)
def test_there_are_as_few_parts_as_the_time_allows(durations, modules, parts):
    assert _selection(*(f"tests.{module}" for module in modules)).parts() == parts


@pytest.mark.parametrize("module", ["tests.models.test_unet3d", "tests.test_layout"])
def test_the_parts_of_the_tests_rotate_by_setup_and_take_the_same_time(durations, module):
    cases = [_item("models/test_unet3d.py", layout=f"x:{n}", case=case) for n in range(45) for case in range(n % 3 + 1)]
    fast = [_item("test_layout.py", slow=False), _item("models/test_unet3d.py", slow=False)]
    parts, ran = _selection(module).parts()[module == "tests.test_layout"], []
    for turn in range(parts):
        own = _selection(module, turn=turn + 5 * parts)
        assert own == Selection.from_json(own.to_json())
        chosen = own.choose([fast[0], *cases, fast[1]])
        assert chosen[0] is fast[0]
        assert chosen[-1] is fast[1]
        assert chosen[1:-1] == [case for case in cases if case in chosen]
        layouts = {case.callspec.params["layout"] for case in chosen[1:-1]}
        assert len(chosen) - 2 == sum(case.callspec.params["layout"] in layouts for case in cases)
        ran.append(len(chosen) - 2)
    assert sum(ran) == len(cases)
    assert max(ran) - min(ran) <= 3  # all cases of a setup run together


def test_tests_of_the_engine_run_only_if_they_import_a_changed_file():
    halo = [_item("engine/meshes/test_halo.py", slow) for slow in (True, False)]
    assert not any(_selection("tests.test_compat", turn=turn).choose(halo) for turn in range(20))
    assert _selection("tests.engine.meshes.test_halo").choose(halo) == halo


@pytest.mark.parametrize("file", ["mtf_imaging/planner/cost/plan.py", "models/unet3d/network.py", "docs/index.md"])
def test_changes_outside_of_the_engine_run_none_of_its_tests(file):
    changed = changes.changed_modules([file])
    assert not [name for name in modules() if name.startswith(STANDALONE) and changes.can_break(name, changed)]


def test_the_selection_is_reported(durations):
    assert Selection.since("HEAD").turn == changes.turn()
    text = "selection: no earlier commit; part 3 of 3 of the slow tests of 1 test modules, part 6 of 6 of the others"
    assert str(Selection("", 0, frozenset({"tests.models.test_unet3d"}), 5)) == text


def test_the_recorded_durations_are_those_of_slow_tests():
    assert recorded().keys() <= modules().keys()
    assert min(recorded().values()) >= 0
    assert Selection("", 0, frozenset(recorded()), 0).parts()[0] > 1


def test_the_processor_time_of_a_test_includes_its_processes():
    before = processor_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "for _ in range(10**7): pass"], check=True)
    assert processor_seconds(os.getpid()) > before + 0.1
