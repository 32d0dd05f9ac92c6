"""Faults of several processes, as the benchmark of reliability draws, makes and judges them."""

import importlib
import os
import signal
import sys
import time

import pytest

from benchmarks.reliability import page
from benchmarks.reliability.several import clock, struck, trials
from benchmarks.reliability.several.group import Change, End, Group, environments
from benchmarks.reliability.several.judgment import judge
from benchmarks.reliability.several.moments import BY_NAME, MOMENTS
from benchmarks.reliability.several.run import MOST, find_half_written
from benchmarks.reliability.several.struck import Finder, Strike
from benchmarks.reliability.several.trials import SIGNALS, Trial, draw
from tests import waiting


def test_trials_are_repeatable_and_cover_all_signals_and_moments():
    drawn = draw(1, 40)
    assert drawn == draw(1, 40) != draw(2, 40)
    for trial in drawn:
        assert set(trial.struck) <= set(range(trial.num))
        assert 1 <= trial.resumed <= MOST
        assert 1 <= trial.call <= trial.when.most_calls
        assert 0 <= trial.delay_s <= trial.when.longest_s
        assert trial.point in trial.when.points
        stops_for_good = trial.signal == "SIGSTOP" and trial.pause is None
        assert not stops_for_good or len(trial.struck) < trial.num  # somebody must notice
    kinds = [(trial.signal, trial.pause) for trial in drawn]
    assert {kinds.count(kind) for kind in SIGNALS} == {4}
    assert {[trial.moment for trial in drawn].count(moment.name) for moment in MOMENTS} == {5, 6}
    assert {trial.num for trial in drawn} == {2, 3, 4}
    assert sum(trial.num > 2 for trial in drawn) > 20


@pytest.mark.parametrize("point", [point for moment in MOMENTS for point in moment.points])
def test_the_moments_are_in_the_code(point):
    module, _, function = point.partition(":")
    value = importlib.import_module(module)
    for name in function.split(".") if function else []:
        value = getattr(value, name)
    assert callable(value) or not function


def strike(tmp_path, point, call=1, delay_s=0.0):
    """Returns a strike whose signal, 0, does nothing."""
    return Strike(point, call, delay_s, 0, str(tmp_path / "mark"))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that can be imported once."""
    name = f"struck_{os.getpid()}_{time.monotonic_ns()}"
    (tmp_path / f"{name}.py").write_text("class A:\n    def f(self, x):\n        return x + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield name
    sys.modules.pop(name, None)


def test_a_strike_follows_the_import_of_a_module(tmp_path, module):
    sys.meta_path.insert(0, Finder(strike(tmp_path, module)))
    importlib.import_module("json")
    assert not (tmp_path / "mark").exists()
    assert importlib.import_module(module).A().f(1) == 2
    assert (tmp_path / "mark").exists()


def test_a_strike_follows_a_call_even_if_the_module_was_looked_up_before(tmp_path, module):
    sys.meta_path.insert(0, Finder(strike(tmp_path, f"{module}:A.f", call=2)))
    assert importlib.util.find_spec(module) is not None
    value = importlib.import_module(module).A()
    assert value.f(1) == 2
    assert not (tmp_path / "mark").exists()
    assert value.f(2) == 3
    assert (tmp_path / "mark").exists()


def test_a_strike_can_be_delayed_and_passed_to_a_process(tmp_path):
    late = strike(tmp_path, "a:b", delay_s=0.001)
    late.begin()
    waiting.wait_until((tmp_path / "mark").exists, "the mark")
    name, text = late.words()
    assert importlib.import_module(name) is struck
    assert Strike(**importlib.import_module("json").loads(text)) == late


def test_a_group_starts_processes_with_their_addresses_and_changes(tmp_path):
    variables = environments(3, 5.0)
    assert len({each["TF_CONFIG"] for each in variables}) == 3
    assert {each["MTF_IMAGING_TIMEOUT"] for each in variables} == {"5"}
    changes = {0: Change(("this",)), 1: None, 2: Change(("json.tool",), more=("missing.json",))}
    with Group([], variables, tmp_path, changes) as group:
        waiting.wait_until(lambda: not group.running(), "the end of the group", may_end=True)
        assert group.wait(0.0)
        first, second = group.ends()
    assert (first.index, first.code, second.index, second.code != 0) == (0, 0, 2, True)
    assert "The Zen of Python" in first.text
    assert "missing.json" in second.text


def test_a_group_reacts_to_signals_that_its_parent_ignores(tmp_path):
    (tmp_path / "show.py").write_text("import signal\nprint(signal.getsignal(signal.SIGHUP))\n")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Group([], environments(1, 5.0), tmp_path, {0: Change(("show",), folder=tmp_path)}) as group:
            waiting.wait_until(lambda: not group.running(), "the end of the group", may_end=True)
            assert group.text(0).strip() == str(signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_group_that_does_not_end_is_reported_and_killed(tmp_path):
    (tmp_path / "endless.py").write_text("import signal\nprint('began')\nsignal.pause()\n")
    with Group([], environments(1, 5.0), tmp_path, {0: Change(("endless",), folder=tmp_path)}) as group:
        waiting.wait_until(lambda: "began" in group.text(0), "the process")
        assert not group.wait(0.0)
        assert group.wait(0.0, without=[0])
        assert [end.code for end in group.ends()] == [None]
    assert group.running() == []
    assert [end.code for end in group.ends()] == [-signal.SIGKILL]


LOST = "mtf-imaging: lost process 1 (127.0.0.1:5): it has ended. Fix: start all processes again."
STOPPED = "SIGTERM: stopped after 3 steps. Start the run again to resume it."


def trial(name, moment, pause=None, struck=(1,), num=3):
    points = BY_NAME[moment].points
    return Trial(num, name, pause, struck, moment, points[0], 1, 0.0, 2)


def ends(*codes_and_texts):
    return [End(index, code, text) for index, (code, text) in enumerate(codes_and_texts)]


RIGHT = (0, "")
HEARD = "SIGTERM: the run saves a checkpoint after this step and ends; a second signal ends it at once."
JUDGED = [
    (trial("SIGKILL", "step"), [(1, LOST), (-9, ""), (1, LOST)], ""),
    (trial("SIGKILL", "step"), [(1, LOST), (1, LOST), (1, LOST)], "process 1: exit code 1 instead of -9"),
    (trial("SIGKILL", "step"), [(0, LOST), (-9, ""), (1, LOST)], "process 0: exit code 0 instead of 1"),
    (trial("SIGKILL", "step"), [(1, "Fix:"), (-9, ""), (1, LOST)], "process 0: the message does not name process 1"),
    (trial("SIGKILL", "step"), [(1, LOST[:55]), (-9, ""), (1, LOST)], "process 0: the message has no fix"),
    (trial("SIGKILL", "step"), [(None, ""), (-9, ""), (1, LOST)], "process 0: it still runs"),
    (trial("SIGKILL", "step"), [(1, LOST + "Traceback"), (-9, ""), (1, LOST)], "process 0: it ended in a traceback"),
    (trial("SIGSEGV", "end"), [RIGHT, (-11, ""), (1, LOST)], ""),
    (trial("SIGTERM", "step"), [(75, STOPPED)] * 3, ""),
    (trial("SIGTERM", "step"), [RIGHT, (0, HEARD), RIGHT], ""),  # the last steps came first
    (trial("SIGTERM", "step"), [RIGHT] * 3, "process 1: the signal had no effect"),
    (trial("SIGTERM", "end"), [RIGHT] * 3, ""),
    (trial("SIGTERM", "step"), [RIGHT, (75, STOPPED), RIGHT], "process 0: exit code 0 instead of 75"),
    (trial("SIGTERM", "step"), [(1, LOST), (75, STOPPED), (75, STOPPED)], "process 0: exit code 1 instead of 75"),
    (trial("SIGTERM", "step"), [(75, ""), (75, STOPPED), (75, STOPPED)], "process 0: the message does not say"),
    (trial("SIGINT", "step"), [(75, STOPPED), (130, ""), (75, STOPPED)], ""),
    (trial("SIGTERM", "first contact"), [(1, LOST), (75, ""), (1, LOST)], ""),
    (trial("SIGTERM", "first contact"), [(1, LOST), (-15, ""), (1, LOST)], "process 1: exit code -15 instead of 75"),
    (trial("SIGTERM", "first contact"), [RIGHT] * 3, "process 0: exit code 0 instead of 1 or 75"),
    (trial("SIGTERM", "import"), [(1, LOST), (-15, ""), (1, LOST)], ""),
    (trial("SIGSTOP", "step", 0.4), [RIGHT] * 3, ""),
    (trial("SIGSTOP", "step", 0.4), [(1, LOST)] * 3, "process 0: exit code 1 instead of 0"),
    (trial("SIGSTOP", "step", 1.6), [(1, LOST)] * 3, ""),
    (trial("SIGSTOP", "step", 1.6), [RIGHT] * 3, "process 0: exit code 0 instead of 1"),
    (trial("SIGSTOP", "step"), [(1, LOST), (None, ""), (1, LOST)], ""),
    (trial("SIGSTOP", "step"), [(None, ""), (None, ""), (1, LOST)], "process 0: it still runs"),
]


@pytest.mark.parametrize(("trial", "codes_and_texts", "reason"), JUDGED)
def test_ends_are_judged(trial, codes_and_texts, reason):
    actual = judge(trial, ends(*codes_and_texts), trial.struck)
    assert actual.startswith(reason) if reason else not actual


def test_a_moment_that_does_not_come_is_a_failure():
    assert judge(trial("SIGKILL", "step"), ends(RIGHT, RIGHT, RIGHT), ()) == "the moment did not come"
    assert judge(trial("SIGKILL", "end"), ends(RIGHT, RIGHT, RIGHT), ()) == ""


def test_half_written_files_are_named(tmp_path):
    run = tmp_path / "run"
    assert find_half_written(run) == ""
    run.mkdir()
    (run / "losses.csv").write_text("step,loss\n0,0.5\n")
    (run / "run.json").write_text("{}")
    (run / ".partial-1-scores.csv").write_text("step,lo")
    assert find_half_written(run) == ""
    (run / "losses.csv").write_text("step,loss\n0,0.5\n1")
    assert find_half_written(run) == "losses.csv"
    (run / "losses.csv").write_text("step,loss\n0,0.5\n1\n")
    assert find_half_written(run) == "losses.csv"
    (run / "losses.csv").unlink()
    (run / "run.json").write_text("{")
    assert find_half_written(run) == "run.json"
    (run / "ckpt-3.index").write_bytes(b"123")
    assert find_half_written(run) == "ckpt-3.index"


def test_the_clock_of_a_process_follows_a_file(tmp_path, monkeypatch):
    library = tmp_path / "lib/libfaketimeMT.so.1"
    library.parent.mkdir()
    monkeypatch.setattr(clock, "FOLDERS", [str(library.parent)])
    assert "libfaketimeMT.so.1 is not installed" in clock.find_missing()
    library.touch()
    assert clock.find_missing() == ""
    variables = clock.environment(tmp_path)
    assert variables["LD_PRELOAD"] == str(library)
    assert (tmp_path / "clock").read_text() == "+0\n"
    clock.set_offset(tmp_path, -3600)
    assert variables["FAKETIME_TIMESTAMP_FILE"] == str(tmp_path / "clock")
    assert (tmp_path / "clock").read_text() == "-3600\n"


def test_tables_count_trials():
    common = {"date": "d", "commit": "c", "reason": ""}
    rows = [
        {"kind": "drawn", "trial": "0", "processes": "3", "fault": "SIGKILL", "moment": "step", "resumed": "2"},
        {"kind": "drawn", "trial": "1", "processes": "4", "fault": "SIGKILL", "moment": "import", "resumed": "1"},
        {"kind": "single", "trial": "other code", "processes": "3", "codes": "2 2 2", "resumed": "3"},
    ]
    for row, outcome in zip(rows, ("equal", "failed", "equal")):
        row |= common | {"ended_s": "2.6", "outcome": outcome}
    table = page.signal_table(rows)
    assert "| SIGKILL | 2 | step, import | 3, 4 | 1, 2 | 1 | 1 | 3 s |" in table
    assert "| all | 2 |  | 3, 4 | 1, 2 | 1 | 1 | 3 s |" in table
    assert "| other code | 3 | 2 2 2 | 2.6 s | 3 | same weights |" in page.peer_table(rows)


def test_a_pause_is_part_of_the_name_of_a_signal():
    assert [str(trials.Trial(2, name, pause, (0,), "step", "", 1, 0.0, 1)) for name, pause in SIGNALS[-4:]] == [
        "SIGABRT",
        "SIGSTOP for 0.4 timeouts",
        "SIGSTOP for 1.6 timeouts",
        "SIGSTOP for good",
    ]
