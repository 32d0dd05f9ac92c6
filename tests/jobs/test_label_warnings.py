"""Labels that no image has, and images that are ignored as a whole, are named before the first step."""

import dataclasses
import json
import logging
import math

import nibabel
import numpy as np
import pytest
from PIL import Image

import mtf_imaging as mi
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.jobs.data.checks import warn_of_labels
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.kinds.photos.training import HeldOutPhotos
from mtf_imaging.kinds.volumes.held_out import HeldOutRecords
from tests.jobs.test_described import ORGANS, SIZE, write_cases
from tests.kinds.coco_folder import make_annotation, make_fields, write_folder

IGNORE = dataclasses.replace(ORGANS, ignore=3)
PHOTOS = Photos(size=(16, 16), split=None, held_out_split=None)


def write_photos(folder, *label_images, **fields):
    """Writes a photo of 16 pixels a side for each label image: its value in the upper half and in the lower half."""
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    for number, (upper, lower) in enumerate(label_images):
        labels = np.full((16, 16), lower, np.uint8)
        labels[:8] = upper
        Image.fromarray(np.full((16, 16, 3), 99, np.uint8)).save(folder / f"images/p{number}.png")
        Image.fromarray(labels).save(folder / f"labels/p{number}.png")
    (folder / "classes.json").write_text(json.dumps({"classes": ["ground", "cell"], **fields}))
    return folder


def warnings_of(caplog, data_dir, data_set, model_dir, eval_dir=None):
    caplog.clear()
    data = mi.jobs.TrainingData(data_dir, data_set, eval_dir=eval_dir)
    with caplog.at_level(logging.WARNING):
        warn_of_labels(data, model_dir)
    return [record.getMessage() for record in caplog.records]


def test_binary_masks_have_a_warning_of_their_own(caplog, tmp_path):
    masks = write_photos(tmp_path / "masks", (0, 255), (255, 0))
    (text,) = warnings_of(caplog, masks, PHOTOS, tmp_path)
    assert text == (
        f"{masks}: the label images hold only the values 0 and 255, and 255 is the ignore_label, so all other pixels "
        "are 'ground', and every score is perfect. Fix: store the pixels of 'cell' as 1; or, if 255 means 'cell', "
        'write "ignore_label": 254, "values": [[0, 0], [255, 1]] in classes.json (2 label images counted).'
    )


def test_the_fix_of_binary_masks_counts_them(caplog, tmp_path):
    fixed = {"ignore_label": 254, "values": [[0, 0], [255, 1]]}
    masks = write_photos(tmp_path / "masks", (0, 255), **fixed)
    assert warnings_of(caplog, masks, PHOTOS, tmp_path) == []
    assert PHOTOS.label_counts(masks)[:2].tolist() == [128, 128]


def test_values_without_a_class_are_no_binary_masks(caplog, tmp_path):
    """128 is read as the ignore label 255, and the value 255 of the files does not occur."""
    photos = write_photos(tmp_path / "photos", (0, 128), ignore_label=255, values=[[0, 0], [1, 1]])
    (text,) = warnings_of(caplog, photos, PHOTOS, tmp_path)
    assert "no pixel of 'cell' in 1 label images" in text


@pytest.mark.parametrize("labels", [(0, 1), (1, 0)])
def test_photos_that_have_every_class(caplog, tmp_path, labels):
    assert warnings_of(caplog, write_photos(tmp_path / "photos", labels, (255, 255), (0, 0)), PHOTOS, tmp_path) == [
        f"{tmp_path / 'photos'}: the ignore label is the only label in 1 of the 3 label images counted, such as p1; "
        "these neither train nor score a network. Fix: check their labels, or leave them out."
    ]


def test_a_class_that_no_label_image_has(caplog, tmp_path):
    photos = write_photos(tmp_path / "photos", (0, 1), classes=["ground", "cell", "sky", "sea"])
    held_out = write_photos(tmp_path / "held_out", (0, 2), classes=["ground", "cell", "sky", "sea"])
    assert warnings_of(caplog, photos, PHOTOS, tmp_path, held_out) == [
        f"{photos}: no pixel of 'sky', 'sea' in 1 label images; a network cannot learn them. Fix: check the labels, or "
        "remove these names from the classes.",
        f"{held_out}: no pixel of 'cell', 'sea' in 1 held-out label images; the scores say nothing about them. Fix: "
        "check the labels, or remove these names from the classes.",
    ]


@pytest.mark.parametrize(("bad", "what"), [("data_dir", "label images"), ("eval_dir", "held-out label images")])
def test_photos_that_are_all_ignored_are_refused(caplog, tmp_path, bad, what):
    folders = {"data_dir": write_photos(tmp_path / "ok", (0, 1)), "eval_dir": write_photos(tmp_path / "ok2", (0, 1))}
    folders[bad] = write_photos(tmp_path / "bad", (255, 255), (255, 255))
    text = f"bad: every pixel of the 2 {what} has the ignore label, so there is nothing to"
    with pytest.raises(DataError, match=text) as info:
        warnings_of(caplog, folders["data_dir"], PHOTOS, tmp_path, folders["eval_dir"])
    assert info.value.settings == (bad,)


def test_a_sample_of_many_images_is_counted():
    survey = LabelSurvey({"a": 0, "b": 1}, np.array([3, 0]), ("x",), 64, 131, "voxel", "cases", "dataset.json", True)
    assert survey.missing == ["b"]
    assert not survey.is_ignored
    assert survey.warnings() == [
        "no voxel of 'b' in parts of 64 of 131 cases; a network cannot learn it. Fix: check the labels, or remove this "
        "name from dataset.json.",
        "the ignore label is the only label in 1 of the 64 cases counted, such as x; these neither train nor score "
        "a network. Fix: check their labels, or leave them out.",
    ]
    everything = dataclasses.replace(survey, ignored=("x",), num_counted=1, num_images=1, is_partial=False)
    assert everything.is_ignored
    assert not dataclasses.replace(everything, is_partial=True).is_ignored


def test_a_score_over_one_class_is_never_the_best(tmp_path):
    def scores(name, *labels):
        folder = write_photos(tmp_path / name, *labels)
        evaluate = HeldOutPhotos(None, crop=(16, 16), progress=False).open(folder, (16, 16))
        return evaluate(lambda image: np.eye(2, dtype=np.float32)[np.zeros(image.shape[:2], int)])[0]

    assert all(map(math.isnan, scores("binary", (0, 255)).values()))
    assert scores("both", (0, 1)) == {"mean_iou": 0.25, "pixel_accuracy": 0.5}


def test_categories_without_objects(caplog, tmp_path):
    fork, crowd = make_annotation(1, 11, 3, (1, 1, 4, 4)), make_annotation(2, 11, 1, (1, 1, 4, 4), is_crowd=1)
    fields = make_fields([(8, 8)], [fork, crowd])
    folder = write_folder(tmp_path / "objects", fields)
    write_folder(folder, make_fields([(8, 8)], []), "val")
    assert warnings_of(caplog, folder, Objects(size=(8, 8)), tmp_path, folder) == [
        f"{folder}: no object of 'cup' in 1 images; a network cannot learn it. Fix: check the labels, or remove this "
        "name from the categories.",
        f"{folder}: no image has an annotated object to detect. Fix: add annotations (1 held-out images counted).",
    ]


def write_records(folder, description, labels):
    """Writes and converts cases whose masks have one value in their lower half and another one in the upper half."""
    write_cases(folder / "raw", description, len(labels))
    for number, (low, high) in enumerate(labels):
        mask = np.full([SIZE] * 3, low, np.uint8)
        mask[:, :, SIZE // 2 :] = high
        nibabel.save(nibabel.Nifti1Image(mask, np.diag([2, 2, 2, 1])), folder / f"raw/labelsTr/case_{number}.nii.gz")
    mi.jobs.convert(input_dir=folder / "raw", output_dir=folder / "records", resolution=SIZE, workers=1, progress=False)
    return folder / "records"


def test_labels_that_no_case_has(caplog, tmp_path):
    with caplog.at_level(logging.WARNING):
        records = write_records(tmp_path, ORGANS, [(0, 1), (1, 0)])
    expected = (
        f"{records}: no voxel of 'cyst' in 2 cases; a network cannot learn it. Fix: check the labels, or remove this "
        "name from dataset.json."
    )
    assert expected in [record.getMessage() for record in caplog.records]  # from convert
    assert warnings_of(caplog, records, mi.data.Records(), tmp_path) == [expected]
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    (tmp_path / "ckpt-1.index").write_bytes(b"")
    assert warnings_of(caplog, records, mi.data.Records(), tmp_path) == []  # the run was warned when it began


def test_cases_that_are_ignored_have_no_score(caplog, tmp_path):
    records = write_records(tmp_path, IGNORE, [(1, 2), (3, 3)])
    assert warnings_of(caplog, records, mi.data.Records(), tmp_path) == [
        f"{records}: the ignore label is the only label in 1 of the 2 cases counted, such as case_1; these neither "
        "train nor score a network. Fix: check their labels, or leave them out."
    ]
    background = np.eye(3, dtype=np.float32)[0]
    predict = lambda image: np.broadcast_to(background, (*image.shape[:3], 3))  # noqa: E731
    evaluate = HeldOutRecords(progress=False, description=IGNORE).open(records, (SIZE,) * 3)
    assert evaluate(predict)[0] == {"spleen": 0.0, "cyst": 0.0, "mean": 0.0}  # case_1 would have a Dice of 1


def test_held_out_cases_that_are_all_ignored(tmp_path):
    records = write_records(tmp_path, IGNORE, [(1, 2), (3, 3)])
    only = mi.data.records.splits.Subset(str(records), ("case_1",))
    background = np.eye(3, dtype=np.float32)[0]
    predict = lambda image: np.broadcast_to(background, (*image.shape[:3], 3))  # noqa: E731
    values = HeldOutRecords(progress=False, description=IGNORE).open(only, (SIZE,) * 3)(predict)[0]
    assert all(map(math.isnan, values.values()))


def test_scores_refuse_a_reference_that_is_ignored(tmp_path):
    description = Description(("CT",), {"spleen": 1}, {"spleen": (1,)}, ignore=2)
    write_cases(tmp_path / "raw", description, 1)
    mask = tmp_path / "raw/labelsTr/case_0.nii.gz"
    nibabel.save(nibabel.Nifti1Image(np.full([SIZE] * 3, 2, np.uint8), np.diag([2, 2, 2, 1])), mask)
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions/case_0.nii.gz").write_bytes(mask.read_bytes())
    with pytest.raises(DataError, match=r"case_0.nii.gz: all voxels of this reference have the ignore label 2, so"):
        score_folders(mask.parent, tmp_path / "predictions", tmp_path / "scores", workers=1, progress=False)
