"""What `info` says about runs and results, with an oracle instead of a network."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import nibabel
import pytest

import mtf_imaging as mi
from mtf_imaging.cli.main import main
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.files.provenance.digests import digest
from mtf_imaging.files.provenance.package import Package
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import trained_run
from mtf_imaging.kinds.prediction_record import FILE, PredictionRecord
from tests.evaluation.oracle import GRID, oracle, store
from tests.files.handmade_run import write_run
from tests.kinds.volumes import evaluate, plan_predictions, predict_cases, prediction_files

MADE_BY = {"checkpoint": "ckpt-4"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, and the scores and predictions of two cases that claim to be those of the run."""
    folder = tmp_path_factory.mktemp("made")
    write_run(folder / "run", steps=(4,), best=2)
    for number in (3, 13):
        store(folder / "cases", number, "RAS")
    layout = {"mesh_shape": "rows:2", "layout": "x:rows"}
    origin = Provenance(runs=(trained_run(folder / "run", "last"),), rules={"flips": ["x"]}, layout=layout)
    for name in ("evaluation", "again"):
        evaluate(folder / "cases", folder / name, GRID, oracle, progress=False, provenance=origin)
    predict(folder, folder / "predictions", origin)
    return folder


def predict(folder, output, origin, **options):
    output.mkdir(exist_ok=True)
    planned = plan_predictions(folder / "cases", output, **options)
    files = prediction_files(planned.pairs, folder / "cases", output)
    record = PredictionRecord(files, MADE_BY, provenance=origin, **options)
    record.check()
    predict_cases(folder / "cases", output, GRID, oracle, progress=False, planned=planned, record=record)


def rows(path):
    (one,) = mi.jobs.info(path)
    return dict(one.rows)


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def test_scores_name_the_files_the_run_and_the_rules(made):
    fields = metrics(made / "evaluation")["provenance"]
    assert [*metrics(made / "evaluation")][-1] == "provenance"
    assert fields["files"]["13"] == {
        "prediction": digest(made / "evaluation/predictions/segmentation-13.nii.gz"),
        "reference": digest(made / "cases/segmentation-13.nii.gz"),
        "image": digest(made / "cases/volume-13.nii.gz"),
    }
    (run,) = fields["runs"]
    assert (run["step"], run["checkpoint_sha256"]) == (4, digest(made / "run/ckpt-4.index"))
    assert run["training"]["training_cases"] == {"1": "aa", "12": "bb"}
    assert fields["rules"] == {"flips": ["x"], "scoring": "lits"}
    assert fields["layout"] == {"mesh_shape": "rows:2", "layout": "x:rows"}


def test_two_evaluations_write_the_same_bytes(made):
    for name in ("metrics.json", "report.html", "predictions/segmentation-3.nii.gz"):
        assert (made / "evaluation" / name).read_bytes() == (made / "again" / name).read_bytes()


def test_the_report_has_the_same_rows(made):
    page = (made / "evaluation/report.html").read_text()
    (table,) = re.findall(r'<details id="provenance">.*?</details>', page, re.DOTALL)
    found = dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', table))
    assert found == rows(made / "evaluation")
    assert found["layout"] == "x:rows on the mesh rows:2"


def test_headers_of_segmentations_name_the_checkpoint(made):
    run = trained_run(made / "run", "last")
    for name in ("evaluation/predictions/segmentation-3.nii.gz", "predictions/segmentation-3.nii.gz"):
        note = nibabel.load(made / name).header["descrip"].item().decode()
        assert f"ckpt-4 {run.checkpoint_digest[:12]} cfg {run.configuration_digest[:12]}" in note
        own = rows(made / name)
        assert own["header"] == note
        assert own["file"].startswith("unchanged since ")
        assert own["checkpoint"] == f"ckpt-4 (last), step 4, {run.checkpoint_digest[:16]}"
    assert rows(made / "evaluation/predictions/segmentation-13.nii.gz")["case"] == "13"
    assert rows(made / "cases/segmentation-3.nii.gz") == {
        "header": "not recorded",
        "record": "neither predictions.jsonl nor metrics.json names this file",
    }


def test_a_run_names_its_checkpoints_and_cases(made):
    (one,) = mi.jobs.info(made / "run")
    checkpoints = [text for name, text in one.rows if name == "checkpoint"]
    assert [text.split(",")[:2] for text in checkpoints] == [["ckpt-4 (last)", " step 4"], ["ckpt-2 (best)", " step 2"]]
    assert dict(one.rows)["training cases"].endswith(": 1, 12")
    assert one.fields["checkpoints"]["best"]["checkpoint_sha256"] == digest(made / "run/best/ckpt-2.index")
    assert dict(one.rows)["configuration"] == digest(made / "run/config.gin")[:16]


def test_a_changed_configuration_is_noticed(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run")
    (tmp_path / "run/config.gin").write_text("setup.layout = 'y:rows'\n")
    then = digest(made / "run/config.gin")[:16]
    assert rows(tmp_path / "run")["configuration"].endswith(f", changed since the training, which had {then}")


def test_a_folder_completed_by_another_version_names_both(made, tmp_path):
    output = tmp_path / "predictions"
    shutil.copytree(made / "predictions", output)
    (output / "segmentation-3.nii.gz").unlink()
    origin = Provenance(runs=(trained_run(made / "run", "last"),), package=Package("9.9"))
    predict(made, output, origin)
    first, second = (one.fields for one in mi.jobs.info(output))
    assert (first["predictions"], second["predictions"]) == (["segmentation-13.nii.gz"], ["segmentation-3.nii.gz"])
    assert [one["package"]["version"] for one in (first, second)] == [mi.__version__, "9.9"]
    assert rows(output / "segmentation-3.nii.gz")["program"] == "mtf_imaging 9.9, commit unknown"
    predict(made, output, dataclasses.replace(origin, package=Package("10.0")))  # writes no segmentation
    assert [one.fields for one in mi.jobs.info(output)] == [first, second]


def test_a_changed_prediction_is_noticed(made, tmp_path):
    shutil.copytree(made / "predictions", tmp_path / "p")
    (tmp_path / "p/segmentation-3.nii.gz").write_bytes((tmp_path / "p/segmentation-13.nii.gz").read_bytes())
    own = rows(tmp_path / "p/segmentation-3.nii.gz")
    assert own["file"] == "changed since predict wrote it"
    assert "program" not in own


def test_a_changed_prediction_of_evaluate_is_noticed(made, tmp_path):
    shutil.copytree(made / "evaluation", tmp_path / "evaluation")
    file = tmp_path / "evaluation/predictions/segmentation-3.nii.gz"
    shutil.copy(tmp_path / "evaluation/predictions/segmentation-3.nii.gz", tmp_path / "same.nii.gz")
    shutil.copy(made / "cases/segmentation-3.nii.gz", file)
    assert rows(file)["file"] == "changed since metrics.json was written, or not among the evaluated files"
    shutil.copy(tmp_path / "same.nii.gz", file)
    assert rows(file)["file"].startswith("unchanged since metrics.json was written")


def test_score_names_the_networks_of_unchanged_predictions(made, tmp_path):
    def score(predictions):
        score_folders(made / "cases", predictions, tmp_path / "scores", workers=1, progress=False)
        return metrics(tmp_path / "scores")["provenance"]

    fields = score(made / "predictions")
    assert [run["checkpoint"] for run in fields["runs"]] == ["ckpt-4"]
    assert fields["rules"] == {"flips": ["x"], "scoring": "lits"}
    assert {*fields["files"]["3"]} == {"prediction", "reference"}
    shutil.copytree(made / "predictions", tmp_path / "p")
    shutil.copy(made / "cases/segmentation-3.nii.gz", tmp_path / "p")
    assert score(tmp_path / "p")["runs"] == []


def test_scores_and_predictions_without_an_origin_say_so(made, tmp_path):
    own = metrics(made / "evaluation")
    del own["provenance"]
    (tmp_path / "metrics.json").write_text(json.dumps(own))
    assert rows(tmp_path / "metrics.json") == {"program": "not recorded"}
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / FILE).write_text(json.dumps({"made_by": MADE_BY}) + "\n")  # killed before the first prediction
    assert rows(tmp_path / "p") == {"files": "0"}


def test_a_cross_validation_lists_its_folds(made, tmp_path):
    for number in (0, 1):
        shutil.copytree(made / "run", tmp_path / f"cv/fold_{number}")
    shutil.copy(made / "evaluation/metrics.json", tmp_path / "cv")
    titles = [one.title for one in mi.jobs.info(tmp_path / "cv")]
    assert titles == [f"run {tmp_path}/cv/fold_0", f"run {tmp_path}/cv/fold_1", f"scores {tmp_path}/cv/metrics.json"]


def test_the_command_prints_a_table_or_json(made, capsys):
    assert main(["info", str(made / "run"), str(made / "evaluation/report.html")]) == 0
    out = capsys.readouterr().out
    first, second = out.split("\n\n")
    assert first.startswith(f"run {made}/run\ncheckpoint           ckpt-4 (last), step 4, ")
    assert f"scores {made}/evaluation/metrics.json\nprogram " in second
    assert max(map(len, out.splitlines()[1:])) <= 120 or str(made) in out
    assert main(["info", "--json", str(made / "evaluation")]) == 0
    (fields,) = json.loads(capsys.readouterr().out)
    assert fields.pop("title") == f"scores {made}/evaluation/metrics.json"
    assert fields == metrics(made / "evaluation")["provenance"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing", r"nothing: does not exist\. Fix: give the path of a run"),
        ("cases", r"cases: is neither a run nor a result of this program\. Fix: give the folder of a run"),
        ("cases/notes.txt", r"notes\.txt: is neither a run nor a result"),
        ("cases/bad.nii", r"bad\.nii: "),
        ("cases/metrics.json", r"metrics\.json: not a JSON file"),
    ],
)
def test_other_paths_are_refused(made, tmp_path, capsys, name, text):
    shutil.copytree(made / "cases", tmp_path / "cases")
    for file in ("notes.txt", "bad.nii"):
        (tmp_path / "cases" / file).write_text("text")
    if name.endswith("json"):
        (tmp_path / "cases/metrics.json").write_text("{")
    assert main(["info", str(tmp_path / name)]) == 1
    assert re.search(text, capsys.readouterr().err)


def test_a_path_is_needed(capsys):
    assert main(["info"]) == 2
    assert "info needs --path. Example: mtf-imaging info run" in capsys.readouterr().err


def test_the_command_does_not_import_tensorflow(made):
    code = (
        "import sys; from mtf_imaging.cli.main import main; main(sys.argv[1:]); assert 'tensorflow' not in sys.modules"
    )
    paths = (made / "run", made / "evaluation", made / "predictions/segmentation-3.nii.gz")
    subprocess.run([sys.executable, "-c", code, "info", *map(str, paths)], check=True, capture_output=True)
