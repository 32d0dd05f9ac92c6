"""Folders of photos: PASCAL VOC, Cityscapes, pairs and photos only."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.photos.description import CITYSCAPES, VOC, PhotoDescription
from mtf_imaging.kinds.photos.reading.folders import Photo, find_photos, photo_description, splits


def write(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("")
        else:
            Image.fromarray(np.zeros((4, 5), np.uint8)).save(path)


@pytest.fixture
def voc(tmp_path):
    """A folder like PASCAL VOC's; photo d has no label image and is in no list."""
    folder = tmp_path / "VOC2012"
    write(folder, *(f"JPEGImages/{key}.jpg" for key in "abcd"), *(f"SegmentationClass/{key}.png" for key in "abc"))
    lists = folder / "ImageSets/Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("c\na\n\n")
    (lists / "val.txt").write_text("b\r\n")
    return folder


@pytest.fixture
def cityscapes(tmp_path):
    folder = tmp_path / "cityscapes"
    for split, city, number in (("train", "aachen", 1), ("train", "bochum", 1), ("val", "lindau", 2)):
        name = f"{split}/{city}/{city}_{number}"
        write(folder, f"leftImg8bit/{name}_leftImg8bit.png", f"gtFine/{name}_gtFine_labelIds.png")
    return folder


@pytest.fixture
def pairs(tmp_path):
    folder = tmp_path / "pairs"
    write(folder, "images/x.jpg", "images/y.PNG", "images/z.tif", *(f"labels/{key}.png" for key in "xyz"))
    (folder / "classes.json").write_text('{"classes": {"ground": [0, 0, 0], "road": [128, 64, 128]}}')
    return folder


def keys(photos):
    return [photo.key for photo in photos]


def test_a_folder_like_pascal_voc(voc):
    assert splits(voc) == ("train", "val")
    assert find_photos(voc, "train") == [
        Photo(key, voc / f"JPEGImages/{key}.jpg", voc / f"SegmentationClass/{key}.png") for key in "ca"
    ]
    assert keys(find_photos(voc, "val")) == ["b"]
    assert keys(find_photos(voc)) == ["a", "b", "c"]
    everything = find_photos(voc, need_labels=False)
    assert keys(everything) == ["a", "b", "c", "d"]
    assert [photo.labels is None for photo in everything] == [False, False, False, True]
    assert photo_description(voc) is VOC


def test_a_folder_like_cityscapes(cityscapes):
    assert splits(cityscapes) == ("train", "val")
    (first, second) = find_photos(cityscapes, "train")
    assert (first.key, second.key) == ("aachen/aachen_1", "bochum/bochum_1")
    assert first.image == cityscapes / "leftImg8bit/train/aachen/aachen_1_leftImg8bit.png"
    assert first.labels == cityscapes / "gtFine/train/aachen/aachen_1_gtFine_labelIds.png"
    assert keys(find_photos(cityscapes)) == ["aachen/aachen_1", "bochum/bochum_1", "lindau/lindau_2"]
    assert photo_description(cityscapes) is CITYSCAPES
    for path in cityscapes.rglob("*_labelIds.png"):
        path.rename(path.with_name(path.name.replace("labelIds", "labelTrainIds")))
    assert find_photos(cityscapes, "val")[0].labels.name == "lindau_2_gtFine_labelTrainIds.png"
    assert photo_description(cityscapes) == replace(CITYSCAPES, values=())


def test_pairs(pairs):
    assert splits(pairs) == ()
    assert keys(find_photos(pairs)) == ["x", "y", "z"]
    assert photo_description(pairs) == PhotoDescription(("ground", "road"), ((0, 0, 0), (128, 64, 128)))
    (pairs / "splits").mkdir()
    (pairs / "splits/train.txt").write_text("z\nx\n")
    assert splits(pairs) == ("train",)
    assert keys(find_photos(pairs, "train")) == ["z", "x"]


def test_photos_only(tmp_path):
    write(tmp_path, "b.jpg", "a.png", "._a.png", "notes.txt")
    assert find_photos(tmp_path, need_labels=False) == [
        Photo("a", tmp_path / "a.png", None),
        Photo("b", tmp_path / "b.jpg", None),
    ]
    assert find_photos(tmp_path / "b.jpg", need_labels=False) == [Photo("b", tmp_path / "b.jpg", None)]
    assert splits(tmp_path) == ()
    with pytest.raises(
        DataError, match=r"contains photos without label images\. Fix: give a folder that contains JPEG"
    ):
        find_photos(tmp_path)
    with pytest.raises(DataError, match=r"classes\.json: this file is missing, and the form of the folder does not"):
        photo_description(tmp_path)


def test_classes_json_names_the_classes_of_any_folder(voc, cityscapes):
    for folder in (voc, cityscapes):
        (folder / "classes.json").write_text('{"classes": ["u", "v"], "ignore_label": 9}')
        assert photo_description(folder) == PhotoDescription(("u", "v"), ((0, 0, 0), (128, 0, 0)), 9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "classes.json: not a JSON file (Expecting property name"),
        ('{"classes": {"a": [0, 0, 0], "a": [1, 1, 1]}}', "classes.json: 'a' occurs twice in an object"),
        ('{"classes": {"a": [0, 0]}}', "classes.json: PhotoDescription.colors = ((0, 0),): it must be"),
        ("[]", "classes.json: does not contain an object with the key 'classes'"),
    ],
)
def test_wrong_classes_json(pairs, text, message):
    (pairs / "classes.json").write_text(text)
    with pytest.raises(DataError) as error:
        photo_description(pairs)
    assert message in str(error.value)
    assert "Fix: " in str(error.value)


def test_photos_without_label_images_are_named(voc, pairs, cityscapes):
    write(voc, *(f"JPEGImages/n{number}.jpg" for number in range(7)))
    (voc / "ImageSets/Segmentation/train.txt").write_text("a\n" + "".join(f"n{number}\n" for number in range(7)))
    message = r"7 of 8 photos have no label image in SegmentationClass: n0, n1, n2, n3, n4, \.\.\.\. Fix: add"
    with pytest.raises(DataError, match=message):
        find_photos(voc, "train")
    (pairs / "labels/y.png").unlink()
    with pytest.raises(DataError, match=r"1 of 3 photos have no label image in labels: y\. Fix: add them as PNG"):
        find_photos(pairs)
    next(cityscapes.rglob("lindau*labelIds.png")).unlink()
    with pytest.raises(DataError, match=r"1 of 1 photos have no label image in gtFine: lindau/lindau_2\."):
        find_photos(cityscapes, "val")


def test_missing_folders_and_files(voc, pairs, cityscapes, tmp_path):
    for folder, name in ((voc, "SegmentationClass"), (pairs, "labels"), (cityscapes, "gtFine")):
        (folder / name).rename(folder / "away")
        message = rf"{folder.name}: has no folder {name}, so it contains photos without label"
        with pytest.raises(DataError, match=message):
            find_photos(folder)
        assert find_photos(folder, need_labels=False)[0].labels is None
        (folder / "away").rename(folder / name)
    (voc / "JPEGImages/a.jpg").unlink()
    with pytest.raises(DataError, match=r"train\.txt: 1 of 2 photos are not in .*JPEGImages: a\. Fix: add the photos"):
        find_photos(voc, "train")
    with pytest.raises(DataError, match=r"SegmentationClass: 1 of 3 photos are not in .*JPEGImages: a\."):
        find_photos(voc)
    with pytest.raises(DataError, match=r"nowhere: No such file or directory\. Fix: check the path"):
        find_photos(tmp_path / "nowhere")


def test_unknown_splits(voc, pairs):
    with pytest.raises(DataError, match=r"has no split 'vall'\. Did you mean 'val'\? Fix: choose one of train, val\."):
        find_photos(voc, "vall")
    with pytest.raises(DataError, match=r"has no split 'train'. It has no lists. Fix: write splits/train\.txt"):
        find_photos(pairs, "train")


def test_wrong_lists(voc):
    path = voc / "ImageSets/Segmentation/train.txt"
    path.write_text("a\nb\na\nb\n")
    with pytest.raises(DataError, match=r"train\.txt: 2 photos occur twice: a, b\. Fix: list each photo once"):
        find_photos(voc, "train")
    for line in ("a.jpg", "a -1", "JPEGImages/a.jpg SegmentationClass/a.png"):
        path.write_text(f"{line}\n")
        with pytest.raises(DataError, match=rf"1 of 1 photos are not in .*: {line}\. Fix: write one name a line"):
            find_photos(voc, "train")
    path.write_text("\n")
    with pytest.raises(DataError, match=r"VOC2012: split 'train': contains no photos"):
        find_photos(voc, "train")
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DataError, match=r"train\.txt: not a text file"):
        find_photos(voc, "train")


def test_keys_are_unique(pairs, cityscapes):
    write(pairs, "images/x.png")
    with pytest.raises(DataError, match=r"x\.png: has the name of x\.jpg with another ending, so it has the same key"):
        find_photos(pairs)
    for folder, ending in (("leftImg8bit", "leftImg8bit"), ("gtFine", "gtFine_labelIds")):
        write(cityscapes, f"{folder}/val/aachen/aachen_1_{ending}.png")
    with pytest.raises(DataError, match=r"1 photos occur twice: aachen/aachen_1\. Fix: list each"):
        find_photos(cityscapes)


def test_folders_of_no_known_form(tmp_path, voc):
    with pytest.raises(DataError, match=r"is not a folder of photos in a known form\. Fix: give .*/VOC2012\.$"):
        find_photos(tmp_path)
    (tmp_path / "empty").mkdir()
    message = r"empty: is not .* Fix: give .* JPEGImages, .*gtFine.* or images and labels; for"
    with pytest.raises(DataError, match=message):
        splits(tmp_path / "empty")


def test_descriptions_of_folders_are_json(voc, cityscapes, pairs):
    for folder in (voc, cityscapes, pairs):
        json.dumps(photo_description(folder).to_fields())
