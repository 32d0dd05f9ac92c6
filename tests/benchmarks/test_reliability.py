"""The benchmark of reliability: its table of inputs, its judgment, the comparison after a kill, and its page."""

import collections
import concurrent.futures
import contextlib
import io
import json
import os
import random
import re
import signal
import traceback

import pytest

from benchmarks.figures import FIGURES
from benchmarks.reliability import bad_inputs, commands, good, kills, mutations, page
from benchmarks.reliability.commands import Result
from benchmarks.reliability.inputs import bad_input
from benchmarks.reliability.inputs.all_inputs import INPUTS
from benchmarks.reliability.inputs.bad_input import BadInput, Refused, Right, Warned, judge, snapshot
from benchmarks.reliability.inputs.checks import same_scores
from benchmarks.reliability.results import Results, read
from benchmarks.reliability.writers import WRITERS, Undisturbed, Writer, content
from mtf_imaging.cli.commands.all_commands import COMMANDS
from mtf_imaging.cli.main import main

KINDS = sorted({given.kind for given in INPUTS})
# Reads of hundreds of megabytes, and what never ends without a limit of time, only run with all inputs.
_LARGE = re.compile("FIFO|absent|GiB|MB|2\\^40|32767|65535")
_QUICK_KINDS = ("headers", "values", "dataset.json", "DICOM", "OME-Zarr")
QUICK = [
    given
    for given in INPUTS
    if given.command == "convert"
    and given.kind in _QUICK_KINDS
    and not _LARGE.search(given.name)
    and any(isinstance(outcome, Refused) for outcome in given.outcomes)
][::5]


def test_the_table_is_well_formed(tmp_path):
    assert len(INPUTS) >= 300
    keys = [given.key for given in INPUTS]
    assert len(keys) == len(set(keys))
    assert {given.command for given in INPUTS} - set(COMMANDS) == {"trian"}  # a typing error that is an input
    for given in INPUTS:
        assert given.outcomes, given.key
        words = given.words(tmp_path, tmp_path)
        assert not any(re.search(r"\{(good|here|name)\}|DATA|RUN", word) for word in words), given.key
    used = {given.command for given in INPUTS}
    assert {"convert", "train", "evaluate", "predict", "score", "plan", "export", "explain", "cross_validate"} <= used


@pytest.mark.slow
def test_every_input_can_be_made_and_differs_from_the_good_data(tmp_path):
    data = good.write_data(tmp_path / "good")
    for number, given in enumerate(INPUTS):
        # The tests of outcomes make the inputs from records and runs.
        needs = r"\{good\}/(records|described|run)|/run|records|(model_dir|weights) \{here\}/\{name\}"
        if not re.search(needs, given.line):
            (tmp_path / str(number)).mkdir()
            given.make(data, tmp_path / str(number))


def run_here(given, data, here):
    """Runs an input in this process, which takes a tenth of a second."""
    here.mkdir()
    given.make(data, here)
    before = snapshot(here)
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            code = main(given.words(data, here))
        except Exception:
            traceback.print_exc()
            code = 1
    return judge(Result(code, text.getvalue(), 0.0, 0), given, here, before), text.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return good.write_data(tmp_path_factory.mktemp("reliability") / "good")


def test_there_are_quick_inputs_of_each_kind():
    assert 30 <= len(QUICK) <= 50
    assert {given.kind for given in QUICK} == set(_QUICK_KINDS)


@pytest.mark.parametrize("given", QUICK, ids=lambda given: given.key)
def test_quick_bad_inputs_are_refused_or_named(data, tmp_path, given):
    (outcome, reason), text = run_here(given, data, tmp_path / "here")
    assert outcome != "failed", f"{reason}\n{text}"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reliability")
    good.prepare(folder / "good")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_bad_inputs_have_an_expected_outcome(measured, kind):
    failures = bad_inputs.measure(measured, only=[f"{kind}:"])
    assert [f"{row['input']}: {row['command']}: {row['reason']}" for row in failures] == []


REFUSAL = Result(1, "mtf-imaging: cases/a.nii: is damaged. Fix: fetch it again.", 1.0, 900)
JUDGED = [
    (REFUSAL, Refused(), ""),
    (REFUSAL, Refused(because="damaged"), ""),
    (REFUSAL, Refused(because="truncated"), "the message does not say 'truncated'"),
    (REFUSAL, Refused("b.nii"), "the message does not name b.nii"),
    (REFUSAL, Right(), "exit code 1"),
    (REFUSAL, Warned("damaged"), "exit code 1"),
    (Result(0, "", 1.0, 900), Refused(), "exit code 0 instead of 1 or 2"),
    (Result(-9, "", 1.0, 900), Refused(), "exit code -9 instead of 1 or 2"),
    (Result(1, "mtf-imaging: a.nii: is damaged.", 1.0, 900), Refused(), "the message has no fix"),
    (Result(1, "Traceback (most recent call last): a.nii Fix:", 1.0, 900), Refused(), "ended in a traceback"),
    (Result(None, "", 60.0, 900), Refused(), "ran for more than 60 s"),
    (Result(None, "", 1.0, 5000), Refused(), "needed more than 3000 MiB of memory"),
    (Result(0, "a.nii: guessed", 1.0, 900), Warned("a.nii.*guess"), ""),
    (Result(0, "", 1.0, 900), Warned("a.nii"), "no warning with 'a.nii'"),
    (Result(0, "", 1.0, 900), Right(lambda here, text: "spacing 800"), "spacing 800"),
    (Result(0, "Traceback", 1.0, 900), Right(), "ended in a traceback"),
]


@pytest.mark.parametrize(("result", "outcome", "reason"), JUDGED)
def test_results_are_compared_with_outcomes(tmp_path, result, outcome, reason):
    given = BadInput("headers", "x", "convert", lambda good, here: None, (outcome,), "cases/a.nii")
    name = type(outcome).__name__.lower()
    assert judge(result, given, tmp_path, {}) == (("failed", reason) if reason else (name, ""))


def test_changed_inputs_payloads_and_leftovers_are_failures(tmp_path):
    given = BadInput("headers", "x", "convert", lambda good, here: None, (Right(),))
    result = Result(0, "", 1.0, 900)
    (tmp_path / "photo.png").write_text("mine")
    before = snapshot(tmp_path)
    assert judge(result, given, tmp_path, before) == ("right", "")
    (tmp_path / "photo.png").write_text("yours")
    assert judge(result, given, tmp_path, before) == ("failed", "changed photo.png")
    (tmp_path / ".partial-1-a.nii").touch()
    assert judge(result, given, tmp_path, {}) == ("failed", "left .partial-1-a.nii")
    (tmp_path / bad_input.PAYLOAD).touch()
    assert judge(result, given, tmp_path, {}) == ("failed", "ran code of the input")


def test_scores_are_compared_without_the_digests_of_the_files(tmp_path):
    def scores(dice, digest):
        return json.dumps({"cases": {"a": {"dice": dice}}, "provenance": {"files_sha256": {"a.nii": digest}}})

    files = {"good/scores": scores(0.5, "12"), "same/out": scores(0.5, "34"), "other/out": scores(0.6, "12")}
    for folder, text in files.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "metrics.json").write_text(text)
    assert same_scores(tmp_path / "same", "") == ""
    assert same_scores(tmp_path / "other", "") == ".cases.a.dice differs from that of the undamaged files"


@pytest.mark.slow
def test_threads_get_the_exit_codes_of_their_own_commands(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "PROGRAM", "json.tool")

    def code(number):
        (tmp_path / str(number)).mkdir()
        return commands.run(["--no-such-flag"], tmp_path / str(number), 60.0).code

    # Without the lock, 6 of 300 commands in 8 threads had the exit code 255.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert collections.Counter(pool.map(code, range(600))) == {2: 600}


def test_names_that_are_not_utf8_may_be_escaped(tmp_path):
    given = BadInput("names", "x", "convert", lambda good, here: None, (Refused(),), "cases/M\udcfcller.nii")
    result = Result(1, "mtf-imaging: cases/M\\udcfcller.nii: is damaged. Fix: fetch it again.", 1.0, 900)
    assert judge(result, given, tmp_path, {}) == ("refused", "")


def test_a_later_result_replaces_an_earlier_one(tmp_path):
    results = Results(tmp_path / "r.csv", ("command", "number", "outcome"), ("command", "number"))
    for outcome in ("failed", "equal"):
        results.add({"command": "train", "number": 3, "outcome": outcome})
    assert [(row["number"], row["outcome"]) for row in results.rows()] == [("3", "equal")]
    assert results.keys() == {("train", "3")}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", results.rows()[0]["date"])


def whole_output(files, varying=(), complete=""):
    """Returns an `Undisturbed` without running a command."""
    whole = Undisturbed.__new__(Undisturbed)
    whole.writer, whole.files, whole.varying = Writer("train", complete=complete), files, set(varying)
    return whole


def test_half_written_files_and_differences_are_named():
    files = {"a.nii": b"123", "case-1.ome.zarr/zarr.json": b"{}", "case-1.ome.zarr/0": b"45", "time.pb": b"7"}
    whole = whole_output(files, varying=["time.pb"])
    assert whole.find_half_written(files) == ""
    assert whole.find_half_written({}) == ""
    assert whole.find_half_written({"a.nii": b"12"}) == "a.nii"
    assert whole.find_half_written({".partial-1-a.nii": b"12", "time.pb": b"8"}) == ""
    assert whole.find_half_written({"case-1.ome.zarr/zarr.json": b"{}"}) == "case-1.ome.zarr/0"
    assert whole.find_difference(files | {"time.pb": b"9", "train/events.out.tfevents.5": b""}) == ""
    assert whole.find_difference(files | {"a.nii": b"124"}) == "a.nii is different"
    assert whole.find_difference(files | {"b.nii": b""}) == "b.nii is unexpected"
    assert whole.find_difference({"a.nii": b"123"}) == "case-1.ome.zarr/0 is missing"
    assert whole.find_difference(files | {".partial-1-model/x": b""}) == "left .partial-1-model/x"


def test_the_content_of_a_folder_includes_links(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_text("1")
    (tmp_path / "link").symlink_to("a")
    assert content(tmp_path) == {"a/b": b"1", "link": b"a"}


def test_moments_are_of_both_kinds_and_repeatable():
    moments = kills.moments(3, 20)
    assert moments == kills.moments(3, 20) != kills.moments(4, 20)
    assert [moment.kind for moment in moments] == ["any", "writing"] * 10
    assert all(0 <= moment.part < 1 for moment in moments)


def test_every_command_that_writes_is_killed():
    names = ["convert", "train", "evaluate", "predict", "score", "export", "plan", "cross_validate", "import_weights"]
    assert {*WRITERS} == {*names, "predict_windows", "phantom"}


def test_the_page_shows_the_results():
    text = page.PAGE.read_text()
    for name, table in page.tables().items():
        assert f"<!-- figures: {name} -->\n{table}\n<!-- figures end -->" in text


def test_results_are_of_inputs_that_exist():
    keys = {(given.kind, given.name, given.command) for given in INPUTS}
    rows = bad_inputs.results(FIGURES).rows()
    assert {(row["kind"], row["input"], row["command"]) for row in rows} <= keys


def test_tables_count_outcomes():
    draw = random.Random(0)
    rows = [
        {"kind": "headers", "outcome": draw.choice(["refused", "right"]), "seconds": "2.5", "date": "d", "commit": "c"}
        for _ in range(9)
    ]
    refused = sum(row["outcome"] == "refused" for row in rows)
    table = page.bad_input_table(rows)
    assert f"| headers | 9 | {refused} | {9 - refused} | 0 | 0 | 2 s |" in table
    assert table.endswith(
        "Measured on d, commit c, with `python -m benchmarks.reliability bad_inputs --output_dir DIR`."
    )


def test_mutations_are_read_or_refused_by_name(tmp_path):
    assert mutations.measure(tmp_path, only=["spacing table", "NRRD header"], number=4) == []
    rows = read(tmp_path / mutations.FILE)
    assert [(row["kind"], int(row["read"]) + int(row["refused"])) for row in rows] == [
        ("NRRD header", 4),
        ("spacing table", 4),
    ]


def test_a_reader_that_crashes_or_raises_another_error_fails(tmp_path, monkeypatch):
    good = b"good content"

    def write(folder):
        (folder / "a.txt").write_bytes(good)
        return folder / "a.txt"

    def is_changed(path):
        return path.exists() and path.read_bytes() != good

    def crash(path):
        return is_changed(path) and os.kill(os.getpid(), signal.SIGKILL)

    def raise_error(path):
        return is_changed(path) and {}["missing"]

    kinds = {"crash": mutations.Kind(write, crash), "error": mutations.Kind(write, raise_error)}
    monkeypatch.setattr(mutations, "KINDS", kinds)
    crashed, raised = mutations.measure(tmp_path, number=3)
    assert crashed["failed"] >= 2
    assert "KeyError" in raised["first_failure"]


def test_mutations_differ_and_can_be_repeated():
    draw, again = random.Random(1), random.Random(1)
    contents = [mutations.mutated(bytes(range(200)), draw) for _ in range(40)]
    assert contents == [mutations.mutated(bytes(range(200)), again) for _ in range(40)]
    assert len({*contents}) > 35
    assert {len(content) < 200 for content in contents} == {True, False}
