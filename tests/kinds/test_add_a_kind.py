"""A made-up kind of data: the page "A kind of data of your own" shows its code, which runs here."""

import json
import tokenize
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.kinds.all_kinds import KINDS, check_settings
from tests import pages

PAGE = Path(__file__).parents[2] / "docs/guides/add_a_kind.md"
SIZES, NAMES = (8, 6), ("a", "b", "c")
LIMIT = 150
SETTINGS = {"batch_size": 2, "num_steps": 2, "progress": False, "class_frequencies": None}


class Threshold:
    """A task that separates heights at a learned height."""

    def inputs(self, batch_size, sizes, dtype="float32", labels=True):
        pixels = f"batch:{batch_size},x:{sizes[0]},y:{sizes[1]}"
        image = {"image": (f"{pixels},channels:1", dtype)}
        return {**image, "labels": (pixels, "int32")} if labels else image

    def logits(self, image):
        return mi.layers.Conv(2, 1, output_name="classes", name="classes")(image)

    def loss(self, image, labels):
        logits = self.logits(image)
        return mi.ops.weighted_cross_entropy(logits, labels, logits.shape.dims[-1], (1.0, 1.0)), {}

    def predict(self, image):
        logits = self.logits(image)
        return mi.ops.softmax(logits, logits.shape.dims[-1])


@pytest.fixture(scope="module")
def heights():
    """Returns the module of the page, with its kind in the table of kinds."""
    module, others = ModuleType("heights"), dict(KINDS)
    exec(compile(pages.files(PAGE)["heights.py"], str(PAGE), "exec"), vars(module))
    kind = module.HeightKind()
    KINDS.clear()
    KINDS.update({kind.name: kind, **others})
    yield module
    KINDS.clear()
    KINDS.update(others)


@pytest.fixture(scope="module")
def folder(heights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heights")
    (folder / "maps").mkdir()
    for number, name in enumerate(NAMES):
        values = np.random.default_rng(number).normal(size=SIZES).astype(np.float32)
        np.save(folder / f"maps/{name}.npy", values)
        np.save(folder / f"maps/{name}.labels.npy", (values > 0).astype(np.int32))
    data = mi.jobs.TrainingData(folder / "maps", heights.Heights())
    mi.jobs.train(task=Threshold(), data=data, model_dir=folder / "run", **SETTINGS)
    return folder


def job(folder, **more):
    return {"task": Threshold(), "model_dir": folder / "run", "progress": False, **more}


def test_the_code_is_short():
    text = pages.files(PAGE)["heights.py"].splitlines(keepends=True)
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(iter(text).__next__)
    assert len({token.start[0] for token in tokens if token.type not in ignored}) <= LIMIT


def test_the_kind_trains_predicts_and_evaluates_with_a_setting_of_its_own(folder):
    assert json.loads((folder / "run/run.json").read_text())["heights"] == {"classes": 2}
    flat = mi.jobs.predict(**job(folder), input=folder / "maps", output=folder / "flat", sea_level=100.0)
    assert [path.name for path in flat] == [f"{name}.npy" for name in NAMES]
    assert {len(np.unique(np.load(path))) for path in flat} == {1}  # every pixel has the same height
    plain = mi.jobs.predict(**job(folder), input=folder / "maps", output=folder / "plain", eval_batch_size=2)
    scores = mi.jobs.evaluate(**job(folder), input_dir=folder / "maps", output_dir=folder / "scores")
    for path, (key, score) in zip(plain, scores, strict=True):
        labels = np.load(folder / f"maps/{key}.labels.npy")
        assert score == np.mean(np.load(path) == labels)
        np.testing.assert_array_equal(np.load(folder / f"scores/predictions/{key}.npy"), np.load(path))


def test_a_folder_is_completed_only_with_the_same_value_of_the_setting(folder):
    shared = job(folder, input=folder / "maps", output=folder / "again")
    mi.jobs.predict(**shared, sea_level=0.5)
    mi.jobs.predict(**shared, sea_level=0.5)
    with pytest.raises(mi.DataError, match="sea_level"):
        mi.jobs.predict(**shared, sea_level=1.0)


def test_the_rule_refuses_the_settings_of_other_kinds(folder):
    with pytest.raises(mi.ConfigError, match=r"flips = .* has no effect on heights: it is a setting of volumes"):
        mi.jobs.predict(**job(folder, input=folder / "maps", output=folder / "flipped", flips=("x",)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'sea_levels'"):
        mi.jobs.predict(**job(folder, input="maps", output="out", sea_levels=1.0))


@pytest.mark.parametrize("kind", ["volumes", "photos", "objects", "arrays"])
def test_other_kinds_refuse_the_setting(heights, kind):
    own = heights.HeightSettings(sea_level=2.0)
    with pytest.raises(mi.ConfigError, match=r"sea_level = 2\.0 has no effect on .*: it is a setting of heights\. Fix"):
        check_settings(own, KINDS[kind])
