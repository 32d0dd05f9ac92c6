"""A new run starts from the frequencies of its labels, and keeps them when it resumes."""

import json
import re

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.class_frequencies import class_frequencies
from mtf_imaging.data.records.label_counts import count_labels
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.jobs.data.class_frequencies import resolve_frequencies
from mtf_imaging.jobs.data.folds import resolve_fold
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.models.class_biases import softmax_biases
from mtf_imaging.training.optimizers import SGD
from tests import tiny_runs
from tests.commands import run
from tests.tiny_runs import VOLUMES, train_volumes

OUTPUTS = [[0], [1], [2]]
BIAS = "program/_masters/_named/unet3d.Sclasses.Sbias/.ATTRIBUTES/VARIABLE_VALUE"
# Steps of SGD with a rate of 0 leave the first biases in the checkpoint.
SETTINGS = {
    "task": VOLUMES,
    "optimizer": SGD(0.0),
    "checkpoint_every": 1,
    "progress": False,
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return tiny_runs.volumes(tmp_path_factory) / "records"


def first_biases(model_dir):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(model_dir))
    return reader.get_tensor(BIAS)


def test_a_run_starts_from_the_frequencies_of_its_training_cases(records, tmp_path):
    data = mi.jobs.TrainingData(records, fold=0, num_folds=3)
    mi.jobs.train(**SETTINGS, data=data, model_dir=tmp_path / "run", num_steps=1)
    facts = read_facts(tmp_path / "run")
    fold = resolve_fold(data, tmp_path / "other").data
    want = class_frequencies(count_labels(fold.data_dir), OUTPUTS)
    assert isinstance(fold.data_dir, Subset)
    assert tuple(facts.class_frequencies) == want != class_frequencies(count_labels(records), OUTPUTS)
    np.testing.assert_allclose(first_biases(tmp_path / "run"), softmax_biases(want), rtol=1e-6)


def test_frequencies_can_be_given_or_left_out(records, tmp_path):
    common = SETTINGS | {"data": records, "num_steps": 1}
    mi.jobs.train(**common, model_dir=tmp_path / "given", class_frequencies=(0.5, 0.25, 0.25))
    np.testing.assert_allclose(first_biases(tmp_path / "given"), softmax_biases((0.5, 0.25, 0.25)), rtol=1e-6)
    mi.jobs.train(**common, model_dir=tmp_path / "none", class_frequencies=None)
    assert not first_biases(tmp_path / "none").any()
    assert "class_frequencies" not in (tmp_path / "none/run.json").read_text()


def test_a_run_that_resumes_keeps_its_frequencies(records, tmp_path, monkeypatch):
    mi.jobs.train(**SETTINGS, data=records, model_dir=tmp_path, num_steps=1)
    before = read_facts(tmp_path).class_frequencies
    monkeypatch.setattr("mtf_imaging.data.records.data_set.count_labels", lambda *_: pytest.fail("counted again"))
    mi.jobs.train(**SETTINGS, data=records, model_dir=tmp_path, num_steps=2)
    assert read_facts(tmp_path).class_frequencies == before
    facts = json.loads((tmp_path / "run.json").read_text())
    del facts["class_frequencies"]  # as in a run that began with biases of 0
    (tmp_path / "run.json").write_text(json.dumps(facts))
    data = mi.jobs.TrainingData(records)
    assert resolve_frequencies("data", SETTINGS["task"], data, tmp_path) is None


def test_other_tasks_and_data_sets_start_from_zero(records, tmp_path):
    class Own:
        def sizes(self, data_dir):
            return (4, 4, 4)

    class Counted(Own):
        def label_counts(self, data_dir):
            return np.array([60, 30, 10] + [0] * 253)

    task = SETTINGS["task"]
    assert resolve_frequencies("data", task, mi.jobs.TrainingData(records, Own()), tmp_path) is None
    assert resolve_frequencies("data", task, mi.jobs.TrainingData(records, Counted()), tmp_path) == [0.6, 0.3, 0.1]
    assert resolve_frequencies("data", object(), mi.jobs.TrainingData(records), tmp_path) is None
    assert resolve_frequencies("data", task, mi.jobs.TrainingData(records), tmp_path) is not None


@pytest.mark.parametrize("setting", ["dat", 0.5, (0.5, "a"), (True, False)])
def test_invalid_settings_are_refused(records, tmp_path, setting):
    with pytest.raises(mi.ConfigError, match=r"class_frequencies .*(choose one of data|must be a tuple in which)"):
        mi.jobs.train(**SETTINGS, data=records, model_dir=tmp_path / "run", class_frequencies=setting)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_command_saves_the_frequencies(records, tmp_path, capsys):
    command = train_volumes(records.parent, tmp_path / "run")
    run(*command, "--num_steps", "1")
    config = (tmp_path / "run/config.gin").read_text()
    want = class_frequencies(count_labels(records), OUTPUTS)
    bound = re.findall(r"^train\.class_frequencies = \(?([\d., e\n\\-]+)\)?$", config, re.MULTILINE)
    assert tuple(float(number) for number in re.findall(r"[\d.e-]+", bound[-1])) == want
    capsys.readouterr()
    run(*command, "--num_steps", "2")
    assert "changed configuration: train.num_steps = 2\n" in capsys.readouterr().err
