import dataclasses
import json
import math
import os
import pickle

import numpy as np
import pytest

from mtf_imaging.data.description.dataset_json import FILE, find_description, read_description, write_description
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.data.intensities.schemes import Intensity
from mtf_imaging.errors import DataError
from tests.storage import as_nobody

# The values of the Decathlon's first task.
BRATS = {
    "name": "BRATS",
    "tensorImageSize": "4D",
    "modality": {"0": "FLAIR", "1": "T1w", "2": "t1gd", "3": "T2w"},
    "labels": {"0": "background", "1": "edema", "2": "non-enhancing tumor", "3": "enhancing tumour"},
    "numTraining": 484,
    "training": [{"image": "./imagesTr/BRATS_457.nii.gz", "label": "./labelsTr/BRATS_457.nii.gz"}],
}
DECATHLON_LIVER = {
    "tensorImageSize": "3D",
    "modality": {"0": "CT"},
    "labels": {"0": "background", "1": "liver", "2": "cancer"},
    "numTraining": 131,
}
PROSTATE = {
    "channel_names": {"0": "T2", "1": "ADC"},
    "labels": {"background": 0, "PZ": 1, "TZ": 2},
    "numTraining": 32,
    "file_ending": ".nii.gz",
}
REGIONS = {
    "channel_names": {"0": "FLAIR", "1": "T1w"},
    "labels": {"background": 0, "whole tumor": [1, 2, 3], "core": [2, 3], "enhancing": 3, "ignore": 4},
    "regions_class_order": [1, 2, 3],
    "file_ending": ".nii.gz",
}


def write(folder, fields):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(fields if isinstance(fields, str) else json.dumps(fields))


def test_labels_and_channels_of_nnunet(tmp_path):
    write(tmp_path, PROSTATE)
    description = read_description(tmp_path)
    assert description.channels == ("T2", "ADC")
    assert description.labels == {"PZ": 1, "TZ": 2}
    assert description.masks == {"PZ": (1,), "TZ": (2,)}
    assert (description.region_order, description.ignore, description.lesions) == (None, None, ())
    assert (description.rules, description.file_ending, description.num_outputs) == ("any", ".nii.gz", 3)
    assert [str(intensity) for intensity in description.intensities] == ["z-score", "z-score"]


def test_labels_and_modalities_of_the_decathlon(tmp_path):
    write(tmp_path, BRATS)
    description = read_description(tmp_path)
    assert description.channels == ("FLAIR", "T1w", "t1gd", "T2w")
    assert description.labels == {"edema": 1, "non-enhancing tumor": 2, "enhancing tumour": 3}
    assert description.file_ending == ".nii.gz"


def test_channels_and_labels_are_ordered_by_number():
    channels = {str(number): f"c{number}" for number in (10, 2, *range(2), *range(3, 10))}
    description = from_fields({"channel_names": channels, "labels": {"b": 2, "background": 0, "a": 1}})
    assert description.channels == tuple(f"c{number}" for number in range(11))
    assert list(description.labels) == ["a", "b"]


def test_regions_and_the_ignore_label():
    description = from_fields(REGIONS)
    assert description.labels == {"label 1": 1, "label 2": 2, "enhancing": 3}
    assert list(description.masks.items()) == [("whole tumor", (1, 2, 3)), ("core", (2, 3)), ("enhancing", (3,))]
    assert (description.region_order, description.ignore, description.num_outputs) == ((1, 2, 3), 4, 3)
    painted = description.to_labels(np.array([[0.9, 0.2, 0.1], [0.9, 0.8, 0.1], [0.9, 0.8, 0.7], [0.1, 0.1, 0.1]]))
    assert painted.tolist() == [1, 2, 3, 0]


def test_masks_of_labels_that_a_softmax_predicts():
    fields = {**PROSTATE, "masks": {"prostate": [2, 1], "TZ": 2}, "lesions": ["TZ"]}
    description = from_fields(fields)
    assert description.region_order is None
    assert list(description.masks.items()) == [("prostate", (1, 2)), ("TZ", (2,))]
    assert description.lesions == ("TZ",)


@pytest.mark.parametrize("lesion", ["cancer", "tumor", "tumour", "lesion", "Tumour"])
@pytest.mark.parametrize("channel", ["CT", "ct"])
def test_one_ct_of_the_liver_and_its_lesions_is_lits(lesion, channel):
    labels = {"background": 0, lesion: 2, "liver": 1}
    fields = {"channel_names": {"0": channel}, "labels": labels, "file_ending": ".nii"}
    expected = dataclasses.replace(LITS, file_ending=".nii")
    assert from_fields(fields) == expected
    assert from_fields({**fields, "lesions": [lesion]}) == expected
    assert from_fields({**fields, "rules": "lits"}) == expected
    assert from_fields(DECATHLON_LIVER) == LITS


@pytest.mark.parametrize(
    "changes",
    [
        {"rules": "any"},
        {"channel_names": {"0": "MRI"}},
        {"channel_names": {"0": "CT", "1": "CT"}},
        {"labels": {"background": 0, "liver": 1, "vessel": 2}},
        {"labels": {"background": 0, "liver": 2, "lesion": 1}},
        {"labels": {"background": 0, "liver": 1, "lesion": 2, "ignore": 3}},
        {"labels": {"background": 0, "liver": 1, "lesion": 2, "vessel": 3}},
        {"labels": {"background": 0, "liver": [1, 2], "lesion": 2}, "regions_class_order": [1, 2]},
        {"masks": {"liver": [1, 2], "lesion": [2]}},
        {"lesions": ["liver"]},
    ],
)
def test_other_data_does_not_get_the_rules_of_lits(changes):
    description = from_fields({**as_fields(LITS), "intensities": None, "lesions": None, **changes})
    assert description.rules == "any"
    assert from_fields(as_fields(description)) == description


def test_lits_keeps_a_window_of_its_file():
    description = from_fields({**DECATHLON_LIVER, "intensities": ["window -160 240"]})
    assert description == dataclasses.replace(LITS, intensities=(Intensity("window", (-160, 240)),))


DESCRIPTIONS = {
    "LiTS": LITS,
    "LiTS with another window": dataclasses.replace(LITS, intensities=(Intensity("window", (-100, 200)),)),
    "LiTS scored by other rules": dataclasses.replace(LITS, rules="any"),
    "labels": from_fields(PROSTATE),
    "labels with masks": from_fields({**PROSTATE, "masks": {"prostate": [1, 2]}, "lesions": ["prostate"]}),
    "labels with the ignore label": from_fields({**PROSTATE, "labels": {"PZ": 1, "TZ": 2, "ignore": 3}}),
    "regions": from_fields(REGIONS),
    "regions with names of labels": Description(
        channels=("FLAIR", "T1w"),
        labels={"edema": 1, "core": 2, "enhancing": 3},
        masks={"whole": (1, 2, 3), "core": (2, 3), "enhancing tumor": (3,)},
        region_order=(1, 2, 3),
        lesions=("whole",),
        intensities=(Intensity("z-score of nonzero voxels"), Intensity("percentiles")),
    ),
    "single labels by a sigmoid": Description(("T1",), {"a": 1, "b": 2}, {"a": (1,), "b": (2,)}, region_order=(1, 2)),
    "values with gaps": Description(
        ("T1",), {"a": 1, "b": 2}, {"c": (1, 2), "b": (2,)}, ignore=3, stored={1: 205, 2: 420, 3: 500}
    ),
    "regions with gaps": Description(
        ("T1",), {"label 1": 1, "b": 2}, {"a": (1, 2), "b": (2,)}, region_order=(1, 2), stored={1: 1, 2: 4}
    ),
    "2-D": Description(("rgb_to_0_1",) * 3, {"road": 1}, {"road": (1,)}, file_ending=".png"),
}


@pytest.mark.parametrize("description", DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())
def test_a_written_description_is_read_again(tmp_path, description):
    path = write_description(tmp_path / "new", description, 7, {"name": "Phantoms"})
    assert path == tmp_path / "new" / FILE
    read = read_description(tmp_path / "new")
    assert read == description
    assert list(read.masks) == list(description.masks)  # the order of the regions
    assert find_description(tmp_path / "new") == (description, 7)
    fields = json.loads(path.read_text())
    assert (fields["numTraining"], fields["name"]) == (7, "Phantoms")
    assert {"channel_names", "labels", "file_ending"} <= fields.keys()
    assert pickle.loads(pickle.dumps(description)) == description


def test_written_regions_have_the_format_of_nnunet():
    fields = as_fields(DESCRIPTIONS["regions with names of labels"])
    assert fields["labels"] == {"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing tumor": 3}
    assert fields["regions_class_order"] == [1, 2, 3]
    assert fields["channel_names"] == {"0": "FLAIR", "1": "T1w"}
    assert fields["intensities"] == ["z-score of nonzero voxels", "percentiles"]


def test_folders_without_a_description(tmp_path, caplog):
    assert read_description(tmp_path) is None
    assert read_description(tmp_path / "missing") is None
    write(tmp_path, {"format": 3, "resolution": "64", "spacing": "", "cases": []})  # a manifest of records
    assert read_description(tmp_path) is None
    assert caplog.text == ""


def test_an_empty_file_is_refused(tmp_path):
    write(tmp_path, "")
    with pytest.raises(
        DataError, match=r"dataset.json: this file is empty\. Fix: describe the data in it, or remove it"
    ):
        read_description(tmp_path)


@pytest.mark.parametrize(
    ("count", "shown"), [("two", "'two'"), (True, "True"), (-1, "-1"), (math.nan, "nan"), (2.5, "2.5")]
)
def test_a_number_of_cases_is_a_whole_number(tmp_path, count, shown):
    write(tmp_path, {**PROSTATE, "numTraining": count})
    with pytest.raises(DataError, match=rf"dataset.json: numTraining is {shown}, not a whole number\. Fix: correct it"):
        find_description(tmp_path)


@pytest.mark.parametrize("name", ["", "imagesTr", "labelsTr", "imagesTs"])
def test_the_file_is_found_beside_the_images(tmp_path, name):
    write(tmp_path, PROSTATE)
    (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / name / "a.nii").touch()
    assert find_description(tmp_path / name) == (from_fields(PROSTATE), 32)
    assert find_description(tmp_path / name / "a.nii") == (from_fields(PROSTATE), 32)


def test_the_file_is_not_found_beside_other_folders(tmp_path):
    write(tmp_path, PROSTATE)
    (tmp_path / "scans").mkdir()
    assert find_description(tmp_path / "scans") == (None, None)


def test_data_sets_in_subfolders(tmp_path):
    write(tmp_path / "notes", "no JSON, but also no data set")
    for name in ("a", "b"):
        write(tmp_path / name, PROSTATE)
        (tmp_path / name / "imagesTr").mkdir()
    assert find_description(tmp_path) == (from_fields(PROSTATE), 64)
    write(tmp_path / "b", BRATS)
    with pytest.raises(
        DataError, match=rf"{tmp_path}: contains two data sets.*{tmp_path}/a/{FILE} and {tmp_path}/b/{FILE}\. Fix: "
    ):
        find_description(tmp_path)


def test_a_count_that_is_not_stated(tmp_path):
    write(tmp_path, {key: value for key, value in PROSTATE.items() if key != "numTraining"})
    assert find_description(tmp_path) == (from_fields(PROSTATE), None)


def test_an_unreadable_file_is_named(open_folder):
    write(open_folder, PROSTATE)
    (open_folder / FILE).chmod(0)
    with as_nobody(), pytest.raises(DataError, match=rf"{open_folder / FILE}: Permission denied\. Fix: allow"):
        read_description(open_folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"not a JSON file \(.*\)\. Fix: correct it"),
        ("[1]", r"contains a list instead of an object"),
    ],
)
def test_files_that_are_not_objects(tmp_path, text, message):
    write(tmp_path, text)
    with pytest.raises(DataError, match=rf"^{tmp_path / FILE}: {message}") as error:
        read_description(tmp_path)
    assert "Fix: " in str(error.value)


def test_bytes_that_are_not_text(tmp_path):
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=rf"^{tmp_path / FILE}: not a JSON file"):
        read_description(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"channel_names": {"0": "CT"}, "labels": {"liver": 1, "spleen": 2, "liver": 3}}', "'liver' occurs twice"),
        ('{"labels": ' * 100_000, "nested too deeply"),
        ('{"numTraining": ' + "1" * 5000 + "}", "Exceeds the limit"),
        (
            '{"channel_names": {"0": "CT"}, "labels": {"' + "1" * 5000 + '": "liver"}}',
            "where a number or a name is missing",
        ),
    ],
)
def test_hostile_or_ambiguous_text_names_the_file(tmp_path, text, message):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_description(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / FILE}: ")


@pytest.mark.parametrize("name", ["a\nb", "a\x00", "a\x1b[31m"])
def test_names_have_no_control_characters(tmp_path, name):
    for fields in ({**PROSTATE, "labels": {"background": 0, name: 1}}, {**PROSTATE, "channel_names": {"0": name}}):
        write(tmp_path, fields)
        with pytest.raises(DataError, match=r"(give it a name without control characters|name each)"):
            read_description(tmp_path)


def test_a_description_is_a_regular_file(tmp_path):
    (tmp_path / FILE).symlink_to(tmp_path / "missing.json")
    with pytest.raises(DataError, match=rf"^{tmp_path / FILE}: No such file"):
        read_description(tmp_path)
    (tmp_path / FILE).unlink()
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(DataError, match=rf"^{tmp_path / FILE}: is a named pipe, not a file"):
        read_description(tmp_path)


def labels(**values):
    return {**PROSTATE, "labels": values}


def regions(order, **values):
    return {**labels(**values), "regions_class_order": order}


FAULTS = {
    "no channels": ({"labels": {"a": 1}}, "its channels, modality of .* are None"),
    "channels as a list": (
        {**PROSTATE, "channel_names": ["CT"]},
        r"channel_names .*\['CT'\]\. Fix: number them from 0",
    ),
    "no channel": ({**BRATS, "modality": {}}, r"modality .* are \{\}"),
    "channels from 1": ({**PROSTATE, "channel_names": {"1": "CT"}}, r"are \{'1': 'CT'\}\. Fix: number them from 0"),
    "a number with a zero": ({**PROSTATE, "channel_names": {"00": "CT"}}, r"are \{'00': 'CT'\}"),
    "an empty modality": ({**BRATS, "modality": {"0": ""}}, r"are \{'0': ''\}\. Fix: .* name each"),
    "a modality of another type": ({**BRATS, "modality": {"0": None}}, r"are \{'0': None\}"),
    "no labels": ({"channel_names": {"0": "CT"}}, "labels is None"),
    "labels as a list": ({**PROSTATE, "labels": ["a"]}, r"labels is \['a'\]"),
    "only the background": (labels(background=0), "the labels are only the background"),
    "only the ignored": (labels(background=0, ignore=1), "the labels are only the background and ignore = 1"),
    "two names": (labels(a=1, b=1), "the labels are a = 1, b = 1"),
    "a background that is not 0": (labels(background=1, a=2), "label 'background' is 1, but 0 is"),
    "a background of the Decathlon": ({**BRATS, "labels": {"0": "liver", "1": "background"}}, "'liver' is 0, but 0 is"),
    "a label of 0": (labels(liver=0, lesion=1), "label 'liver' is 0, but 0 is the value of the background alone"),
    "a region with the background": (regions([1], a=[0, 1]), "label 'a' is 0, 1, but 0 is the value"),
    "above 16 bits": (labels(a=1, b=65_536), r"label 'b' is 65536\. Fix: .*up to 65535"),
    "too many": (
        labels(**{f"a{number}": number for number in range(1, 257)}),
        "give each of at most 255 labels a value",
    ),
    "negative": (labels(a=-1), r"label 'a' is -1\. Fix: .*a whole number"),
    "a fraction": (labels(a=1.5), r"label 'a' is 1\.5\. Fix: "),
    "a truth value": (labels(a=True), r"label 'a' is True\. Fix: "),
    "an empty region": (regions([1], a=[]), r"label 'a' is \[\]"),
    "a label twice": (regions([1], a=[1, 1]), r"label 'a' is \[1, 1\]"),
    "no name": (labels(**{"": 1}), r"label '' is 1\. Fix: give it a name"),
    "no number": (
        {**BRATS, "labels": {"liver": "1"}},
        r"labels is \{'liver': '1'\}, where a number or a name is missing",
    ),
    "a name twice": ({**BRATS, "labels": {"1": "a", "2": "a"}}, "labels is .*, where .* occurs twice"),
    "an ignored region": (labels(a=1, ignore=[2, 3]), "the labels are a = 1 and ignore = 2, 3"),
    "ignore below": (labels(a=1, b=3, ignore=2), r"a = 1, b = 3 and ignore = 2\. Fix: .*the last one may be 'ignore'"),
    "no order": (labels(a=[1, 2], b=2), r"regions_class_order is None, but the regions are a = 1, 2, b = 2"),
    "a short order": (
        regions([1], a=[1, 2], b=2),
        r"regions_class_order is \[1\], but the regions are a = 1, 2, b = 2",
    ),
    "an order of names": (regions(["a", "b"], a=[1, 2], b=2), r"regions_class_order is \['a', 'b'\]"),
    "another label": (regions([1, 1], a=[1, 2], b=2), r"regions_class_order is \[1, 1\], but the regions are"),
    "a hidden region": (regions([2, 1], b=2, a=[1, 2]), r"region 'a' \(1, 2\) hides 'b' \(2\)"),
    "masks and regions": ({**regions([1, 2], a=[1, 2], b=2), "masks": {"a": 1}}, "masks cannot be combined"),
    "names of other labels": ({**REGIONS, "label_names": {"a": 1}}, r"label_names is .*the labels 1, 2, 3\."),
    "masks as a list": ({**PROSTATE, "masks": [1]}, r"masks is \[1\]"),
    "a mask of no label": (
        {**PROSTATE, "masks": {"a": [1, 3]}},
        r"masks is \{'a': \[1, 3\]\}, but the labels are PZ = 1",
    ),
    "lesions of no mask": ({**PROSTATE, "lesions": ["tumor"]}, "lesions names tumor, but the labels are PZ, TZ"),
    "lesions as a string": ({**PROSTATE, "lesions": "TZ"}, "lesions is 'TZ'"),
    "a file ending": (
        {**PROSTATE, "file_ending": ".mnc"},
        r"file_ending is '\.mnc'.*Fix: .*one of \.nii, \.nii\.gz, \.png",
    ),
    "a misspelled ending": ({**PROSTATE, "file_ending": "nii.gz"}, r"Did you mean '\.nii\.gz'\?"),
    "an ending of another type": ({**PROSTATE, "file_ending": 1}, "file_ending is 1"),
    "intensities": ({**PROSTATE, "intensities": ["z-score"]}, r"intensities: 1 intensities, but 2 channel\(s\)"),
    "an intensity": ({**PROSTATE, "intensities": ["z-scor", "none"]}, "'z-scor' is unknown. Did you mean 'z-score'"),
    "rules": ({**PROSTATE, "rules": "brats"}, "rules is 'brats'"),
    "rules of LiTS": ({**PROSTATE, "rules": "lits"}, "rules is 'lits', but the labels are PZ = 1, TZ = 2 and the"),
}


@pytest.mark.parametrize(("fields", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_are_named(tmp_path, fields, message):
    write(tmp_path, fields)
    with pytest.raises(DataError, match=rf"^{tmp_path / FILE}: .*{message}") as error:
        read_description(tmp_path)
    assert "Fix: " in str(error.value)
