"""Thresholds of probabilities: which labels they give, and their choice on cases of a network that is too cautious."""

import itertools
import json

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup import choosing
from mtf_imaging.evaluation.cleanup.choosing import choose_rules
from mtf_imaging.evaluation.cleanup.cleanup import Cleanup, as_cleanup
from mtf_imaging.evaluation.cleanup.rule_text import parse_rules
from mtf_imaging.evaluation.cleanup.stored_choice import read_rules, save_rules
from mtf_imaging.evaluation.cleanup.thresholds import (
    CANDIDATES,
    factors,
    pooled_reliability,
    read_open_voxels,
    save_open_voxels,
)
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.rules import Scoring
from mtf_imaging.evaluation.pairs.running import in_thread
from mtf_imaging.evaluation.volume_scores.overlap import label_overlaps
from tests.data.oriented import store_nifti
from tests.kinds.volumes import evaluate, predict_cases

REGIONS = Description(("MR",), {"edema": 1, "core": 2}, {"whole": (1, 2), "core": (2,)}, region_order=(1, 2), ignore=3)
ORGANS = Description(("MR",), {"spleen": 1, "cyst": 2}, {"cyst": (2,), "spleen": (1,)})
SHAPE = (8, 7, 6)


def probabilities_of(description, seed):
    """Returns random probabilities, most of which leave a label open."""
    logits = np.random.default_rng(seed).normal(0, 3, (*SHAPE, description.num_outputs)).astype(np.float32)
    if description.has_regions:
        return 1 / (1 + np.exp(-logits))
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def halves(probabilities):
    """Yields a volume in two slabs."""
    for part in (slice(0, 3), slice(3, 8)):
        yield (part, slice(0, 7), slice(0, 6)), probabilities[part]


def test_a_threshold_is_the_probability_above_which_a_mask_wins_against_another_label():
    weights = Cleanup(cleanup_rules="lesion=threshold:0.2").resolve(LITS).factors(LITS)
    lesion = np.array([0.19, 0.21])
    pairs = np.stack([0 * lesion, 1 - lesion, lesion], -1)
    assert LITS.to_labels(pairs * weights).tolist() == [1, 2]
    weights = Cleanup(cleanup_rules="whole=threshold:0.7").resolve(REGIONS).factors(REGIONS)
    assert REGIONS.to_labels(np.array([[0.69, 0.3], [0.71, 0.3]]) * weights).tolist() == [0, 1]
    # The liver includes its lesions, whose own threshold replaces that of the liver.
    weights = Cleanup(cleanup_rules="liver=threshold:0.1,lesion=threshold:0.2").resolve(LITS).factors(LITS)
    np.testing.assert_allclose(weights, [1, 9, 4], rtol=1e-6)
    assert Cleanup(cleanup_rules="liver=largest").resolve(LITS).factors(LITS) is None


@pytest.mark.parametrize("description", [LITS, REGIONS], ids=["labels", "regions"])
def test_the_open_voxels_of_a_case_give_the_labels_of_all_thresholds(description, tmp_path):
    probabilities = probabilities_of(description, 0)
    save_open_voxels(tmp_path / "1.npz", halves(probabilities), np.zeros(SHAPE, np.uint8), description)
    parts = [*read_open_voxels(tmp_path / "1.npz")]
    without = description.to_labels(probabilities)
    assert [opened.region for opened in parts] == [region for region, _ in halves(probabilities)]
    assert 0.3 < sum(len(opened.probabilities) for opened in parts) / without.size < 1
    for pair in itertools.product(CANDIDATES, repeat=2):
        text = ",".join(f"{name}=threshold:{value}" for name, value in zip(description.masks, pair, strict=True))
        rules = parse_rules(text, description)
        weights = Cleanup(rules=rules).factors(description)
        labels = without.copy()
        for opened in parts:
            before = without[opened.region][opened.is_open]
            labels[opened.region][opened.is_open] = opened.changed(before, rules, description)
            assert opened.changed(before, (), description) is before
        expected = description.to_labels(probabilities * weights)
        assert (labels != expected).mean() < 0.003  # float16 rounds odds close to a tie


def cautious(reference):
    """Returns probabilities that are too small: 0.25 for lesions, and 0.15 for the voxels next to them."""
    lesion = 0.25 * (reference == 2) + 0.15 * (np.roll(reference, 1, 2) == 2) * (reference != 2)
    liver = 0.9 * (reference > 0) * (1 - lesion)
    return np.stack([1 - lesion - liver, liver, lesion], -1).astype(np.float32)


def write_case(folder, number, description=LITS, far=(1, 0, 0)):
    """Writes a case of the cautious network, with probabilities in a corner: its labels, and its open voxels."""
    reference = np.zeros(SHAPE, np.uint8)
    reference[1:7, 1:6, :] = 1
    reference[2 : 4 + number % 3, 2:4, 1:3] = 2
    probabilities = cautious(reference)
    probabilities[0, 0, 5] = far
    paths = [folder / f"{name}-{number}.nii" for name in ("prediction", "segmentation")]
    for path, labels in zip(paths, (description.to_labels(probabilities), reference), strict=True):
        nibabel.save(nibabel.Nifti1Image(labels, np.diag([3.0, 3.0, 3.0, 1.0])), path)
    opened = folder / f"{number}.npz"
    save_open_voxels(opened, halves(probabilities), reference, description)
    return Pair(str(number), *paths, open_voxels=opened)


def test_the_best_threshold_of_a_cautious_network_is_chosen(tmp_path):
    pairs = [write_case(tmp_path, number) for number in range(6)]
    choice = choose_rules(pairs, in_thread, Scoring(LITS))
    assert [str(rule) for rule in choice.rules] == ["lesion=threshold:0.2"]
    assert choice.without["lesion"] == 0
    assert choice.chosen == choice.cross_validated == {"liver": 1, "lesion": 1}
    save_rules(tmp_path, choice)
    assert read_rules(tmp_path, LITS) == choice.rules
    assert as_cleanup("none").resolve(LITS, tmp_path).factors(LITS) is None
    own = pooled_reliability(pairs, LITS)
    assert 0.2 < own.expected_volume("lesion") < 0.5 < 0.8 < own.expected_volume("liver") < 1
    chosen_without = choose_rules(
        [Pair(one.key, one.prediction, one.reference) for one in pairs], in_thread, Scoring(LITS)
    )
    assert chosen_without.rules == ()


@pytest.mark.parametrize("text", ["", "lesion=threshold:0.3"])
def test_the_slabs_of_a_case_predict_the_dice_of_each_threshold(tmp_path, text):
    pair = write_case(tmp_path, 1)
    reference = np.asarray(nibabel.load(pair.reference).dataobj)
    probabilities = cautious(reference)
    before = parse_rules(text, LITS)
    candidates = [rule for value in CANDIDATES for rule in parse_rules(f"lesion=threshold:{value}", LITS)]
    tables = choosing._measure(pair, rules=before, candidates=candidates, scoring=Scoring(LITS))
    dice = []
    for rules in (before, *((*before, rule) for rule in candidates)):
        weights = factors(rules, LITS)
        labels = LITS.to_labels(probabilities if weights is None else probabilities * weights)
        dice.append({name: one.dice for name, one in label_overlaps(labels, reference, LITS).items()})
    assert [tables.dice(rule) for rule in (None, *candidates)] == dice
    assert len({one["lesion"] for one in dice}) == 3  # nothing, the lesion, and the lesion with the voxels next to it


def test_rules_for_components_are_chosen_on_the_labels_after_thresholds(tmp_path):
    pairs = [write_case(tmp_path, number, ORGANS, far=[0.7, 0, 0.3]) for number in range(6)]
    choice = choose_rules(pairs, in_thread, Scoring(ORGANS))
    assert [str(rule) for rule in choice.rules] == ["cyst=threshold:0.2", "cyst=largest"]
    assert choice.without["cyst"] == 0
    assert choice.chosen == {"spleen": 1, "cyst": 1}


@pytest.mark.parametrize("description", [LITS, REGIONS], ids=["labels", "regions"])
def test_reliability_against_a_plain_count(description, tmp_path):
    probabilities = probabilities_of(description, 1)
    reference = np.random.default_rng(2).choice(4 if description.ignore else 3, SHAPE).astype(np.uint8)
    save_open_voxels(tmp_path / "1.npz", halves(probabilities), reference, description)
    own = pooled_reliability([Pair("1", tmp_path, tmp_path, open_voxels=tmp_path / "1.npz")], description)
    counted = reference != 3
    for name, values in description.masks.items():
        outputs = [*description.outputs].index(name) if description.has_regions else list(values)
        p = probabilities[..., outputs].reshape(*SHAPE, -1).sum(-1)[counted]
        real = np.isin(reference, values)[counted]
        bins = [(p >= low / 10) & ((p < (low + 1) / 10) | (low == 9)) for low in range(10)]
        error = sum(abs(p[one].sum() - real[one].sum()) for one in bins) / len(p)
        assert own.error(name) == pytest.approx(error, rel=1e-5)
        assert own.expected_volume(name) == pytest.approx(p.sum() / real.sum(), rel=1e-5)
        assert [row["voxels"] for row in own.fields[name]["bins"]] == [one.sum() for one in bins if one.any()]


def test_predictions_and_reports_use_a_threshold(tmp_path):
    grid = Sampling((8, 8, 8))
    labels = np.zeros((8, 8, 8), np.uint8)
    labels[1:7, 1:7, 1:7] = 1
    labels[3:5, 3:5, 3:5] = 2
    cases = tmp_path / "cases"
    for name, values in (("volume", np.array([-400, 0, 400], np.int16)[labels]), ("segmentation", labels)):
        store_nifti(cases / f"{name}-1.nii", values, "LPS", np.diag([1.5, 1.5, 1.5, 1]))
    found, reports = {}, {}
    for text in ("none", "lesion=threshold:0.2"):
        out = tmp_path / f"{text[:4]}.nii"
        options = {"progress": False, "cleanup": as_cleanup(text)}
        predict_cases(cases / "volume-1.nii", out, grid, as_cautious, **options)
        found[text] = np.asarray(nibabel.as_closest_canonical(nibabel.load(out)).dataobj)
        evaluate(cases, tmp_path / "evaluation", grid, as_cautious, **options)
        reports[text] = (tmp_path / "evaluation/report.html").read_text()
    np.testing.assert_array_equal(found["none"], np.minimum(labels, 1))
    np.testing.assert_array_equal(found["lesion=threshold:0.2"], labels)
    metrics = json.loads((tmp_path / "evaluation/metrics.json").read_text())
    assert metrics["cleanup"] == {"applied": ["lesion=threshold:0.2"]}
    assert metrics["calibration"]["lesion"]["expected_volume"] == pytest.approx(0.25)
    assert all("lesion: frequency by probability" in report for report in reports.values())
    assert "Postprocessing" not in reports["none"]
    assert "Rules that were applied to the predictions: lesion=threshold:0.2." in reports["lesion=threshold:0.2"]


def as_cautious(image):
    """Returns probabilities of an image with the window (-512, 512), with 0.25 for lesions."""
    label = np.rint((image[..., 0] * 1024 - 512) / 400).astype(int) + 1
    return np.array([[1, 0, 0], [0, 1, 0], [0, 0.75, 0.25]], np.float32)[np.clip(label, 0, 2)]


@pytest.mark.parametrize("value", ["0", "1", "half"])
def test_mistakes_in_thresholds(value):
    with pytest.raises(ConfigError) as error:
        Cleanup(cleanup_rules=f"lesion=threshold:{value}").resolve(LITS)
    assert f"'{value}' is not a probability. Fix: give a number between 0 and 1, for instance " in str(error.value)
