"""The cases that the field `dataset` of dataset.json lists, as in nnU-Net."""

import json
import re

import pytest

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.description.dataset_json import FILE
from mtf_imaging.data.fingerprint import read_fingerprint
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.manifest import read_manifest
from mtf_imaging.errors import DataError
from tests.data.test_cases import touch

CT = {"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1}}


def describe(folder, dataset, **more):
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_text(json.dumps({**CT, **more, "dataset": dataset}))


def test_cases_are_those_of_the_list(tmp_path, caplog):
    data = tmp_path / "data"
    touch(tmp_path, "data/imagesTr/x_0000.nii.gz", "data/labelsTr/x.nii.gz", "elsewhere/scan.NII", "elsewhere/m.nii.gz")
    touch(tmp_path, "data/imagesTr/y_0000.nii.gz")
    dataset = {
        "case_10": {"images": ["imagesTr/x_0000.nii.gz"], "label": "labelsTr/x.nii.gz"},
        "case_2": {"images": [str(tmp_path / "elsewhere/scan.NII")], "label": "../elsewhere/m.nii.gz"},
    }
    describe(data, dataset, numTraining=2)
    first, second = find_cases(data)
    assert (first.key, first.prediction_name) == ("case_2", "case_2.nii.gz")
    assert (first.volume, first.labels) == (tmp_path / "elsewhere/scan.NII", data / "../elsewhere/m.nii.gz")
    assert (second.key, second.volume) == ("case_10", data / "imagesTr/x_0000.nii.gz")
    assert "numTraining" not in caplog.text
    skipped = "skipped 1 NIfTI, OME-Zarr, FreeSurfer, NRRD, MetaImage or DICOM image(s)"
    assert f"{skipped} that the field dataset of dataset.json does not" in caplog.text
    assert [case.key for case in find_cases(data, need_labels=False)] == ["case_2", "case_10"]


def test_channels_are_in_the_order_of_the_list(tmp_path):
    touch(tmp_path, "a.nii", "b.nii", "m.nii")
    describe(tmp_path, {"p": {"images": ["b.nii", "a.nii"], "label": "m.nii"}}, channel_names={"0": "T1", "1": "T2"})
    (case,) = find_cases(tmp_path)
    assert case.channels == (tmp_path / "b.nii", tmp_path / "a.nii")


GOOD = {"images": ["a.nii"], "label": "a.nii"}


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ([GOOD], r"dataset is \[.*Fix: name the files of each case as in nnU-Net"),
        ({}, r"dataset is \{\}"),
        ({"p": ["a.nii"]}, r"the case 'p' of dataset is \['a.nii'\]"),
        ({"p": {"images": "a.nii", "label": "a.nii"}}, "the case 'p' of dataset is"),
        ({"p": {"images": [], "label": "a.nii"}}, "the case 'p' of dataset is"),
        ({"p": {"images": [1], "label": "a.nii"}}, "the case 'p' of dataset is"),
        ({"p": {"images": ["a.nii"], "label": 1}}, "the case 'p' of dataset is"),
        ({"p": {"images": ["a.nii"]}}, "the case 'p' of dataset has no label"),
        ({"../p": GOOD}, "name of a case is '../p', which cannot be part of a file name"),
        ({"..": GOOD}, "name of a case is '..'"),
        ({"a\\b": GOOD}, "name of a case is"),
        ({"a\nb": GOOD}, r"name of a case is 'a\\nb'"),
        ({"": GOOD}, "name of a case is ''"),
        ({"p": {"images": ["b.nii"], "label": "a.nii"}}, r"names 1 file\(s\) that do not exist: .*b\.nii\. Fix"),
        ({"p": {"images": ["x" * 300], "label": "a\0.nii"}}, r"names 2 file\(s\) that do not exist"),
        (
            {"p": {"images": ["a.nii", "a.nii"], "label": "a.nii"}},
            r"has 2 image\(s\), but there are 1 channel\(s\)",
        ),
        ({"p": {"images": ["a.txt"], "label": "a.nii"}}, r"names .*a\.txt, which is not a \.nii"),
        ({"u\u0308": GOOD, "\u00fc": GOOD}, "occurs twice, in two forms of Unicode"),
    ],
)
def test_faults_of_the_list_are_named(tmp_path, dataset, message):
    touch(tmp_path, "a.nii", "a.txt")
    describe(tmp_path, dataset)
    with pytest.raises(DataError, match=rf"^{re.escape(str(tmp_path / FILE))}: .*{message}"):
        find_cases(tmp_path)


def test_listed_cases_outside_of_the_folder_are_converted_and_planned(tmp_path, store, arrays):
    hu, labels = arrays()
    for name, array in (("scan", hu), ("mask", labels.clip(0, 1))):
        store(tmp_path / f"elsewhere/{name}.nii.gz", array)
    data = tmp_path / "data"
    describe(data, {"p": {"images": ["../elsewhere/scan.nii.gz"], "label": str(tmp_path / "elsewhere/mask.nii.gz")}})
    assert convert(data, tmp_path / "out", 4, progress=False) == ["p"]
    source = read_manifest(tmp_path / "out").sources["p"]
    assert source.labels == str(tmp_path / "elsewhere/mask.nii.gz")
    assert convert(data, tmp_path / "out", 4, progress=False) == ["p"]
    for _ in range(2):  # the second time from the file
        assert [case.key for case in read_fingerprint(data, tmp_path / "f.json", progress=False).cases] == ["p"]
