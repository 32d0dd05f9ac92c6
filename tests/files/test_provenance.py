"""Provenance: the commit of the sources, runs and their starts, and the note in headers of images."""

import json
import os
import subprocess

import pytest

from mtf_imaging.data.listing.image_files import stamps
from mtf_imaging.errors import CheckpointError
from mtf_imaging.files.provenance import runs as provenance_of_runs
from mtf_imaging.files.provenance.commit import FILE, read_commit
from mtf_imaging.files.provenance.digests import Stamp, digest
from mtf_imaging.files.provenance.package import Package, this_package
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.record import Record
from mtf_imaging.files.provenance.runs import TrainedRun, read_training, trained_run, training_provenance
from mtf_imaging.files.provenance.text import UNKNOWN, provenance_rows, training_rows
from tests.files.handmade_run import write_run


def git(folder, *words):
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, env=os.environ | names, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    (folder / "mtf_imaging").mkdir(parents=True)
    (folder / "mtf_imaging/a.py").write_text("a = 1\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "a")
    return folder


def test_the_commit_of_a_clone(clone, monkeypatch):
    commit = git(clone, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # of another repository, as in a hook of git
    assert read_commit(clone) == commit
    (clone / "notes.txt").write_text("not tracked")
    assert read_commit(clone) == commit
    (clone / "mtf_imaging/a.py").write_text("a = 2\n")
    assert read_commit(clone) == f"{commit}-dirty"
    assert read_commit(clone / "mtf_imaging") is None, "an environment in the repository of another project"


def test_the_commit_of_a_built_package_is_in_a_file(clone):
    built = "0123456789abcdef" * 2 + "01234567"
    (clone / "mtf_imaging" / FILE).write_text(f"{built}\n")
    assert read_commit(clone) == built
    for content in (b"no commit", b"\xff\xfe", b""):
        (clone / "mtf_imaging" / FILE).write_bytes(content)
        assert read_commit(clone) in (None, git(clone, "rev-parse", "HEAD"))


def test_without_git_the_commit_is_unknown(clone, monkeypatch):
    monkeypatch.setenv("PATH", str(clone))
    assert read_commit(clone) is None
    assert provenance_rows({"package": Package("1.0").as_json(), "runs": [], "rules": {}})[0] == (
        "program",
        "mtf_imaging 1.0, commit unknown",
    )


def run_of(step=400, training=None, index="ab"):
    return TrainedRun("run", f"ckpt-{step}", "last", step, index * 32, "cd" * 32, training)


def test_a_note_fits_into_a_header_of_nifti():
    note = Provenance(Package("10.11.12.dev1234567890", "0" * 40 + "-dirty"), (run_of(step=123_456_789),)).note
    assert len(note) == 79
    assert note.startswith("mtf_imaging 10.11.12.dev1234567890+g000000000.dirty ckpt-123456789 abababababab")
    note, other = (Provenance(Package("1.0"), (run_of(), run_of(index=index))).note for index in ("ab", "cd"))
    assert note != other
    assert note.startswith("mtf_imaging 1.0 2 runs ")


def test_starts_of_a_training_are_listed_if_they_differ(tmp_path, monkeypatch):
    (tmp_path / "config.gin").write_text("a = 1\n")

    def start(step, cases, layout="x:rows"):
        fields = training_provenance(tmp_path, cases, step, "rows:2", layout)
        (tmp_path / "run.json").write_text(json.dumps({"provenance": fields}))
        return fields["starts"]

    (first,) = start(0, {"1": "aa", "2": "bb"})
    assert first["version"] == this_package().version
    assert first["configuration_sha256"] == digest(tmp_path / "config.gin")
    assert (first["step"], first["mesh_shape"], first["layout"]) == (0, "rows:2", "x:rows")
    assert start(4, {"2": "bb", "1": "aa"}) == [first]
    assert [one["step"] for one in start(8, {"1": "aa", "2": "cc"})] == [0, 8]
    assert [one["layout"] for one in start(9, {"1": "aa", "2": "cc"}, "")] == ["x:rows", "x:rows", ""]
    (tmp_path / "config.gin").write_text("a = 2\n")
    assert len(start(10, {"1": "aa", "2": "cc"}, "")) == 4
    monkeypatch.setattr(provenance_of_runs, "this_package", lambda: Package("9.9"))
    assert [one["version"] for one in start(11, {"1": "aa", "2": "cc"}, "")][-2:] == [first["version"], "9.9"]
    digests = [one["training_cases_sha256"] for one in read_training(tmp_path)["starts"]]
    assert len({*digests}) == 2
    assert start(12, {})[-1]["training_cases_sha256"] is None


def test_the_run_of_a_checkpoint(tmp_path):
    write_run(tmp_path / "run", steps=(3, 12))
    run = trained_run(tmp_path / "run", "last")
    assert (run.name, run.checkpoint, run.step) == ("run", "ckpt-12", 12)
    assert run.checkpoint_digest == digest(tmp_path / "run/ckpt-12.index")
    assert run.configuration_digest == digest(tmp_path / "run/config.gin")
    assert run.training == read_training(tmp_path / "run")
    assert TrainedRun.from_json(json.loads(json.dumps(run.as_json()))) == run
    with pytest.raises(CheckpointError, match="has no best checkpoint"):
        trained_run(tmp_path / "run", "best")


def test_provenance_is_the_same_for_the_same_files(tmp_path):
    training = {"starts": [], "training_cases": {"1": "aa"}}
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "image.nii").write_text("image")
    first, second = (stamps(image=tmp_path / name / "image.nii", reference=None) for name in "ab")
    assert first == second == {"image": Stamp("image.nii", digest(tmp_path / "a/image.nii"))}
    whole = Provenance(runs=(run_of(training=training),)).with_files({"1": first}, scoring="lits")
    fields = whole.as_json()
    assert fields == json.loads(json.dumps(fields))
    assert fields["files_sha256"] != whole.with_files({"2": first}).as_json()["files_sha256"]
    assert fields["runs"][0]["training"] == training
    assert "training_cases" not in whole.as_json(lists_cases=False)["runs"][0]["training"]
    assert fields["rules"] == {"scoring": "lits"}


@pytest.mark.parametrize("fields", [None, {}, {"runs": 3, "rules": [], "files": ""}, {"runs": [{"training": []}]}])
def test_rows_of_other_releases_say_that_nothing_was_recorded(fields):
    assert ("program", UNKNOWN) in provenance_rows(fields)


def test_many_training_cases_are_counted():
    def text(number):
        cases = {f"case {n}": None for n in range(number)}
        return dict(training_rows({"starts": [{"training_cases_sha256": "ab" * 32}], "training_cases": cases}))

    assert text(2)["training cases"] == f"2, {'ab' * 8}: case 0, case 1"
    assert text(501)["training cases"] == f"501, {'ab' * 8}"


def test_a_file_that_has_changed_has_no_recorded_provenance():
    record = Record(None, [{"step": 3}], {"a.nii": {"sha256": "aa", "provenance": 0}, "b.nii": {"sha256": "bb"}})
    assert record.provenance_of("a.nii", "aa") == {"step": 3}
    assert record.provenance_of("a.nii", "bb") is None
    assert record.provenance_of("b.nii", "bb") is None
    assert record.provenance_of("c.nii", None) is None
