"""Data sets with the names under which they are published: found, written as a list, and converted."""

import json
import re

import numpy as np
import pytest
from pydicom.uid import generate_uid

import mtf_imaging as mi
from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.cases.published import find_published
from mtf_imaging.data.cases.schemes import PUBLISHED
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.data.formats.dicom.label_codes import codes_of_labels
from mtf_imaging.data.reading.mask_folders import open_masks
from mtf_imaging.data.records.convert import convert
from mtf_imaging.errors import DataError
from tests.data.dicom_folder import write_series
from tests.data.reading import read_volume
from tests.jobs.test_inspecting import image, inspect, mask, save

BRATS = ("BraTS_1/BraTS_1_flair", "BraTS_1/BraTS_1_t1", "BraTS_1/BraTS_1_t1ce", "BraTS_1/BraTS_1_t2")
NEW_BRATS = ("BraTS-GLI-1/BraTS-GLI-1-t1c", "BraTS-GLI-1/BraTS-GLI-1-t1n", "BraTS-GLI-1/BraTS-GLI-1-t2f")
# {title: (images, {mask: values on the left and on the right}, case, channels, labels)}
EXAMPLES = {
    "KiTS": (("case_00001/imaging",), {"case_00001/segmentation": (1, 3)}, "case_00001", ("CT",), {"kidney": 1}),
    "BraTS until": (BRATS, {"BraTS_1/BraTS_1_seg": (2, 4)}, "BraTS_1", ("T1w", "T1gd", "T2w", "FLAIR"), {"edema": 2}),
    "BraTS since": (
        (*NEW_BRATS, "BraTS-GLI-1/BraTS-GLI-1-t2w"),
        {"BraTS-GLI-1/BraTS-GLI-1-seg": (1, 3)},
        "BraTS-GLI-1",
        ("T1w", "T1gd", "T2w", "FLAIR"),
        {"enhancing_tumor": 3},
    ),
    "TotalSegmentator": (
        ("s0001/ct",),
        {"s0001/segmentations/liver": (1, 0), "s0001/segmentations/spleen": (0, 1)},
        "s0001",
        ("CT",),
        {"liver": 1, "spleen": 2},
    ),
    "3D-IRCADb": (
        ("3Dircadb1.1/PATIENT_DICOM",),
        {"3Dircadb1.1/MASKS_DICOM/liver": (1, 0), "3Dircadb1.1/MASKS_DICOM/livertumor": (0, 1)},
        "3Dircadb1.1",
        ("CT",),
        {"liver": 1, "livertumor": 2},
    ),
    "AMOS": (("imagesTr/amos_0001",), {"labelsTr/amos_0001": (3, 2)}, "amos_0001", ("CT or MR",), {"left_kidney": 3}),
    "FLARE": (
        ("images/FLARE22_Tr_0001_0000",),
        {"labels/FLARE22_Tr_0001": (13, 2)},
        "FLARE22_Tr_0001",
        ("CT",),
        {"left_kidney": 13},
    ),
    "BTCV": (("imagesTr/img0001",), {"labelsTr/label0001": (3, 2)}, "0001", ("CT",), {"left_kidney": 3}),
    "BIDS: sub-N_T1w, _T2w, _FLAIR with derivatives/.../sub-N_dseg": (
        ("sub-1/ses-2/anat/sub-1_ses-2_acq-x_T1w",),
        {"derivatives/m/sub-1/ses-2/anat/sub-1_ses-2_space-T1w_dseg": (1, 5)},
        "sub-1_ses-2",
        ("T1w",),
        {"label_1": 1, "label_5": 5},
    ),
    "BIDS: sub-N_T1w, _T2w, _FLAIR with derivatives/.../sub-N_mask": (
        ("sub-1/anat/sub-1_T1w", "sub-1/anat/sub-1_FLAIR"),
        {
            "derivatives/m/sub-1/anat/sub-1_label-lesion_mask": (1, 1),
            "derivatives/f/sub-1/anat/sub-1_desc-brain_mask": (1, 1),
        },
        "sub-1",
        ("T1w", "FLAIR"),
        {"label_1": 1},
    ),
}


def write(folder, name):
    images, masks, *expected = EXAMPLES[name]
    for number, file in enumerate(images):
        save(folder / f"{file}.nii.gz", image(number))
    for file, values in masks.items():
        save(folder / f"{file}.nii.gz", mask(*values))
    return expected


def test_every_scheme_has_an_example():
    for scheme in PUBLISHED:
        assert sum(scheme.title.startswith(name) for name in EXAMPLES) == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_published_data_set_is_listed_and_read(tmp_path, name):
    key, channels, labels = write(tmp_path, name)
    assert find_published(tmp_path).layout.startswith(name)
    if name != "AMOS":  # these names are those of the Decathlon, too
        with pytest.raises(DataError, match="Fix"):
            find_cases(tmp_path)
    found = inspect(tmp_path, write=tmp_path / "dataset.json")
    assert found.faults == ()
    (case,) = find_cases(tmp_path)
    data = mi.jobs.inspect(data_dir=tmp_path, workers=1, progress=False)
    assert dict(data.rows)["layout"] == "the field dataset of dataset.json; labels of dataset.json"
    assert case.key == key
    assert [label.count for label in data.labels] == [label.count for label in found.labels]
    assert sum(label.count for label in data.labels) == 32
    fields = json.loads((tmp_path / "dataset.json").read_text())
    assert tuple(fields["channel_names"].values()) == channels
    assert len(case.channels) == len(channels)
    assert labels.items() <= fields["labels"].items()


def test_series_with_masks_in_dicom_are_listed(tmp_path):
    numbers = np.random.default_rng(0).integers(0, 1200, (8, 6, 5)).astype(np.int16)
    for name, voxels in (("PATIENT_DICOM", numbers), ("MASKS_DICOM/liver", (numbers > 600) * np.int16(255))):
        intercept = {} if name == "PATIENT_DICOM" else {"RescaleIntercept": 0}
        write_series(tmp_path / "c1" / name, voxels, SeriesInstanceUID=generate_uid(), **intercept)
    found = inspect(tmp_path, write=tmp_path / "dataset.json")
    assert (found.faults, [label.count for label in found.labels]) == ((), [(numbers > 600).sum()])
    assert inspect(tmp_path).labels == found.labels


@pytest.mark.parametrize("file", ["p1/study/seg/1.dcm", "p1/study/ct/seg.dcm", "p1/study/seg.dcm"])
def test_series_with_dicom_seg_are_listed(tmp_path, file):
    numbers = np.random.default_rng(0).integers(0, 1200, (8, 6, 5)).astype(np.int16)
    series = write_series(tmp_path / "p1/study/ct", numbers, FrameOfReferenceUID="1.2.9", PatientID="1")
    volume = read_volume(series)
    labels = (volume.hu > 0).astype(np.uint8)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / "p1/damaged.dcm").write_bytes(b"no DICOM file")
    write_label_slabs(tmp_path / file, [labels], volume.geometry, codes_of_labels({"liver": 1}, None))
    found = inspect(tmp_path, write=tmp_path / "dataset.json")
    assert dict(found.rows)["layout"].startswith("DICOM: series to which DICOM-SEG files refer")
    assert (found.faults, [(label.name, label.count) for label in found.labels]) == ((), [("liver", labels.sum())])
    again = inspect(tmp_path)
    assert again.labels == found.labels
    assert not [text for text in again.warnings if "does not list" in text]


@pytest.mark.parametrize("table", ["sub-1_dseg.tsv", "../../dseg.tsv", "../desc-x_dseg.tsv"])
def test_tables_of_bids_name_the_labels(tmp_path, table):
    folder = tmp_path / "derivatives/m/sub-1/anat"
    save(tmp_path / "sub-1/anat/sub-1_T1w.nii.gz", image())
    save(folder / "sub-1_desc-x_dseg.nii.gz", mask(1, 5))
    (folder / table).write_text("index\tname\tcolor\n1\tgray matter\tred\n5\twhite matter\tblue\n")
    (folder / "desc-y_dseg.tsv").write_text("index\tname\n1\tother\n")
    assert [label.name for label in inspect(tmp_path).labels] == ["gray matter", "white matter"]


def test_masks_of_organs_are_converted(tmp_path, caplog):
    write(tmp_path / "d", "TotalSegmentator")
    save(tmp_path / "d/s0001/segmentations/aorta.nii.gz", mask(1, 1))
    inspect(tmp_path / "d", write=tmp_path / "d/dataset.json")
    assert convert(tmp_path / "d", tmp_path / "records", 8, progress=False) == ["s0001"]
    assert "skipped" not in caplog.text
    assert (
        "2 pair(s) of masks overlap, such as aorta.nii.gz and liver.nii.gz; aorta.nii.gz and spleen.nii.gz"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"lung": mask()}, "this folder has no mask of liver, spleen, but it holds lung"),
        ({"liver": mask(), "spleen": mask()[:6]}, "spleen.nii.gz has other voxels than liver.nii.gz"),
    ],
)
def test_masks_that_do_not_fit_are_named(tmp_path, masks, message):
    for name, voxels in masks.items():
        save(tmp_path / f"{name}.nii.gz", voxels)
    description = Description(("CT",), {"liver": 1, "spleen": 2}, {"liver": (1,), "spleen": (2,)})
    with pytest.raises(DataError, match=re.escape(f"{tmp_path}: ") + ".*" + re.escape(message)):
        open_masks(tmp_path, description)


def test_a_file_that_exists_is_not_replaced(tmp_path):
    write(tmp_path, "KiTS")
    inspect(tmp_path, write=tmp_path / "dataset.json")
    with pytest.raises(DataError, match=r"dataset\.json: this file exists"):
        inspect(tmp_path, write=tmp_path / "dataset.json")
    with pytest.raises(DataError, match=r"list\.json: this file must have the name dataset\.json"):
        inspect(tmp_path, write=tmp_path / "list.json")
    (tmp_path / "dataset.json").unlink()
    inspect(tmp_path, write=tmp_path / "other/dataset.json")
    assert find_cases(tmp_path / "other")[0].volume == tmp_path / "case_00001/imaging.nii.gz"


def test_cases_without_a_channel_are_skipped_by_name(tmp_path):
    for case in ("a", "b", "c"):
        for channel in ("t1", "t1ce", "t2", "flair", "seg")[: 5 if case != "c" else 2]:
            save(tmp_path / f"{case}/{case}_{channel}.nii.gz", mask())
    found = inspect(tmp_path)
    assert dict(found.rows)["cases"] == "2"
    assert any("of cases that lack a channel: c/c_t1" in text for text in found.warnings)
