"""Evaluation of objects in batches, and over flips and scales: the results under any layout."""

import json

import pytest

import mtf_imaging as mi
from tests.jobs.object_runs import SPLIT, evaluate_run, predict_run, write_scored_run
from tests.scores import read_scores


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_scored_run(tmp_path_factory.mktemp("objects"))


@pytest.fixture
def evaluate(folder, tmp_path):
    return lambda **options: evaluate_run(folder, **{"output_dir": tmp_path / "scores"} | options)


@pytest.fixture
def predict(folder, tmp_path):
    return lambda **options: predict_run(folder, **{"output": tmp_path / "out"} | options)


@pytest.mark.slow
def test_batches_change_no_results(folder, evaluate, predict, tmp_path):
    """Three images in batches of two; the second batch is filled up."""
    (one,), (two,) = (predict(output=tmp_path / f"predicted{size}", eval_batch_size=size) for size in (1, 2))
    assert one.read_text() == two.read_text() != "[]\n"
    for size, layout in ((2, mi.Layout.parse("")), (2, SPLIT), (3, mi.Layout.parse("rows:3", "batch:rows"))):
        out = tmp_path / f"{size}_{layout}".replace("/", "_")
        evaluate(output_dir=out, eval_batch_size=size, layout=layout, num_pictures=1)
        assert (out / "detections.json").read_text() == (folder / "scores/detections.json").read_text()
        assert read_scores(out) == read_scores(folder / "scores")


@pytest.mark.slow
def test_flips_and_scales_are_exact_under_any_layout(evaluate, predict, tmp_path):
    options = {"flips": ("width",), "scales": (0.75, 1.0)}
    evaluate(**options, eval_batch_size=2)
    evaluate(**options, output_dir=tmp_path / "split", layout=SPLIT)
    (path,) = predict(**options)
    evaluated = json.loads((tmp_path / "scores/detections.json").read_text())
    assert evaluated == json.loads((tmp_path / "split/detections.json").read_text())
    assert evaluated == [one for one in json.loads(path.read_text()) if one["image_id"] > 20]
    evaluate(output_dir=tmp_path / "plain")
    assert evaluated != json.loads((tmp_path / "plain/detections.json").read_text())
    with pytest.raises(mi.ConfigError, match=r"flips = \('x',\): not axes of the images\. Fix: list each of"):
        evaluate(flips=("x",), output_dir=tmp_path / "other")
