import pytest

from mtf_imaging.data.cases import find_cases
from mtf_imaging.errors import DataError


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


def test_one_file_is_a_case_where_no_labels_are_needed(tmp_path):
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


def test_files_of_other_names_are_left_out_by_name(tmp_path, caplog):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii", *(f"old/scan{n}.nii.gz" for n in range(4)), "notes.txt")
    assert [case.key for case in find_cases(tmp_path)] == ["1"]
    left_out = (
        "4 NIfTI file(s) named unlike the other cases are left out: old/scan0.nii.gz, old/scan1.nii.gz, old/scan2"
    )
    assert left_out in caplog.text


def test_every_unpaired_file_is_named(tmp_path):
    touch(tmp_path, "volume-1.nii", "volume-2.nii", "segmentation-2.nii", "segmentation-3.nii")
    with pytest.raises(DataError, match=r"volume-1\.nii has no segmentation-1.*segmentation-3\.nii has no volume"):
        find_cases(tmp_path)
    assert [case.key for case in find_cases(tmp_path, need_labels=False)] == ["1", "2"]
    touch(tmp_path, "imagesTr/liver_0.nii.gz")
    with pytest.raises(DataError, match=rf"liver_0.* Fix: add or remove them, or give the folder above, {tmp_path}\."):
        find_cases(tmp_path / "imagesTr")


def test_two_files_of_one_key(tmp_path):
    touch(tmp_path, "volume-1.nii", "old/volume-1.nii.gz")
    with pytest.raises(DataError, match=r"both claim case '1'"):
        find_cases(tmp_path, need_labels=False)


def test_folders_without_cases(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        find_cases(tmp_path / "missing")
    with pytest.raises(DataError, match=r"missing\.nii: this volume does not exist"):
        find_cases(tmp_path / "missing.nii", need_labels=False)
    with pytest.raises(DataError, match=r"holds no NIfTI file\..*volume-N"):
        find_cases(tmp_path)
    touch(tmp_path, "scan.nii")
    with pytest.raises(DataError, match=r"holds no cases among 1 NIfTI file\(s\), such as scan.nii"):
        find_cases(tmp_path)
    with pytest.raises(DataError, match="is a file, not a folder"):
        find_cases(tmp_path / "scan.nii")
    touch(tmp_path, "tests/test-volume-1.nii")
    with pytest.raises(DataError, match=r"1 test volume\(s\) and no segmentation"):
        find_cases(tmp_path)
