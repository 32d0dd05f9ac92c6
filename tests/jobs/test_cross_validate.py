"""Cross-validation: each case is scored once, by the network that has not seen it; resuming, refusals, ensembles."""

import json
import re
import shutil
import signal
import types

import nibabel
import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.records.splits import Fold, write_splits
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.inference.averages import flipped
from mtf_imaging.jobs import cross_validating
from mtf_imaging.jobs.cross_validation import pooling
from mtf_imaging.jobs.cross_validation.fold_runs import FoldRuns
from mtf_imaging.jobs.runs.inference import open_images
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.settings.inference import EvaluateSettings
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns, predictor
from tests.data.reading import read_labels, read_volume
from tests.jobs.launched import GIN, launch
from tests.kinds.volumes import network_input, sliced_labels
from tests.scores import read_rows, read_scores

pytestmark = pytest.mark.slow

FOLDS, STEPS = 3, 3
ONE, SPLIT = mi.Layout(), mi.Layout.parse("rows:2", "x:rows")
SAMPLING = Sampling((8, 8, 8))


def write_cases(folder, number=5):
    folder.mkdir(parents=True)
    for n in range(number):
        rng = np.random.default_rng(n)
        labels = np.zeros((12, 10, 9), np.uint8)
        labels[2:9, 2:8, 1 + n % 2 : 7] = 1
        labels[3:6, 3 : 5 + n % 3, 3:5] = 2
        hu = np.int16(rng.normal(labels * 100.0 - 50, 20))
        for kind, array in (("volume", hu), ("segmentation", labels)):
            image = nibabel.Nifti1Image(array, np.diag([2.0, 2, 3, 1]))
            nibabel.save(image, folder / f"{kind}-{n}.nii")
    return folder


def task(depth=2):
    return LiverTumorSegmentation(UNet3D(base_filters=1, depth=depth, convs=1))


def arguments(folder, **changes):
    given = {"task": task(), "optimizer": Adam(0.05), "num_steps": STEPS, "batch_size": 1, "checkpoint_every": 1}
    given |= {"data": mi.jobs.TrainingData(folder / "records", num_folds=FOLDS), "eval_every": STEPS, "workers": 1}
    given["class_frequencies"] = None  # so that the networks of a few steps predict other labels than the background
    return given | {"input_dir": folder / "cases", "output_dir": folder / "cv", "progress": False} | changes


def states(folder):
    """Returns the content and the time of each file."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cross-validation that SIGTERM has stopped within fold 1, and that was then continued."""
    folder = tmp_path_factory.mktemp("cross_validate")
    write_cases(folder / "cases")
    mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / "records", resolution=8, workers=1, progress=False)

    def ask():
        if (folder / "cv/fold_1/ckpt-1.index").is_file():
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(mi.Interrupted, match=r"SIGTERM: stopped after 2 steps; last checkpoint: .*fold_1/ckpt-2"):
        mi.jobs.cross_validate(**arguments(folder, stop=ask, handle_signals=True))
    assert not (folder / "cv/metrics.json").exists()
    before = states(folder / "cv/fold_0")
    mi.jobs.cross_validate(**arguments(folder))
    assert states(folder / "cv/fold_0") == before
    return folder


def splits_of(folder):
    return json.loads((folder / "cv/splits_final.json").read_text())


def test_each_case_is_scored_once_by_the_network_that_has_not_seen_it(folder):
    pooled = json.loads((folder / "cv/metrics.json").read_text())
    assert [*pooled["cases"]] == ["0", "1", "2", "3", "4"]
    splits = splits_of(folder)
    assert sorted(key for split in splits for key in split["val"]) == ["0", "1", "2", "3", "4"]
    for number, split in enumerate(splits):
        run = folder / f"cv/fold_{number}"
        rows = read_rows(run / "losses.csv")
        assert [row["step"] for row in rows] == ["0", "1", "2"]
        assert {row["cases"] for row in rows} <= {*split["train"]} == {*pooled["cases"]} - {*split["val"]}
        metrics = json.loads((run / "evaluation/metrics.json").read_text())
        assert metrics["cases"].keys() == {*split["val"]}
        assert metrics["cases"] == {key: pooled["cases"][key] for key in metrics["cases"]}
    scores = [case["liver"]["dice"] for case in pooled["cases"].values()]
    assert pooled["liver"]["dice_per_case"] == pytest.approx(np.mean(scores))
    assert [row["case"] for row in read_rows(folder / "cv/metrics.csv")] == [*pooled["cases"]]
    assert {*re.findall(r'data-case="(\d)"', (folder / "cv/report.html").read_text())} == {*pooled["cases"]}
    rows = read_rows(folder / "cv/folds.csv")
    assert [(row["fold"], row["cases"]) for row in rows] == [("0", "2"), ("1", "2"), ("2", "1")]


def test_a_resumed_fold_equals_a_run_of_its_own(folder, tmp_path):
    given = arguments(folder)
    data = mi.jobs.TrainingData(folder / "records", fold=1, num_folds=FOLDS)
    names = ("task", "optimizer", "num_steps", "batch_size", "checkpoint_every", "eval_every", "progress")
    names += ("class_frequencies",)
    mi.jobs.train(**{name: given[name] for name in names}, data=data, model_dir=tmp_path / "run")
    assert (tmp_path / "run/losses.csv").read_text() == (folder / "cv/fold_1/losses.csv").read_text()
    shared = {"task": task(), "model_dir": tmp_path / "run", "input_dir": folder / "cases", "progress": False}
    mi.jobs.evaluate(**shared, output_dir=tmp_path / "scores", fold=1)
    assert read_scores(tmp_path / "scores") == read_scores(folder / "cv/fold_1/evaluation")


def test_a_finished_cross_validation_computes_nothing(folder, monkeypatch, capsys):
    def fails(*_, **__):
        raise AssertionError("a finished fold must not be computed again")

    for name in ("train", "evaluate"):
        monkeypatch.setattr(cross_validating, name, fails)
    monkeypatch.setattr(pooling, "score_pairs", fails)
    before = states(folder / "cv")
    data = mi.jobs.TrainingData(folder / "records")  # the folds of the folder
    pooled = mi.jobs.cross_validate(**arguments(folder, data=data, layout=SPLIT, progress=True))
    assert states(folder / "cv") == before
    assert pooled == json.loads((folder / "cv/metrics.json").read_text())
    out = capsys.readouterr().out
    assert "Already finished: folds 0, 1, 2." in out
    assert "Pooled over all 3 folds: each of 5 cases once." in out
    means = [
        json.loads((folder / f"cv/fold_{n}/evaluation/metrics.json").read_text())["liver"]["dice_per_case"]
        for n in range(FOLDS)
    ]
    (table, _) = out.split("Dice global")
    for label, value in (("mean", np.mean(means)), ("lowest", min(means)), ("highest", max(means))):
        assert re.search(rf"^{label} +{value:.3f} ", table, re.MULTILINE)


def test_the_pool_covers_the_finished_folds_and_says_so(folder, tmp_path, capsys):
    shutil.copytree(folder / "cv", tmp_path / "cv")
    shutil.rmtree(tmp_path / "cv/fold_1")
    given = arguments(folder, output_dir=tmp_path / "cv", folds=[0, 2], progress=True)
    pooled = mi.jobs.cross_validate(**given)
    splits = splits_of(folder)
    assert {*pooled["cases"]} == {*splits[0]["val"], *splits[2]["val"]}
    assert json.loads((tmp_path / "cv/metrics.json").read_text()) == pooled
    assert "Pooled over folds 0, 2 only: 3 of 5 cases. Not finished: fold 1." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_steps": 4}, r"has num_steps 3, but 4 is given\. Fix: give the same num_steps"),
        ({"task": task(depth=3)}, r"has task \.\.\.depth=2, but \.\.\.depth=3 is given\. Fix"),
        ({"optimizer": Adam(0.1)}, r"has optimizer .*rate=0\.05.*, but .*rate=0\.1"),
        ({"average_decay": 0.9}, r"has average_decay None, but 0\.9 is given\. Fix: give the same average_decay"),
        ({"seed": 1, "checkpoint_every": 3}, r"has seed 0, but 1 is given"),
        ({"flips": ("x",)}, r"has flips \(\), but \('x'\) is given"),
        (
            {"data": {"num_folds": 2}},
            r"has folds \w+ \w+ \w+, but \w+ \w+ is given\. Fix: give the same num_folds and splits_file",
        ),
        ({"data": {"split_seed": 1, "num_folds": 3}}, r"has folds \w+ \w+ \w+, but \w+ \w+ \w+ is given\."),
        ({"folds": [0, 3]}, r"folds \[0, 3\]: there are 3 folds\. Fix: give each of them at most once"),
        ({"folds": []}, r"folds must be a tuple in which each element is an int, not \[\]"),
        ({"data": {"fold": 1}}, r"fold 1: cross_validate holds out every fold in turn\. Fix: remove fold"),
        ({"data": {"eval_dir": "other"}}, "eval_dir other: cross_validate holds out every fold"),
        ({"num_steps": 0}, "num_steps must be an int of at least 1"),
    ],
)
def test_other_settings_and_folds_are_refused(folder, changes, text):
    before = states(folder / "cv")
    if "data" in changes:
        changes = changes | {"data": mi.jobs.TrainingData(folder / "records", **changes["data"])}
    with pytest.raises(mi.ConfigError, match=text):
        mi.jobs.cross_validate(**arguments(folder, **changes))
    assert states(folder / "cv") == before


def test_other_cases_are_refused(folder, tmp_path):
    cases = write_cases(tmp_path / "cases", 6)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=cases, output_dir=tmp_path / "records", **options)
    data = mi.jobs.TrainingData(tmp_path / "records")
    with pytest.raises(
        mi.ConfigError, match=r"has files of case 5 None, but \w+ is given\. Fix: give the same data_dir, or give"
    ):
        mi.jobs.cross_validate(**arguments(folder, data=data, input_dir=cases))
    for kind in ("volume", "segmentation"):
        (cases / f"{kind}-5.nii").unlink()
        image = nibabel.load(cases / f"{kind}-3.nii")
        nibabel.save(image.slicer[:, :, 1:], cases / f"{kind}-3.nii")
    with pytest.raises(mi.DataError, match=r"volume-3\.nii: this CT has 12 x 10 x 8 voxels, but the record of case 3"):
        mi.jobs.cross_validate(**arguments(folder, input_dir=cases))
    mi.jobs.convert(input_dir=cases, output_dir=tmp_path / "changed", **options)
    data = mi.jobs.TrainingData(tmp_path / "changed")
    with pytest.raises(
        mi.ConfigError, match=r"has files of case 3 \w+, but \w+ is given\. Fix: give the same data_dir"
    ):
        mi.jobs.cross_validate(**arguments(folder, data=data, input_dir=cases))


def test_other_folders_are_refused_and_nothing_is_fixed_before_the_first_fold(folder, tmp_path, monkeypatch):
    (tmp_path / "notes").touch()
    with pytest.raises(mi.ConfigError, match=r"contains notes but no cross_validation\.json.*Fix: give a new or empty"):
        mi.jobs.cross_validate(**arguments(folder, output_dir=tmp_path))
    reached = []
    monkeypatch.setattr(cross_validating, "train", lambda **options: reached.append(options) or 1 / 0)
    for steps in (1, 2):
        with pytest.raises(ZeroDivisionError):
            mi.jobs.cross_validate(**arguments(folder, output_dir=tmp_path / "cv", num_steps=steps))
    assert [(options["num_steps"], options["data"].fold) for options in reached] == [(1, 0), (2, 0)]


def test_a_case_in_two_folds_is_refused(folder, tmp_path):
    folds = [Fold(("0", "1", "2"), ("3", "4")), Fold(("0", "1", "4"), ("2", "3"))]
    write_splits(tmp_path / "splits.json", folds)
    data = mi.jobs.TrainingData(folder / "records", splits_file=tmp_path / "splits.json")
    with pytest.raises(mi.DataError, match=r"splits\.json: several folds hold out case 3, but a cross-validation"):
        mi.jobs.cross_validate(**arguments(folder, data=data, output_dir=tmp_path / "cv"))
    data = mi.jobs.TrainingData(folder / "records", splits_file=tmp_path / "splits.json", num_folds=3)
    with pytest.raises(mi.ConfigError, match=r"splits\.json: has 2 folds, but num_folds is 3"):
        mi.jobs.cross_validate(**arguments(folder, data=data, output_dir=tmp_path / "cv"))


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, mi.Interrupted), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_during_an_evaluation_ends_the_job_at_once(folder, tmp_path, monkeypatch, number, kind):
    shutil.copytree(folder / "cv", tmp_path / "cv")
    shutil.rmtree(tmp_path / "cv/fold_2/evaluation")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    reached = []

    def evaluate(**options):
        signal.raise_signal(number)
        reached.append("the next line")

    monkeypatch.setattr(cross_validating, "train", lambda **options: types.SimpleNamespace(stopped=None))
    monkeypatch.setattr(cross_validating, "evaluate", evaluate)
    with pytest.raises(kind, match="stopped while no network was training"):
        mi.jobs.cross_validate(**arguments(folder, output_dir=tmp_path / "cv", handle_signals=True))
    signal.signal(signal.SIGINT, before)
    assert not reached
    assert FoldRuns(tmp_path / "cv").finished(FOLDS) == [0, 1]


def by_hand(folder, number, flips=(), layout=ONE):
    """Returns the labels of a case from the mean of the probabilities of all folds, this mean, and single labels."""
    volume = read_volume(folder / f"cases/volume-{number}.nii")
    image = network_input(volume, SAMPLING)
    options = {"task": task(), "sizes": SAMPLING.grid, "layout": layout}
    networks = [predictor(model_dir=folder / f"cv/fold_{fold}", **options) for fold in range(FOLDS)]
    probabilities = np.stack([flipped(network, ["xyz".index(axis) for axis in flips])(image) for network in networks])
    assert np.ptp(probabilities, axis=0).max() > 1e-3  # the folds are different networks
    mean = probabilities.mean(axis=0)
    whole = networks[0].slices(SAMPLING.grid)
    where = volume.geometry, SAMPLING, volume.path
    labels = [sliced_labels(whole, one, *where).own for one in (mean, *probabilities)]
    return labels[0], mean, labels[1:]


@pytest.mark.parametrize(("flips", "layout"), [((), ONE), (("x", "z"), SPLIT)])
def test_an_ensemble_equals_the_mean_of_the_probabilities_of_its_folds(folder, tmp_path, flips, layout):
    expected, mean, single = by_hand(folder, 3, flips, layout)
    volume = read_volume(folder / "cases/volume-3.nii")
    runs = [folder / f"cv/fold_{fold}" for fold in range(FOLDS)]
    axes = ["xyz".index(axis) for axis in flips]
    network = trained_network(NetworkBuilder(task=task(), layout=layout), TrainedRuns(runs), [SAMPLING.grid], axes)
    for _ in range(2):  # the weights of the first fold come back for the next case
        np.testing.assert_array_equal(network(network_input(volume, SAMPLING)), mean)
    shared = {"task": task(), "model_dir": folder / "cv", "ensemble": True, "progress": False, "cleanup": "none"}
    shared |= {"probabilities": True, "uncertainty": True}
    written = mi.jobs.predict(**shared, input=folder / "cases", output=tmp_path / "out", flips=flips, layout=layout)
    probabilities, entropy, information = (
        np.asarray(nibabel.load(tmp_path / "out" / name / written[3].name).dataobj)
        for name in ("probabilities", "entropy", "mutual_information")
    )
    notes = {
        bytes(nibabel.load(tmp_path / "out" / name / written[3].name).header["descrip"]) for name in (".", "entropy")
    }
    assert [b" 3 runs " in note for note in notes] == [True]
    stored = np.asarray(nibabel.load(written[3]).dataobj)
    np.testing.assert_array_equal(probabilities.argmax(-1), stored)
    assert 0 < information.max() <= entropy.max() <= np.log(3)
    assert (tmp_path / "out/predictions.jsonl").read_text().count("mutual_information") >= 2 * len(written)
    assert mi.jobs.predict(**shared, input=folder / "cases", output=tmp_path / "out", flips=flips) == written
    np.testing.assert_array_equal(read_labels(written[3], volume), expected)
    if not flips:  # a single fold gives other labels
        assert any((labels != expected).any() for labels in single)


def test_an_ensemble_is_evaluated(folder, tmp_path):
    shared = {"task": task(), "model_dir": folder / "cv", "ensemble": True, "progress": False, "cleanup": "none"}
    scores = mi.jobs.evaluate(**shared, input_dir=folder / "cases", output_dir=tmp_path / "scores")
    assert len(scores) == 5
    volume = read_volume(folder / "cases/volume-2.nii")
    labels = read_labels(tmp_path / "scores/predictions/segmentation-2.nii.gz", volume)
    np.testing.assert_array_equal(labels, by_hand(folder, 2)[0])
    with pytest.raises(mi.ConfigError, match=r"fold 1: the other networks of the ensemble have trained on the cases"):
        mi.jobs.evaluate(**shared, input_dir=folder / "cases", output_dir=tmp_path / "other", fold=1)


def test_rules_for_components_are_chosen_on_all_folds(folder, tmp_path):
    pooled = json.loads((folder / "cv/metrics.json").read_text())
    rules = pooled["provenance"]["rules"]
    assert (rules["cleanup"], rules["dtype"], rules["window"]) == ([], "float32", [-512.0, 512.0])
    chosen, stored = pooled["cleanup"]["chosen"], json.loads((folder / "cv/cleanup.json").read_text())
    assert (chosen["num_cases"], chosen["dice"]) == (5, stored["dice"])
    for mask, dice in chosen["dice"].items():
        assert dice["without"] == pooled[mask]["dice_per_case"] <= dice["with"]
    assert "Rules chosen on these 5 held-out cases" in (folder / "cv/report.html").read_text()

    copy = shutil.copytree(folder / "cv", tmp_path / "cv")
    (copy / "cleanup.json").write_text('{"rules": [{"kind": "largest", "masks": ["liver"]}]}')
    given = {"task": task(), "input_dir": folder / "cases", "output_dir": tmp_path / "scores"}
    for options, names in (
        ({"model_dir": copy, "ensemble": True}, ["liver=largest"]),
        ({"model_dir": copy, "ensemble": True, "cleanup": "none"}, []),
        ({"model_dir": copy, "ensemble": True, "cleanup": "lesion=largest"}, ["lesion=largest"]),
        ({"model_dir": copy / "fold_0"}, []),
    ):
        assert open_images(EvaluateSettings(**given, **options)).cleanup.names == names

    run, given = copy / "fold_1", given | {"fold": 1, "progress": False}
    with pytest.raises(mi.ConfigError, match="choose_cleanup chooses the rules, but cleanup is none"):
        mi.jobs.evaluate(**given, model_dir=run, choose_cleanup=True, cleanup="none")
    mi.jobs.evaluate(**given, model_dir=run, choose_cleanup=True)
    assert json.loads((run / "cleanup.json").read_text())["num_cases"] == len(splits_of(folder)[1]["val"])
    (run / "cleanup.json").write_text('{"rules": [{"kind": "min_volume", "masks": ["liver"], "volume_ml": 1e6}]}')
    mi.jobs.evaluate(**given, model_dir=run)
    metrics = json.loads((tmp_path / "scores/metrics.json").read_text())
    assert metrics["cleanup"] == {"applied": ["liver=min_volume:1e+06"]}
    assert metrics["provenance"]["rules"]["cleanup"] == ["liver=min_volume:1e+06"]
    assert metrics["liver"]["dice_per_case"] == 0, "the rule removes everything"


def test_folders_that_form_no_ensemble_are_refused(folder, tmp_path, caplog):
    def predict(**changes):
        shared = {"task": task(), "model_dir": tmp_path / "cv", "ensemble": True, "progress": False}
        mi.jobs.predict(**shared | changes, input=folder / "cases/volume-0.nii", output=tmp_path / "out.nii.gz")

    with pytest.raises(mi.ConfigError, match="cv: this folder does not exist, so there is no ensemble"):
        predict()
    with pytest.raises(mi.ConfigError, match=r"this folder holds no folds \(fold_0, fold_1, \.\.\.\), so .*Fix: give"):
        predict(model_dir=folder / "cv/fold_0")
    shutil.copytree(folder / "cv", tmp_path / "cv")
    with pytest.raises(mi.CheckpointError, match="ckpt-3: this checkpoint belongs to another network"):
        predict(task=task(depth=3))
    path = tmp_path / "cv/fold_2/ckpt-3"
    for each in path.parent.glob("ckpt-3.*"):
        each.unlink()
    predict()
    assert "different numbers of steps (fold_0: 3, fold_1: 3, fold_2: 2)" in caplog.text
    facts = tmp_path / "cv/fold_1/run.json"
    facts.write_text(facts.read_text().replace("x:8,y:8,z:8", "x:8,y:8,z:10"))
    with pytest.raises(
        mi.ConfigError, match=r"fold_1: was trained with resolution x:8,y:8,z:10, but .*fold_0 with x:8"
    ):
        predict()
    for each in (tmp_path / "cv/fold_1").glob("ckpt-*.index"):
        each.unlink()
    with pytest.raises(mi.CheckpointError, match=r"fold_1: fold 1 has no checkpoint yet\. Fix: train this fold"):
        predict()


def test_several_processes_cross_validate_and_predict_together(folder):
    (folder / "job.gin").write_text(GIN)
    setup = ["--mesh_shape", "rows:2", "--layout", "x:rows"]
    folders = ["--data_dir", folder / "records", "--input_dir", folder / "cases", "--gin_file", folder / "job.gin"]
    words = [*folders, "--num_steps", 2, "--num_folds", 2, "--workers", 1]
    out = launch(2, "cross_validate", *words, *setup, "--output_dir", folder / "two")
    assert out.count("Pooled over all 2 folds: each of 5 cases once.") == 1
    paths = ["--model_dir", folder / "two", "--ensemble", "--input", folder / "cases", "--output"]
    launch(2, "predict", *paths, folder / "two_out", *setup)
    launch(1, "predict", *paths, folder / "one_out", "--mesh_shape=", "--layout=")
    for number in range(5):
        volume = read_volume(folder / f"cases/volume-{number}.nii")
        labels = [read_labels(folder / f"{name}_out/segmentation-{number}.nii.gz", volume) for name in ("two", "one")]
        np.testing.assert_array_equal(*labels)


@pytest.mark.parametrize("text", ["{}", '{"settings": [], "cases": {}, "pooled": {}}', '{"settings": {}, "cases": {}}'])
def test_a_damaged_record_of_the_cross_validation_is_one_error(tmp_path, text):
    (tmp_path / "cross_validation.json").write_text(text)
    damaged = r"cross_validation\.json: is damaged.*\. Fix: give another output_dir"
    with pytest.raises(mi.DataError, match=damaged) as error:
        FoldRuns(tmp_path).check({}, [], None)
    assert error.value.settings == ("output_dir",)
