"""The choice of the rules of scores, on the command line and from `dataset.json`, and faults of labels and settings."""

import dataclasses
import json
import shutil

import nibabel
import numpy as np
import pytest
from PIL import Image

from mtf_imaging.cli.commands import score as command
from mtf_imaging.cli.commands.all_commands import flags_of
from mtf_imaging.cli.main import main
from mtf_imaging.data.description.dataset_json import write_description
from mtf_imaging.data.description.description import ANY_RULES, LITS, LITS_RULES, Description
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.pairs.rules import RULES, Scoring, choose_description
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.evaluation.volume_scores.case import TOLERANCE_MM
from tests.evaluation.descriptions import ORGANS, REGIONS
from tests.evaluation.test_report_any import AFFINE, CASES, SHAPE, labels_of, write_cases

PANCREAS = Description(("CT",), {"pancreas": 1, "cancer": 2}, {"pancreas": (1,), "cancer": (2,)}, lesions=("cancer",))


def write_labels(folder, name, labels):
    folder.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(labels, AFFINE), folder / f"{name}.nii.gz")


def words(folder, *more):
    names = {"--reference_dir": "labelsTr", "--prediction_dir": "p", "--output_dir": "out"}
    return ["score", *(f"{flag}={folder / name}" for flag, name in names.items()), "--workers=1", *more]


def test_the_description_is_read_from_the_folder_or_the_one_above(tmp_path):
    references = tmp_path / "labelsTr"
    references.mkdir()
    assert choose_description(references) == LITS
    write_description(tmp_path, ORGANS, 1)
    assert choose_description(references) == ORGANS
    write_description(references, PANCREAS, 1)
    assert choose_description(references) == PANCREAS
    for path in (tmp_path, tmp_path / "dataset.json"):
        assert choose_description(references, dataset_json=path) == ORGANS


def test_rules(tmp_path):
    assert choose_description(tmp_path, "lits") == LITS
    assert choose_description(tmp_path, "any") == dataclasses.replace(LITS, rules=ANY_RULES)
    fields = {"modality": {"0": "CT"}, "labels": {"0": "background", "1": "liver", "2": "cancer"}}
    (tmp_path / "dataset.json").write_text(json.dumps(fields))  # of the Decathlon
    assert choose_description(tmp_path) == LITS
    assert choose_description(tmp_path, "any") == dataclasses.replace(LITS, rules=ANY_RULES)
    (tmp_path / "dataset.json").write_text(json.dumps(fields | {"rules": "any"}))
    assert choose_description(tmp_path).masks == {"liver": (1,), "cancer": (2,)}
    assert choose_description(tmp_path, "lits").rules == LITS_RULES
    assert choose_description(tmp_path, "lits").masks == LITS.masks
    with pytest.raises(ConfigError, match=r"rules = 'other': there are no such rules\. Fix: use 'lits' or 'any'"):
        choose_description(tmp_path, "other")


@pytest.mark.parametrize("description", [ORGANS, REGIONS, PANCREAS])
def test_the_rules_of_lits_are_refused_for_other_labels(tmp_path, description):
    write_description(tmp_path, description, 1)
    first = next(iter(description.labels))
    message = rf"dataset\.json: the labels are 1 {first}, .*, but the rules 'lits' are for 1 liver, 2 lesion\. Fix: "
    with pytest.raises(DataError, match=message):
        choose_description(tmp_path, "lits")


def test_a_dataset_json_that_is_missing_or_has_another_name(tmp_path):
    (tmp_path / "labels.json").write_text("{}")
    for path in (tmp_path, tmp_path / "dataset.json", tmp_path / "labels.json"):
        with pytest.raises(DataError, match=rf"^{path}: this is not a file dataset\.json that describes .* Fix: "):
            choose_description(tmp_path, dataset_json=path)


def test_a_label_with_the_name_of_another_key_is_refused(tmp_path):
    write_description(tmp_path, Description(("CT",), {"mean": 1}, {"mean": (1,)}), 1)
    with pytest.raises(DataError, match=r"a label is named 'mean', which is the name of another key of metrics\.json"):
        choose_description(tmp_path)


def test_the_command_scores_the_labels_of_dataset_json(tmp_path, capsys):
    folder = write_cases(tmp_path / "data", CASES, ORGANS)
    assert main(words(folder, "--surface_tolerance=2.5")) == 0
    output = capsys.readouterr().out
    assert "surface_dice: at 2.5 mm" in output
    assert "report.html" in output
    metrics = json.loads((folder / "out/metrics.json").read_text())
    assert metrics["surface_tolerance_mm"] == 2.5
    assert metrics["cases"]["scan_2"]["right kidney"]["dice"] == 0
    shutil.move(folder / "dataset.json", tmp_path / "dataset.json")
    first = (folder / "out/metrics.json").read_bytes()
    assert main(words(folder, "--surface_tolerance=2.5", f"--dataset_json={tmp_path}/dataset.json")) == 0
    assert (folder / "out/metrics.json").read_bytes() == first


@pytest.mark.slow
def test_workers_score_any_labels(tmp_path):
    folder = write_cases(tmp_path, CASES, ORGANS)
    scores = score_folders(folder / "labelsTr", folder / "p", folder / "out", workers=2, progress=False)
    assert [score.key for score in scores] == ["scan_1", "scan_2", "scan_3", "scan_10"]


@pytest.mark.parametrize("part", ["p", "labelsTr"])
def test_labels_that_dataset_json_lacks_are_refused(tmp_path, part, capsys):
    labels = labels_of(1, 2)
    folder = write_cases(tmp_path, {"a": (labels, labels)}, ORGANS)
    write_labels(folder / part, "a", np.where(labels == 2, 7, labels).astype(np.uint8))
    assert main(words(folder)) == 1
    error = capsys.readouterr().err
    assert f"{part}/a.nii.gz: has the label(s) 7, but the labels of the data set are " in error
    assert "Traceback" not in error


def test_faults_of_flags(tmp_path, capsys):
    folder = write_cases(tmp_path, {"a": (labels_of(1), labels_of(1))}, ORGANS)
    assert main(words(folder, "--rules=lits")) == 1
    assert "but the rules 'lits' are for 1 liver, 2 lesion" in capsys.readouterr().err
    assert main(words(folder, "--surface_tolerance=0")) == 2
    error = capsys.readouterr().err
    assert "surface_tolerance = 0: the tolerance of the surface Dice is not a positive number of mm." in error
    assert "On the command line: --surface_tolerance." in error
    assert not (folder / "out").exists()


def test_the_flags_agree_with_the_code():
    values = flags_of(command)
    assert command._RULES == RULES
    assert values["surface_tolerance"].default == TOLERANCE_MM


def test_lits_with_the_rules_of_any_labels(tmp_path):
    labels = np.zeros(SHAPE, np.uint8)
    labels[4:16, 4:16, 3:9], labels[6:10, 6:10, 4:7] = 1, 2
    for name in ("r", "p"):
        write_labels(tmp_path / name, "segmentation-1", labels)
    scoring = Scoring(choose_description(tmp_path / "r", "any"))
    (score,) = score_folders(tmp_path / "r", tmp_path / "p", tmp_path / "o", 1, progress=False, scoring=scoring)
    assert score.overlaps.keys() == {"liver", "lesion"}
    metrics = json.loads((tmp_path / "o/metrics.json").read_text())
    assert metrics["liver"]["surface_dice"] == 1.0
    assert metrics["lesion"]["detection"]["iou_above_0.5"]["f1"] == 1.0
    assert "official" not in metrics


def test_2d_images_are_scored(tmp_path):
    """A square of 8 x 8 pixels, predicted 9 pixels wide; a surface of one plane is a contour."""
    description = Description(("rescale_0_1",), {"cell": 1}, {"cell": (1,)}, file_ending=".png")
    reference, prediction = np.zeros((20, 16), np.uint8), np.zeros((20, 16), np.uint8)
    reference[4:12, 4:12], prediction[4:12, 4:13] = 1, 1
    for name, labels in (("labelsTr", reference), ("p", prediction)):
        (tmp_path / name).mkdir()
        Image.fromarray(labels).save(tmp_path / name / "a.png")
    write_description(tmp_path, description, 1)
    (score,) = score_folders(tmp_path / "labelsTr", tmp_path / "p", tmp_path / "out", 1, progress=False)
    counts = score.overlaps["cell"]
    assert (counts.intersection, counts.prediction, counts.reference) == (64, 72, 64)
    # 1 pixel from the other surface are the 8 points of the moved side and, of that side of the reference, 6 points;
    # its 2 corners lie on other sides of the prediction.
    assert score.distances["cell"].assd == pytest.approx((8 + 6) / (28 + 30))
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("data-plane=") == 1
