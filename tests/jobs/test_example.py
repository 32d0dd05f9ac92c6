"""The example in docs/guides/notebooks.md runs without changes."""

import re
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "docs" / "guides" / "notebooks.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Runs the example; returns its folder and its global names."""
    (code,) = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)
    folder, names = tmp_path_factory.mktemp("example"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(code, str(DOC), "exec"), names)
    return folder, names


@pytest.mark.slow
def test_it_trains_scores_and_segments(example):
    folder, names = example
    losses = [float(line.split(",")[1]) for line in (folder / "run/losses.csv").read_text().splitlines()[1:]]
    assert len(losses) == 20
    assert losses[-1] == pytest.approx(names["measures"]["loss"])
    assert losses[-1] < losses[0]
    assert len(names["scores"]) == 4
    for name in ("evaluation/report.html", "evaluation/metrics.json", "segmentation-0.nii.gz", "run/run.json"):
        assert (folder / name).is_file()


@pytest.mark.slow
def test_calling_it_again_finds_nothing_to_do(example, monkeypatch):
    folder, names = example
    monkeypatch.chdir(folder)
    again = {"task": names["task"], "data": "records", "model_dir": "run", "num_steps": 20}
    assert names["mi"].jobs.train(**again) == {}


def test_every_function_of_the_table_exists_with_these_arguments():
    import inspect

    from mtf_imaging import jobs

    rows = re.findall(r"^\| `(\w+)\((.*?)\)`", DOC.read_text(), re.MULTILINE)
    assert {name for name, _ in rows} == {name for name in jobs.__all__ if name[0].islower()}
    for name, arguments in rows:
        parameters = inspect.signature(getattr(jobs, name)).parameters
        for argument in re.findall(r"(\w+)=", arguments):
            assert parameters[argument].kind is inspect.Parameter.KEYWORD_ONLY
