"""Rules for the components of masks: against SciPy on whole volumes, and their choice on held-out cases."""

import itertools
import json

import nibabel
import numpy as np
import pytest
from scipy import ndimage

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.compact_labels import CompactLabels
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.cleanup.choosing import choose_rules
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND, Cleanup, as_cleanup
from mtf_imaging.evaluation.cleanup.rule_text import parse_rules
from mtf_imaging.evaluation.cleanup.stored_choice import NAME, RulesReport, read_rules, save_rules
from mtf_imaging.evaluation.cleanup.tables import case_tables
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.rules import Scoring
from mtf_imaging.evaluation.pairs.running import in_thread
from mtf_imaging.evaluation.volume_scores import voxels
from mtf_imaging.evaluation.volume_scores.overlap import label_overlaps
from mtf_imaging.settings.as_text import as_text

ORGANS = Description(("MR",), {"spleen": 1, "kidney": 2, "cyst": 3}, {"spleen": (1,), "kidney": (2, 3), "cyst": (3,)})
SPACING = (10.0, 5.0, 4.0)  # 0.2 mL
FULL = np.ones((3, 3, 3))


def expected(labels, text):
    """Returns the labels after one rule, computed on the whole volume."""
    (rule,) = parse_rules(text, ORGANS)
    numbers, count = ndimage.label(np.isin(labels, rule.labels), FULL)
    sizes = np.bincount(numbers.ravel(), minlength=count + 1)[1:]
    if rule.kind == "largest":
        kept = [1 + np.argmax(sizes)] if count else []
    elif rule.kind == "min_volume":
        kept = 1 + np.flatnonzero(sizes * 0.2 >= rule.value)
    else:
        kept = np.unique(numbers[ndimage.binary_dilation(np.isin(labels, rule.container_labels), FULL)])
    return np.where((numbers > 0) & ~np.isin(numbers, kept), 0, labels)


RULES = (
    *("spleen=largest", "kidney=largest", "spleen+cyst=largest", "spleen+kidney+cyst=largest"),
    *("cyst=inside:kidney", "cyst=inside:spleen", "spleen=inside:cyst"),
    *("cyst=min_volume:0.4", "kidney=min_volume:0.7"),
)


@pytest.mark.parametrize("slab", [1 << 22, 150], ids=["one slab", "slabs"])
@pytest.mark.parametrize("text", RULES)
def test_rules_against_scipy(text, slab, monkeypatch):
    monkeypatch.setattr(voxels, "SLAB_VOXELS", slab)
    (rule,) = parse_rules(text, ORGANS)
    for seed in range(4):
        labels = np.random.default_rng(seed).choice(4, (11, 8, 7), p=[0.88, 0.04, 0.04, 0.04]).astype(np.uint8)
        compact = CompactLabels(labels.shape)
        compact[:, :, :] = labels
        whole = expected(labels, text)
        assert (whole != labels).any()
        np.testing.assert_array_equal(rule(labels, SPACING), whole)
        np.testing.assert_array_equal(rule(compact, SPACING)[:, :, :], whole)


def test_a_corner_connects_and_nothing_to_remove_is_unchanged():
    labels = np.zeros((4, 4, 4), np.uint8)
    labels[0, 0, 0] = labels[1, 1, 1] = 1
    (rule,) = parse_rules("spleen=largest", ORGANS)
    assert rule(labels, SPACING) is labels
    empty = np.zeros((4, 1, 4), np.uint8)
    for text in RULES:
        assert parse_rules(text, ORGANS)[0](empty, SPACING) is empty


@pytest.mark.parametrize("text", RULES)
def test_tables_predict_the_dice_of_each_rule(text):
    description = Description(ORGANS.channels, {**ORGANS.labels, "unclear": 4}, ORGANS.masks, ignore=4)
    (rule,) = parse_rules(text, description)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        prediction = rng.choice(4, (9, 8, 7), p=[0.85, 0.05, 0.05, 0.05]).astype(np.uint8)
        reference = np.where(rng.random(prediction.shape) < 0.3, 4, prediction)
        reference[4:] = 0
        tables = case_tables(prediction, reference, SPACING, description, [rule])
        after = label_overlaps(rule(prediction, SPACING), reference, description)
        assert tables.dice(rule) == {name: one.dice for name, one in after.items()}
        assert tables.dice(rule) != tables.dice()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "spleen",
            "cleanup 'spleen' is not a rule. Fix: give MASK=largest, MASK=min_volume:ML, MASK=inside:MASK or ",
        ),
        ("spleen=larges", "cleanup 'spleen=larges' is not a rule. Did you mean 'largest'? Fix: "),
        ("spleen=largest:2", "is not a rule. Did you mean"),
        ("splen=largest", "there is no mask 'splen'. Did you mean 'spleen'? Fix: choose from spleen, kidney, cyst."),
        ("cyst=inside:liver", "there is no mask 'liver'."),
        ("kidney=inside:cyst", "no label of 'cyst' lies outside 'kidney', so nothing would stay. Fix: "),
        (
            "cyst=min_volume:-1",
            "'-1' is not a volume. Fix: give a positive number of mL, for instance cyst=min_volume:0",
        ),
        ("cyst=min_volume:big", "'big' is not a volume."),
    ],
)
def test_mistakes_in_rules(text, message):
    with pytest.raises(ConfigError) as error:
        Cleanup(cleanup_rules=text).resolve(ORGANS)
    assert message.replace(" Did you mean", "") in str(error.value).replace(" Did you mean", "")
    assert error.value.settings == ("cleanup",)


def cube(labels, value, corner, size):
    labels[tuple(slice(at, at + size) for at in corner)] = value
    return labels


def write_cases(folder, cases):
    """Writes pairs of predictions and references, and returns the pairs."""
    pairs = []
    for number, (prediction, reference) in enumerate(cases):
        paths = folder / f"prediction-{number}.nii", folder / f"reference-{number}.nii"
        for path, labels in zip(paths, (prediction, reference), strict=True):
            nibabel.save(nibabel.Nifti1Image(labels, np.diag([*SPACING, 1])), path)
        pairs.append(Pair(str(number), *paths))
    return pairs


def cases_of(add, number=6):
    """Returns cases with a kidney and its cyst, and with what `add` changes in the prediction and in the reference."""
    for n in range(number):
        reference = cube(cube(np.zeros((12, 12, 12), np.uint8), 2, (0, 0, 0), 6), 3, (2, 2, 2), 2)
        cube(reference, 1, (0, 0, 8), 4)
        prediction = reference.copy()
        add(n, prediction, reference)
        yield prediction, reference


def choose(folder, add, number=6, **options):
    pairs = write_cases(folder, cases_of(add, number))
    return choose_rules(pairs, in_thread, Scoring(ORGANS), **options)


def far_kidney(n, prediction, reference):
    cube(prediction, 2, (9, 9, 9), 2 + n % 2)


def two_spleens(n, prediction, reference):
    for labels in (prediction, reference):
        cube(labels, 1, (8, 8, 8), 3)


def test_a_rule_that_helps_is_chosen(tmp_path):
    choice = choose(tmp_path, far_kidney)
    assert [str(rule) for rule in choice.rules] == ["kidney=largest"]
    assert choice.without["kidney"] < 1
    assert choice.chosen == choice.cross_validated == {"spleen": 1, "kidney": 1, "cyst": 1}
    assert choice.fields["dice"]["kidney"]["without"] == choice.without["kidney"]


def test_rules_that_hurt_or_change_nothing_are_not_chosen(tmp_path):
    assert choose(tmp_path, lambda *case: None).rules == ()
    choice = choose(tmp_path, two_spleens)
    assert choice.rules == ()
    assert choice.without == choice.chosen == choice.cross_validated


def test_a_rule_that_raises_the_mean_but_lowers_a_mask_is_not_chosen(tmp_path):
    def add(n, prediction, reference):
        cube(prediction, 2, (8, 8, 0), 4)  # wrong, but with a cyst that the reference has, too
        for labels in (prediction, reference):
            labels[9, 9, 1] = 3

    assert choose(tmp_path, add).rules == ()


def test_masks_get_rules_one_after_the_other(tmp_path):
    def add(n, prediction, reference):
        far_kidney(n, prediction, reference)
        two_spleens(n, prediction, reference)
        prediction[8:11, 8:11, 8:11] = reference[8:11, 8:11, 8:11]
        cube(prediction, 2, (8, 0, 0), 3)
        prediction[11, 11, 0] = prediction[8, 11, 0] = 1  # 0.2 mL, while the second real spleen has 5.4 mL
        prediction[11, 5, 5] = 3

    choice = choose(tmp_path, add)
    assert sorted(str(rule) for rule in choice.rules) == ["kidney=largest", "spleen=min_volume:0.3"]
    assert choice.chosen == {"spleen": 1, "kidney": 1, "cyst": 1}


def test_cross_validation_finds_a_rule_that_helps_one_fold_only(tmp_path):
    def add(n, prediction, reference):
        if n < 2:
            cube(prediction, 2, (6, 6, 6), 6)  # larger than the real kidney, so only "inside" could remove it
            cube(reference, 2, (6, 6, 6), 6)
            reference[:6, :6, :6] = 0
        else:
            far_kidney(n, prediction, reference)

    parts = [range(2), range(2, 6)]
    choice = choose(tmp_path, add, parts=parts)
    assert choice.cross_validated["kidney"] <= choice.chosen["kidney"]
    assert choice.cross_validated != choice.chosen
    assert choose(tmp_path, far_kidney, number=1).cross_validated is None


def test_a_damaged_case_is_an_error(tmp_path):
    pairs = write_cases(tmp_path, cases_of(far_kidney, 2))
    pairs[1].prediction.write_bytes(b"")
    with pytest.raises(DataError):
        choose_rules(pairs, in_thread, Scoring(ORGANS))


def test_stored_rules_apply_unless_others_are_given(tmp_path):
    choice = choose(tmp_path, far_kidney)
    assert Cleanup().resolve(ORGANS, tmp_path) == AS_FOUND
    save_rules(tmp_path, choice)
    assert read_rules(tmp_path, ORGANS) == choice.rules
    assert Cleanup().resolve(ORGANS, tmp_path).names == ["kidney=largest"]
    assert as_cleanup("none").resolve(ORGANS, tmp_path) == AS_FOUND
    assert as_cleanup("cyst=largest").resolve(ORGANS, tmp_path).names == ["cyst=largest"]
    labels = cube(cube(np.zeros((12, 12, 12), np.uint8), 2, (0, 0, 0), 4), 2, (8, 8, 8), 2)
    kept = Cleanup().resolve(ORGANS, tmp_path)(labels, SPACING, tmp_path)
    np.testing.assert_array_equal(kept, cube(np.zeros((12, 12, 12), np.uint8), 2, (0, 0, 0), 4))
    assert Cleanup().resolve(ORGANS)(labels, SPACING, tmp_path) is labels


def test_the_rules_of_lits(tmp_path):
    assert as_cleanup("lits").resolve(LITS, tmp_path) == Cleanup(largest_liver=True, lesions_in_liver=True)
    with pytest.raises(ConfigError, match="this rule is for the labels liver, lesion"):
        as_cleanup("lits").resolve(ORGANS)
    (tmp_path / NAME).write_text(json.dumps({"rules": [{"kind": "largest", "masks": ["spleen"]}]}))
    assert Cleanup(largest_liver=True).resolve(LITS, tmp_path).names == ["largest_liver"], "given rules replace stored"
    with pytest.raises(DataError, match=r"do not fit the labels liver, lesion \(KeyError\('spleen'\)\)"):
        Cleanup().resolve(LITS, tmp_path)


@pytest.mark.parametrize("text", ["[]", '{"rules": 3}', '{"rules": [{"kind": "hollow", "masks": []}]}', "{}"])
def test_damaged_files_of_rules(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    with pytest.raises(DataError, match="Fix: choose the rules again, or ignore them"):
        Cleanup().resolve(ORGANS, tmp_path)


def test_texts_of_rules_differ():
    texts = {as_text(as_cleanup(text).resolve(ORGANS)) for text in ("none", *RULES)}
    assert len(texts) == 1 + len(RULES)


def test_what_metrics_say_about_rules(tmp_path):
    assert RulesReport().fields == {}
    assert RulesReport(("liver=largest",)).fields == {"cleanup": {"applied": ["liver=largest"]}}
    fields = RulesReport(choice=choose(tmp_path, far_kidney)).fields["cleanup"]["chosen"]
    assert (fields["rules"], fields["num_cases"]) == (["kidney=largest"], 6)
    for values in fields["dice"].values():
        assert [*values] == ["without", "with", "cross_validated"]


def test_rules_do_not_depend_on_the_orientation():
    labels = np.random.default_rng(1).choice(4, (9, 8, 7), p=[0.88, 0.04, 0.04, 0.04]).astype(np.uint8)
    rules = parse_rules("cyst=inside:kidney,spleen=min_volume:0.4", ORGANS)
    for axes, rule in itertools.product(itertools.permutations(range(3)), rules):
        turned = rule(labels.transpose(axes)[::-1], SPACING)
        np.testing.assert_array_equal(turned, rule(labels, SPACING).transpose(axes)[::-1])
