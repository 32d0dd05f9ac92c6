import pytest

from mtf_imaging.data.cases.cases import find_cases
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
        "skipped 4 NIfTI file(s) whose names do not match the other cases: old/scan0.nii.gz, old/scan1.nii.gz, "
    ) in caplog.text


def test_every_unpaired_file_is_named(tmp_path):
    touch(tmp_path, "volume-1.nii", "volume-2.nii", "segmentation-2.nii", "segmentation-3.nii")
    with pytest.raises(DataError, match=r"volume-1\.nii has no segmentation-1.*segmentation-3\.nii has no volume"):
        find_cases(tmp_path)
    assert [case.key for case in find_cases(tmp_path, need_labels=False)] == ["1", "2"]
    touch(tmp_path, "imagesTr/liver_0.nii.gz")
    with pytest.raises(
        DataError, match=rf"liver_0.* Fix: add .*, remove these, or give the parent folder, {tmp_path}\."
    ):
        find_cases(tmp_path / "imagesTr")


def test_two_files_of_one_key(tmp_path):
    touch(tmp_path, "volume-1.nii", "old/volume-1.nii.gz")
    with pytest.raises(DataError, match=r"both files belong to case '1'"):
        find_cases(tmp_path, need_labels=False)


def test_folders_without_cases(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        find_cases(tmp_path / "missing")
    with pytest.raises(DataError, match=r"missing\.nii: this volume does not exist"):
        find_cases(tmp_path / "missing.nii", need_labels=False)
    with pytest.raises(DataError, match=r"contains no NIfTI file\..*volume-N"):
        find_cases(tmp_path)
    touch(tmp_path, "scan.nii")
    with pytest.raises(DataError, match=r"contains 1 NIfTI file\(s\), such as scan.nii, but no case"):
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
        assert "Fix: restore the files or delete the links." in str(error.value)


def test_a_link_to_a_missing_folder_logs_a_warning(tmp_path, caplog):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii")
    (tmp_path / "more").symlink_to(tmp_path / "gone")
    assert [case.key for case in find_cases(tmp_path)] == ["1"]
    assert f"{tmp_path / 'more'}: this link points to {tmp_path / 'gone'}, which does not exist" in caplog.text


def test_cases_behind_linked_folders_are_read(tmp_path):
    touch(tmp_path, "disk/imagesTr/a.nii", "disk/labelsTr/a.nii", "set/dataset.json")
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
