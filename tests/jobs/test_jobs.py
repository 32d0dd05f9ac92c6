"""The jobs compute the same results as the commands, with objects instead of flags and gin files."""

import ast
import json
import signal
from pathlib import Path

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.files.provenance.digests import digest
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adam
from tests import tiny_runs
from tests.commands import run
from tests.data.reading import read_labels, read_volume
from tests.scores import read_losses
from tests.tiny_runs import SPLIT, VOLUMES, train_volumes


def settings(**changes):
    given = {"task": VOLUMES, "optimizer": Adam(0.01), "batch_size": 2, "dtype": "float64", "checkpoint_every": 2}
    return given | {"progress": False} | changes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.volumes(tmp_path_factory)


@pytest.mark.slow
def test_train_equals_the_command(folder, tmp_path):
    options = settings(data=folder / "records", model_dir=tmp_path, num_steps=4, layout=SPLIT, seed=3)
    mi.jobs.train(**options)
    assert read_losses(tmp_path) == read_losses(folder / "run")
    facts = [json.loads((run / "run.json").read_text()) for run in (folder / "run", tmp_path)]
    (command,), (job,) = (own["provenance"].pop("starts") for own in facts)
    assert facts[0] == facts[1]
    assert command.pop("configuration_sha256") == digest(folder / "run/config.gin")
    assert job.pop("configuration_sha256") is None
    assert command == job
    assert (command["mesh_shape"], command["layout"]) == ("rows:2,cols:2", "x:rows,y:cols")


@pytest.mark.slow
def test_a_job_resumes_a_run_of_the_command(folder, tmp_path):
    assert run(*train_volumes(folder, tmp_path), "--num_steps", 2, "--seed", 3) == 0
    options = settings(data=folder / "records", model_dir=tmp_path, num_steps=4, layout=SPLIT, seed=3)
    history = mi.jobs.train(**options)
    np.testing.assert_allclose(read_losses(tmp_path), read_losses(folder / "run"), rtol=1e-9)
    assert history.losses["loss"] == read_losses(tmp_path)


@pytest.mark.slow
def test_a_run_of_train_is_evaluated_and_used_without_its_resolution(folder, tmp_path):
    facts = json.loads((folder / "run/run.json").read_text())
    assert sum(facts.pop("class_frequencies")) == pytest.approx(1, abs=1e-3)
    provenance = facts.pop("provenance")
    records = {
        case["case"]: case["digest"] for case in json.loads((folder / "records/dataset.json").read_text())["cases"]
    }
    assert provenance["training_cases"] == records
    assert facts == {"resolution": "x:12,y:12,z:12", "spacing": "", "fold_digest": None}
    shared = {"task": VOLUMES, "model_dir": folder / "run", "dtype": "float64", "progress": False}
    scores = mi.jobs.evaluate(**shared, input_dir=folder / "cases", output_dir=tmp_path / "scores", layout=SPLIT)
    assert [score.key for score in scores] == ["0", "1", "2", "3"]
    (written,) = mi.jobs.predict(**shared, input=folder / "cases/volume-1.nii.gz", output=tmp_path / "one.nii.gz")
    assert written.read_bytes() == (tmp_path / "scores/predictions/segmentation-1.nii.gz").read_bytes()


@pytest.mark.slow
def test_segmentations_are_written_as_ome_zarr(folder, tmp_path):
    shared = {"task": VOLUMES, "model_dir": folder / "run", "dtype": "float64", "progress": False}
    shared["output_format"] = "ome-zarr"
    mi.jobs.evaluate(**shared, input_dir=folder / "cases", output_dir=tmp_path / "scores")
    written = mi.jobs.predict(**shared, input=folder / "cases", output=tmp_path / "out")
    assert [path.name for path in written] == [f"segmentation-{number}.ome.zarr" for number in range(4)]
    for path in written:
        volume = read_volume(folder / "cases" / f"volume-{path.name[13]}.nii.gz")
        evaluated = tmp_path / "scores/predictions" / path.name
        np.testing.assert_array_equal(read_labels(path, volume), read_labels(evaluated, volume))


@pytest.mark.slow
def test_held_out_cases_and_folds(folder, tmp_path):
    data = mi.jobs.TrainingData(folder / "records", fold=0, num_folds=3)
    options = settings(data=data, model_dir=tmp_path / "run", num_steps=2, monitor="liver", eval_every=1)
    mi.jobs.train(**options)
    assert (tmp_path / "run/eval/scores.csv").is_file()
    assert list((tmp_path / "run/best").glob("ckpt-*.index"))
    other = mi.jobs.TrainingData(folder / "records", fold=1, num_folds=3)
    with pytest.raises(mi.ConfigError, match=r"began with another fold.*Fix: give another model_dir"):
        mi.jobs.train(**options | {"data": other})


def test_signals_are_left_alone_unless_asked_for(folder, tmp_path):
    seen = []

    def note():
        seen.append(signal.getsignal(signal.SIGTERM))

    common = settings(data=folder / "records", num_steps=1)
    mi.jobs.train(**common, model_dir=tmp_path / "alone", stop=note)
    assert set(seen) == {signal.getsignal(signal.SIGTERM)}

    def ask():
        if (tmp_path / "asked/ckpt-2.index").is_file():
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(mi.Interrupted, match="SIGTERM: stopped after 3 steps"):
        mi.jobs.train(**common | {"num_steps": 9}, model_dir=tmp_path / "asked", stop=ask, handle_signals=True)


def test_stop_ends_a_run_with_a_checkpoint(folder, tmp_path):
    reasons = iter([None, None, "enough"])
    options = settings(data=folder / "records", num_steps=9, stop=lambda: next(reasons))
    history = mi.jobs.train(**options, model_dir=tmp_path)
    assert history.stopped.startswith("enough: stopped after 2 steps")
    assert (tmp_path / "ckpt-2.index").is_file()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"num_steps": 0}, "num_steps must be an int of at least 1, not 0."),
        ({"batch_size": True}, "batch_size must be an int of at least 1, not True."),
        ({"dtype": "float23"}, "dtype = 'float23' is not known. Did you mean 'float32'? Fix: choose one of float32, "),
        ({"data": "nowhere"}, "nowhere: this folder of records does not exist"),
        ({"task": object()}, "task is of class object, which cannot be called as task.inputs("),
        ({"optimizer": Adam}, "optimizer must be an Optimizer of mi.training.optimizers, not <class "),
        ({"profile_steps": "3"}, "profile_steps '3' is not a range of steps"),
        ({"monitor": "sharpness"}, "monitor = 'sharpness' is not a measure of the evaluation, which has liver, lesion"),
    ],
)
def test_mistakes_are_reported_by_the_names_of_arguments(folder, tmp_path, change, text):
    given = {"data": mi.jobs.TrainingData(folder / "records", eval_dir=folder / "records")}
    with pytest.raises(mi.MtfImagingError) as error:
        mi.jobs.train(**settings(model_dir=tmp_path / "new", **given) | change)
    assert text in str(error.value)
    assert not (tmp_path / "new").exists()


def test_explain_search_and_bench_agree_with_one_another():
    shared = {"task": VOLUMES, "resolution": 16, "batch_size": 2}
    explained = mi.jobs.explain(**shared, layout=SPLIT, hardware="h200")
    searched = mi.jobs.search(**shared, num_devices=4, hardware="h200", progress=False)
    (same,) = (result for result in searched.found if result.layout == SPLIT and not result.recompute)
    assert (same.plan.memory, same.plan.moved) == (explained.plan.memory, explained.plan.moved)
    assert same.time == explained.time
    assert "mesh rows:2,cols:2, layout x:rows,y:cols: 4 processors on 4 devices" in mi.jobs.report(explained)
    assert "rows:2,cols:2" in mi.jobs.report(searched)
    with pytest.raises(TypeError, match="report takes the result of explain, search or bench, not of class str"):
        mi.jobs.report("explained")


def test_explain_computes_the_cost_of_a_training():
    shared = {"task": VOLUMES, "resolution": 16, "layout": SPLIT}
    explained = mi.jobs.explain(**shared, hardware="h200", num_steps=1000, price_per_hour=3)
    cost = explained.recipe_cost
    assert cost.cost == cost.cost_per_1000_steps == pytest.approx(1000 * explained.time.total / 3600 * 4 * 3)
    assert "\n  1,000 steps: " in mi.jobs.report(explained)
    assert mi.jobs.explain(**shared, num_steps=1000).recipe_cost is None
    for wrong, message in (
        ({"num_steps": 0}, "num_steps must be an int of at least 1, not 0"),
        ({"price_per_hour": True}, "price_per_hour must be a number above 0, not True"),
        ({"price_per_hour": 1}, "price_per_hour = 1 needs hardware"),
    ):
        with pytest.raises(mi.ConfigError, match=message):
            mi.jobs.explain(**shared, **wrong)


def test_bench_names_a_class_that_cannot_be_pickled():
    class Local(LiverTumorSegmentation):
        pass

    with pytest.raises(mi.ConfigError, match=r"every setup runs in a separate process, .* Fix: define its class"):
        mi.jobs.bench(task=Local(UNet3D(base_filters=2, depth=1, convs=1)), resolution=8, steps=1, progress=False)


@pytest.mark.slow
def test_bench_compares_layouts():
    task = VOLUMES
    result = mi.jobs.bench(task=task, resolution=16, layouts=[mi.Layout(), SPLIT], steps=2, progress=False)
    assert result.equal
    assert [row.setup.name for row in result.rows] == ["one processor", "rows:2,cols:2/x:rows,y:cols"]
    assert "rows:2,cols:2/x:rows,y:cols" in mi.jobs.report(result)


def test_the_jobs_import_neither_flags_nor_gin():
    for path in Path(mi.jobs.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"gin", "absl"}, path.name
