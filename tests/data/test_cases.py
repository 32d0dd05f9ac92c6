import json

import pytest

from mtf_imaging.data.cases.cases import find_cases, find_data_set
from mtf_imaging.data.cases.hold_out import hold_out
from mtf_imaging.data.description.dataset_json import write_description
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.errors import DataError
from tests.storage import as_nobody


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_lits_names_in_subfolders_are_paired_and_sorted_naturally(tmp_path):
    touch(tmp_path, "a/volume-10.nii", "b/segmentation-10.nii.gz", "volume-2.nii.gz", "segmentation-2.nii", "notes.txt")
    cases = find_cases(tmp_path)
    assert [case.key for case in cases] == ["2", "10"]
    assert cases[1].volume == tmp_path / "a/volume-10.nii"
    assert cases[1].labels == tmp_path / "b/segmentation-10.nii.gz"
    assert cases[1].prediction_name == "segmentation-10.nii.gz"


def test_test_cases_need_no_labels(tmp_path):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii", "test-volume-1.nii")
    assert [case.key for case in find_cases(tmp_path)] == ["1"]
    cases = {case.key: case for case in find_cases(tmp_path, need_labels=False)}
    assert cases.keys() == {"1", "test-1"}
    assert cases["test-1"].labels is None
    assert cases["test-1"].prediction_name == "test-segmentation-1.nii.gz"


@pytest.mark.parametrize(
    ("volume", "labels"),
    [
        ("imagesTr/liver_7.nii.gz", "labelsTr/liver_7.nii.gz"),
        ("Task03_Liver/imagesTr/liver_7.nii.gz", "Task03_Liver/labelsTr/liver_7.nii.gz"),
        ("imagesTr/liver_7_0000.nii.gz", "labelsTr/liver_7.nii.gz"),
    ],
)
def test_msd_and_nnunet_names(tmp_path, volume, labels):
    apple_double = volume.replace("liver", "._liver")
    touch(tmp_path, volume, labels, apple_double, volume.replace("Tr", "Ts").replace("7", "8"))
    (case,) = find_cases(tmp_path)
    assert (case.key, case.volume, case.labels) == ("liver_7", tmp_path / volume, tmp_path / labels)
    assert case.prediction_name == "liver_7.nii.gz"
    assert [case.key for case in find_cases(tmp_path, need_labels=False)] == ["liver_7", "liver_8"]


def test_one_file_is_a_case_if_no_labels_are_needed(tmp_path):
    touch(tmp_path, "volume-5.nii.gz", "patient.nii")
    assert find_cases(tmp_path / "volume-5.nii.gz", need_labels=False)[0].prediction_name == "segmentation-5.nii.gz"
    assert find_cases(tmp_path / "patient.nii", need_labels=False)[0].key == "patient"


@pytest.mark.parametrize(
    ("volume", "key"),
    [
        ("imagesTs/liver_131.nii.gz", "liver_131"),
        ("imagesTs/CASE_131_0000.nii.gz", "CASE_131"),
        ("day 1/a b.nii", "a b"),
    ],
)
def test_a_folder_of_volumes_alone_can_be_segmented(tmp_path, volume, key):
    touch(tmp_path, volume, f"{volume.split('/')[0]}/._hidden.nii")
    (case,) = find_cases((tmp_path / volume).parent, need_labels=False)
    assert (case.key, case.volume, case.prediction_name) == (key, tmp_path / volume, f"{key}.nii.gz")
    with pytest.raises(DataError):
        find_cases((tmp_path / volume).parent)


def test_files_with_other_names_are_skipped_with_a_warning(tmp_path, caplog):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii", *(f"old/scan{n}.nii.gz" for n in range(4)), "notes.txt")
    assert [case.key for case in find_cases(tmp_path)] == ["1"]
    assert (
        "skipped 4 NIfTI, OME-Zarr, FreeSurfer, NRRD, MetaImage or DICOM image(s) whose names do not match the other "
        "cases: "
        "old/scan0.nii.gz, "
        "old/scan1.nii.gz, "
    ) in caplog.text


def test_a_list_of_pairs_keeps_the_numbers_of_channels(tmp_path):
    touch(tmp_path, "imagesTr/c_0_0000.nii.gz", "labelsTr/c_0.nii.gz")
    pairs = [{"image": "./imagesTr/c_0_0000.nii.gz", "label": "./labelsTr/c_0.nii.gz"}]
    fields = {"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1}, "training": pairs}
    (tmp_path / "dataset.json").write_text(json.dumps(fields))
    assert [case.key for case in find_cases(tmp_path)] == ["c_0"]


def test_every_unpaired_file_is_named(tmp_path):
    touch(tmp_path, "volume-1.nii", "volume-2.nii", "segmentation-2.nii", "segmentation-3.nii")
    with pytest.raises(DataError, match=r"volume-1\.nii has no segmentation-1.*segmentation-3\.nii has no volume"):
        find_cases(tmp_path)
    assert [case.key for case in find_cases(tmp_path, need_labels=False)] == ["1", "2"]
    touch(tmp_path, "imagesTr/liver_0.nii.gz")
    with pytest.raises(
        DataError, match=rf"liver_0.* Fix: add .*correct the names.*, or give the parent folder, {tmp_path}\."
    ):
        find_cases(tmp_path / "imagesTr")


def test_two_files_of_one_key(tmp_path):
    touch(tmp_path, "volume-1.nii", "old/volume-1.nii.gz")
    with pytest.raises(DataError, match=r"both belong to case '1'"):
        find_cases(tmp_path, need_labels=False)


def test_folders_without_cases(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        find_cases(tmp_path / "missing")
    with pytest.raises(DataError, match=r"missing\.nii: this volume does not exist"):
        find_cases(tmp_path / "missing.nii", need_labels=False)
    with pytest.raises(
        DataError, match=r"contains no NIfTI, OME-Zarr, FreeSurfer, NRRD, MetaImage or DICOM image\..*volume-N"
    ):
        find_cases(tmp_path)
    touch(tmp_path, "scan.nii")
    with pytest.raises(DataError, match=r"contains 1 NIfTI, OME.* image\(s\), such as scan.nii, but no case"):
        find_cases(tmp_path)
    with pytest.raises(DataError, match="is a file, not a folder"):
        find_cases(tmp_path / "scan.nii")
    touch(tmp_path, "tests/test-volume-1.nii")
    with pytest.raises(DataError, match=r"1 test volume\(s\) and no segmentation"):
        find_cases(tmp_path)


def test_broken_links_are_named(tmp_path):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii")
    for name in ("volume-2.nii.gz", "segmentation-2.nii.gz"):
        (tmp_path / name).symlink_to(tmp_path / "gone" / name)
    for need_labels in (True, False):
        with pytest.raises(DataError) as error:
            find_cases(tmp_path, need_labels)
        for name in ("volume-2.nii.gz", "segmentation-2.nii.gz"):
            assert f"{tmp_path / name} -> {tmp_path / 'gone' / name}" in str(error.value)
        assert "2 link(s) point to missing files" in str(error.value)
        assert "Fix: restore the files, or correct the links." in str(error.value)


def test_a_link_to_a_missing_folder_logs_a_warning(tmp_path, caplog):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii")
    (tmp_path / "more").symlink_to(tmp_path / "gone")
    assert [case.key for case in find_cases(tmp_path)] == ["1"]
    assert f"{tmp_path / 'more'}: this link points to {tmp_path / 'gone'}, which does not exist" in caplog.text


def test_cases_behind_linked_folders_are_read(tmp_path):
    touch(tmp_path, "disk/imagesTr/a.nii", "disk/labelsTr/a.nii", "set/notes.txt")
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / "set" / name).symlink_to(tmp_path / "disk" / name)
    (tmp_path / "disk/imagesTr/loop").symlink_to(tmp_path / "disk/imagesTr")
    (case,) = find_cases(tmp_path / "set")
    assert (case.key, case.volume) == ("a", tmp_path / "set/imagesTr/a.nii")


@pytest.mark.parametrize("closed", ["set", "set/imagesTr"])
def test_an_unreadable_folder_is_named(open_folder, closed):
    touch(open_folder, "set/imagesTr/a.nii", "set/labelsTr/a.nii")
    (open_folder / closed).chmod(0)
    with as_nobody(), pytest.raises(DataError, match=rf"{open_folder / closed}: Permission denied\. Fix: allow"):
        find_cases(open_folder / "set")


@pytest.mark.parametrize("need_labels", [True, False])
def test_several_channels_are_refused(tmp_path, need_labels):
    channels = [f"imagesTr/{case}_000{n}.nii.gz" for case in ("a", "b") for n in range(3)]
    touch(tmp_path, *channels, "labelsTr/a.nii.gz", "labelsTr/b.nii.gz")
    text = r"case 'a' has 3 channels \(a_0000\.nii\.gz, a_0001\.nii\.gz, a_0002\.nii\.gz\); 1 other case.*Fix: keep"
    with pytest.raises(DataError, match=text):
        find_cases(tmp_path, need_labels)


def test_volumes_with_names_of_channels_log_a_warning(tmp_path, caplog):
    touch(tmp_path, "a_0000.nii", "a_0001.nii", "b_0000.nii")
    assert len(find_cases(tmp_path, need_labels=False)) == 3
    assert "a_0000.nii, a_0001.nii are named like the channels of one case" in caplog.text


def describe(folder, channels=("FLAIR", "T1w"), file_ending=".nii.gz", num_training=2):
    description = Description(channels, {"tumor": 1}, {"tumor": (1,)}, file_ending=file_ending)
    write_description(folder, description, num_training)
    return description


def names(case):
    return [file.name for file in case.channels]


def test_a_case_of_one_file_has_one_channel(tmp_path):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii")
    (case,) = find_cases(tmp_path)
    assert case.channels == (case.volume,)
    assert find_data_set(tmp_path)[:2] == (LITS, [case])


@pytest.mark.parametrize("need_labels", [True, False])
def test_channels_are_found_in_the_order_of_their_numbers(tmp_path, caplog, need_labels):
    description = describe(tmp_path)
    touch(tmp_path, *(f"imagesTr/{case}_000{n}.nii.gz" for case in ("b", "a") for n in (1, 0)))
    touch(tmp_path, "labelsTr/a.nii.gz", "labelsTr/b.nii.gz")
    found, cases, _ = find_data_set(tmp_path, need_labels)
    assert found == description
    assert [(case.key, names(case)) for case in cases] == [
        ("a", ["a_0000.nii.gz", "a_0001.nii.gz"]),
        ("b", ["b_0000.nii.gz", "b_0001.nii.gz"]),
    ]
    assert cases[0].volume == cases[0].channels[0] == tmp_path / "imagesTr/a_0000.nii.gz"
    assert cases[0].prediction_name == "a.nii.gz"
    assert caplog.text == ""


def test_a_file_of_the_decathlon_has_all_channels(tmp_path):
    describe(tmp_path, num_training=1)
    touch(tmp_path, "imagesTr/BRATS_1.nii.gz", "labelsTr/BRATS_1.nii.gz", "imagesTs/BRATS_2.nii.gz")
    (case,) = find_cases(tmp_path)
    assert (case.key, names(case)) == ("BRATS_1", ["BRATS_1.nii.gz"])


def test_a_missing_channel_is_named(tmp_path):
    describe(tmp_path, ("FLAIR", "T1w", "T2w"))
    touch(tmp_path, "imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz", "imagesTr/a_0002.nii.gz", "labelsTr/a.nii.gz")
    touch(tmp_path, "imagesTr/b_0001.nii.gz", "labelsTr/b.nii.gz", "imagesTr/c_0000.nii", "imagesTr/c_0002.nii")
    text = (
        r"case 'b' lacks b_0000\.nii\.gz, b_0002\.nii\.gz; case 'c' lacks c_0001\.nii, but dataset\.json has "
        r"3 channel\(s\), FLAIR, T1w, T2w\. Fix: add the missing files"
    )
    with pytest.raises(DataError, match=text):
        find_cases(tmp_path)


def test_many_cases_with_missing_channels_are_counted(tmp_path):
    describe(tmp_path)
    touch(tmp_path, *(f"imagesTr/c{case}_0000.nii.gz" for case in range(9)))
    with pytest.raises(DataError, match=r"'c2' lacks c2_0001\.nii\.gz; 6 other case\(s\) have the same fault, but"):
        find_cases(tmp_path, need_labels=False)


@pytest.mark.parametrize("channels", [("CT",), ("FLAIR", "T1w")])
def test_a_surplus_channel_is_named(tmp_path, channels):
    describe(tmp_path, channels)
    touch(tmp_path, *(f"imagesTr/a_000{n}.nii.gz" for n in range(len(channels) + 1)), "labelsTr/a.nii.gz")
    text = rf"case 'a' has a_000{len(channels)}\.nii\.gz, but dataset\.json has {len(channels)} channel.* move these"
    with pytest.raises(DataError, match=text):
        find_cases(tmp_path)


def test_two_files_of_one_channel(tmp_path):
    describe(tmp_path)
    touch(tmp_path, "imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz", "imagesTr/a_0001.nii", "labelsTr/a.nii.gz")
    with pytest.raises(DataError, match=r"both files are channel 0001 of case 'a'\. Fix: rename one"):
        find_cases(tmp_path)


def test_test_cases_without_all_channels_do_not_matter_for_training(tmp_path, caplog):
    describe(tmp_path, num_training=1)
    touch(tmp_path, "imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz", "labelsTr/a.nii.gz", "imagesTs/b_0001.nii.gz")
    assert [case.key for case in find_cases(tmp_path)] == ["a"]
    assert caplog.text == ""
    with pytest.raises(DataError, match=r"case 'b' lacks b_0000\.nii\.gz"):
        find_cases(tmp_path, need_labels=False)


def test_several_channels_without_a_description_name_the_fix(tmp_path):
    touch(tmp_path, "imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz", "labelsTr/a.nii.gz")
    with pytest.raises(DataError, match=r"no dataset\.json that describes them\. Fix: .* or add a dataset\.json with"):
        find_cases(tmp_path)


def test_a_given_description_replaces_that_of_the_folder(tmp_path):
    description = describe(tmp_path / "other")
    touch(tmp_path, "a_0000.nii.gz", "a_0001.nii.gz", "b_0000.nii.gz", "b_0001.nii.gz")
    found, cases, _ = find_data_set(tmp_path, need_labels=False, description=description)
    assert found is description
    assert [(case.key, names(case), case.prediction_name) for case in cases] == [
        ("a", ["a_0000.nii.gz", "a_0001.nii.gz"], "a.nii.gz"),
        ("b", ["b_0000.nii.gz", "b_0001.nii.gz"], "b.nii.gz"),
    ]
    (case,) = find_cases(tmp_path / "b_0000.nii.gz", need_labels=False, description=description)
    assert (case.key, names(case)) == ("b", ["b_0000.nii.gz", "b_0001.nii.gz"])
    (tmp_path / "b_0001.nii.gz").unlink()
    with pytest.raises(DataError, match=r"case 'b' lacks b_0001\.nii\.gz"):
        find_cases(tmp_path / "b_0000.nii.gz", need_labels=False, description=description)


def test_one_image_finds_its_channels_and_its_description(tmp_path):
    describe(tmp_path)
    touch(tmp_path, "imagesTs/a_0000.nii.gz", "imagesTs/a_0001.nii.gz", "imagesTs/ab_0000.nii.gz")
    (case,) = find_cases(tmp_path / "imagesTs/a_0000.nii.gz", need_labels=False)
    assert (case.key, names(case)) == ("a", ["a_0000.nii.gz", "a_0001.nii.gz"])


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_images_of_another_format(tmp_path, ending, caplog):
    description = describe(tmp_path, ("rgb_to_0_1",) * 3, ending)
    for case in ("a", "b"):  # one file has all colors
        touch(tmp_path, f"imagesTr/{case}_0000{ending}", f"labelsTr/{case}{ending}", f"imagesTr/{case}_0000.nii.gz")
    found, cases, _ = find_data_set(tmp_path)
    assert found == description
    assert [(case.key, names(case)) for case in cases] == [("a", [f"a_0000{ending}"]), ("b", [f"b_0000{ending}"])]
    assert (cases[0].labels, cases[0].prediction_name) == (tmp_path / f"labelsTr/a{ending}", f"a{ending}")
    assert caplog.text == ""
    touch(tmp_path, *(f"imagesTr/a_000{n}{ending}" for n in (1, 2)))
    with pytest.raises(DataError, match=rf"case 'b' lacks b_0001{ending}, b_0002{ending}"):
        find_cases(tmp_path)


def test_a_folder_without_images_of_the_format(tmp_path):
    describe(tmp_path, ("CT",), ".png")
    touch(tmp_path, "imagesTr/a.nii.gz")
    with pytest.raises(DataError, match=r"contains no PNG file\. Fix: .* imagesTr/NAME_0000 with labelsTr/NAME"):
        find_cases(tmp_path)
    with pytest.raises(DataError, match=r"missing\.png: this volume does not exist\. Fix: give a PNG file"):
        find_cases(tmp_path / "missing.png", need_labels=False)
    with pytest.raises(DataError, match=r"a\.nii\.gz: not a \.png file\. Fix: convert the volume to PNG"):
        find_cases(tmp_path / "imagesTr/a.nii.gz", need_labels=False)


def test_another_number_of_training_cases_logs_a_warning(tmp_path, caplog):
    describe(tmp_path, ("CT",), num_training=5)
    touch(tmp_path, "imagesTr/a.nii.gz", "labelsTr/a.nii.gz", "imagesTs/b.nii.gz")
    find_cases(tmp_path, need_labels=False)
    assert caplog.text == ""
    find_cases(tmp_path)
    assert f"{tmp_path}: contains 1 training case(s), but numTraining in dataset.json is 5" in caplog.text


def test_held_out_cases_keep_their_channels_and_their_description(tmp_path):
    description = describe(tmp_path / "cases", num_training=5)
    for key in "abcde":
        touch(tmp_path / "cases", *(f"imagesTr/{key}_000{n}.nii.gz" for n in range(2)), f"labelsTr/{key}.nii.gz")
    for _ in range(2):  # the second call accepts the files of the first
        (case,) = hold_out(tmp_path / "cases", tmp_path / "train", tmp_path / "held_out")
    assert (case.key, names(case)) == ("d", ["d_0000.nii.gz", "d_0001.nii.gz"])
    found, cases, _ = find_data_set(tmp_path / "train")
    assert (found, [case.key for case in cases]) == (description, ["a", "b", "c", "e"])
    write_description(tmp_path / "train", LITS, 4)
    with pytest.raises(DataError, match=r"train/dataset\.json: this file belongs to another run"):
        hold_out(tmp_path / "cases", tmp_path / "train", tmp_path / "held_out")


def test_held_out_cases_of_lits_need_no_description(tmp_path):
    write_description(tmp_path / "cases", LITS, 2)
    touch(tmp_path / "cases", *(f"{folder}/{key}.nii" for folder in ("imagesTr", "labelsTr") for key in "ab"))
    hold_out(tmp_path / "cases", tmp_path / "train", tmp_path / "held_out")
    assert not list(tmp_path.glob("[th]*/dataset.json"))
