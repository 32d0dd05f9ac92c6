"""The study of context: the course of a training, its budgets, and mistakes."""

import pytest

import mtf_imaging as mi
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.context_study.contenders import CONTENDERS, find_contenders
from mtf_imaging.jobs.context_study.course import Course
from mtf_imaging.models.unet3d import Segmentation, UNet3D
from mtf_imaging.settings import data


def train(num_steps, budget, seconds, score_seconds=100.0):
    """Returns the course of a training whose steps take some CPU seconds each, and the number of its steps."""
    now = [5.0]

    def score():
        now[0] += score_seconds
        return {"mask": 0.5}

    course = Course(score, num_steps, budget, clock=lambda: now[0])
    course.begin(0)
    step = 0
    while course.stop() is None:
        assert step < 1000
        now[0] += seconds
        course.after(step, {}, [], 0.0, 0.0)
        step += 1
    return course, step


def test_the_budget_of_whole_volumes_is_the_time_of_their_steps():
    course, steps = train(num_steps=20, budget=None, seconds=2.0)
    assert steps == 20
    assert course.at_steps == course.at_budget
    assert (course.at_budget.step, course.at_budget.cpu_seconds) == (20, 40.0)  # without the scores
    assert [point.step for point in course.points] == [*range(2, 21, 2)]


def test_cheap_steps_are_scored_after_equal_steps_and_in_equal_time():
    course, steps = train(num_steps=20, budget=40.0, seconds=0.5)
    assert steps == 80
    assert (course.at_steps.step, course.at_steps.cpu_seconds) == (20, 10.0)
    assert (course.at_budget.step, course.at_budget.cpu_seconds) == (80, 40.0)
    assert len(course.points) <= 12
    assert {10.0, 40.0} < {point.cpu_seconds for point in course.points}


def test_costly_steps_end_with_the_steps():
    course, steps = train(num_steps=20, budget=10.0, seconds=1.0)
    assert steps == 20
    assert (course.at_budget.step, course.at_steps.step) == (10, 20)


def test_patches_are_at_most_as_large_as_the_volume():
    assert CONTENDERS["patch_64"].patch_of((192, 24, 64)) == (64, 24, 64)
    assert CONTENDERS["whole"].patch_of((192, 24, 64)) is None


def test_the_setting_names_all_contenders_and_whole_comes_first():
    assert tuple(CONTENDERS) == data.CONTENDERS
    assert [contender.name for contender in find_contenders(["half", "whole"])] == ["whole", "half"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (
            ["whole", "patch_65"],
            r"contender 'patch_65' is not known\. Did you mean 'patch_96'\? Fix: choose from whole, ",
        ),
        (["patch_64"], r"whole is missing, whose CPU time is the budget of all others\. Fix: add whole\."),
    ],
)
def test_mistakes_are_reported(names, text):
    with pytest.raises(ConfigError, match=text):
        find_contenders(names)


@pytest.mark.slow
def test_a_study_scores_every_contender_at_full_resolution_and_resumes(tmp_path):
    task = Segmentation(UNet3D(base_filters=2, depth=2, norm="none", dropout_rate=0.0))
    own = {"task": task, "kind": "context", "output_dir": tmp_path, "num_cases": 2, "num_steps": 2, "progress": False}
    own |= {"phantoms": ["texture"], "seeds": [1]}
    runs = mi.jobs.study(**own, contenders=["whole", "half"])
    assert [(run.contender, run.at_steps.step) for run in runs] == [("whole", 2), ("half", 2)]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("texture/*/1.json")}
    again = mi.jobs.study(**own, contenders=["whole", "half", "patch_32"])
    assert [run.contender for run in again] == ["whole", "patch_32", "half"]
    assert [again[0], again[2]] == runs
    assert before.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.glob("texture/*/1.json")}.items()
    assert {path.name for path in tmp_path.glob("context.*")} == {"context.csv", "context.md", "context.png"}
    assert not [*tmp_path.glob("texture/*/*_model")]
    with pytest.raises(ConfigError, match=r"contains a study with num_steps 2, but 3 is given"):
        mi.jobs.study(**own | {"num_steps": 3}, contenders=["whole"])


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("resolution", {"phantoms": ("marker",)}),
        ("resolution", {"contenders": ["whole"]}),
        ("resolution", {"workers": 1}),
        ("context", {"resolutions": (32,)}),
    ],
)
def test_settings_of_the_other_kind_are_refused(tmp_path, kind, changes):
    (name,) = changes
    with pytest.raises(ConfigError, match=f"{name} = .* has no effect on a study of {kind}. Fix: "):
        data.StudyCases(kind=kind, output_dir=tmp_path, **changes)
    data.StudyCases(kind=kind, output_dir=tmp_path, resolutions=[32, 64, 96])
