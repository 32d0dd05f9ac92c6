"""DICOM-SEG files as references and predictions of `score`: the labels and scores of the NIfTI segmentation."""

import json
import shutil
import sys

import highdicom
import numpy as np
import pydicom
import pytest

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.data.formats.dicom.label_codes import Code, LabelCodes, codes_of_labels
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.score import score_folders
from tests.data.dicom_folder import plane_file
from tests.data.reading import read_mask, read_segmentation, read_volume
from tests.data.test_dicom_seg import ORIENTATIONS, SHAPE, SPLEEN, labels_of, segmented, series

CODES = codes_of_labels(LITS.labels, None)
NAME = "segmentation-3"


def other_labels():
    """Returns labels that differ from `labels_of`, in fewer planes."""
    labels = np.zeros(SHAPE, np.uint8)
    labels[2:6, 1:4, 2:4] = 1
    labels[2:4, 2, 2:] = 2
    return labels


def write(path, volume, labels, codes=CODES):
    geometry = read_geometry(volume)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_label_slabs(path, [geometry.to_canonical(labels)], geometry, codes)
    return path


def changed(path, change):
    """Returns a DICOM file after a change of its header."""
    header = pydicom.dcmread(path)
    change(header)
    header.save_as(path)
    return path


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    return series(tmp_path_factory.mktemp("made") / "volume-3")


@pytest.fixture
def file(volume, tmp_path):
    return write(tmp_path / "a.dcm", volume, labels_of())


@pytest.mark.parametrize("name", ORIENTATIONS)
def test_the_labels_are_read_in_the_voxel_grid_of_the_series(tmp_path, name):
    path = series(tmp_path / "series", ORIENTATIONS[name])
    source, labels = read_volume(path), other_labels()
    found = read_mask(write(tmp_path / "a.dcm", path, labels), source)
    np.testing.assert_array_equal(found.labels, source.geometry.to_canonical(labels))
    nifti = write(tmp_path / "a.nii.gz", path, labels_of())  # another axis order, with an affine in float32
    found = read_mask(tmp_path / "a.dcm", read_segmentation(nifti)).labels
    np.testing.assert_array_equal(found, read_mask(write(tmp_path / "b.nii.gz", path, labels), source).labels)


def test_frames_that_fill_their_bytes_are_read(tmp_path):
    labels = np.zeros((8, 6, 4), np.uint8)
    labels[1:7, 2:5, 1:3], labels[3, 3, 2] = 1, 2
    path = series(tmp_path / "series", labels=labels)
    source = read_volume(path)
    found = read_mask(write(tmp_path / "a.dcm", path, labels), source).labels
    np.testing.assert_array_equal(found, source.geometry.to_canonical(labels))


def metrics(references, predictions, output):
    score_folders(references, predictions, output, workers=1, progress=False)
    fields = json.loads((output / "metrics.json").read_text())
    del fields["provenance"]
    return fields, (output / "metrics.csv").read_text()


@pytest.mark.parametrize("name", ["axial", "feet first"])
def test_the_scores_equal_the_scores_of_nifti(tmp_path, name):
    path = series(tmp_path / "volume-3", ORIENTATIONS[name])
    segmented(path, tmp_path / f"nifti/{NAME}.nii.gz")
    segmented(path, tmp_path / f"seg/{NAME}.dcm")
    for ending in (".nii.gz", ".dcm"):
        write(tmp_path / f"references{ending}/{NAME}{ending}", path, other_labels())
    shutil.copytree(path, tmp_path / "with_volume/volume-3")
    shutil.copy(tmp_path / f"references.dcm/{NAME}.dcm", tmp_path / "with_volume")
    expected = metrics(tmp_path / "references.nii.gz", tmp_path / "nifti", tmp_path / "scores")
    assert 0 < expected[0]["official"]["liver_dice_per_case"] < 1
    for references in ("references.nii.gz", "references.dcm", "with_volume"):
        for predictions in ("nifti", "seg"):
            found = metrics(tmp_path / references, tmp_path / predictions, tmp_path / f"{references}-{predictions}")
            assert found == expected, (references, predictions)


def names(*values):
    def change(header):
        for segment, name in zip(header.SegmentSequence, values, strict=True):
            segment.SegmentLabel = name

    return change


def test_codes_identify_segments_with_other_names(file, volume):
    source = read_volume(volume)
    expected = source.geometry.to_canonical(labels_of())
    np.testing.assert_array_equal(read_mask(changed(file, names("Organ", "1")), source).labels, expected)

    def old_codes(header):  # the terms of SNOMED CT under their former identifiers
        for segment, value in zip(header.SegmentSequence, ("T-62000", "M-8FFFF"), strict=True):
            (code,) = segment.SegmentedPropertyTypeCodeSequence
            code.CodingSchemeDesignator, code.CodeValue = "SRT", value

    assert pydicom.sr.coding.Code("M-8FFFF", "SRT", "") == pydicom.sr.coding.Code("108369006", "SCT", "")
    np.testing.assert_array_equal(read_mask(changed(file, old_codes), source).labels, expected)


@pytest.mark.parametrize("long", ["a" * 70, "a\\b", "脾臓 é"])
@pytest.mark.parametrize("characters", [None, "ISO_IR 100"])
def test_names_identify_segments_of_other_labels(tmp_path, long, characters):
    name = "Mü^É" if characters else "A^B"
    volume = series(tmp_path / "series", PatientName=name, **{"SpecificCharacterSet": characters} if characters else {})
    labels = {"Spleen": 1, long: 2}
    description = Description(("CT",), labels, {name: (value,) for name, value in labels.items()})
    spleen = LabelCodes(*(Code(*code) for code in SPLEEN.values()))
    path = write(tmp_path / "a.dcm", volume, labels_of(), {"spleen": spleen, long: spleen})
    source = read_volume(volume)
    found = read_mask(path, source, description).labels
    np.testing.assert_array_equal(found, source.geometry.to_canonical(labels_of()))
    assert pydicom.dcmread(path).PatientName == name


def written(path, volume, pixels, kind, segment_names=("liver", "lesion"), **options):
    """Writes a file with highdicom that `predict` would not write."""
    types = [CODES["liver"].type, CODES["lesion"].type] + [CODES["lesion"].type] * (len(segment_names) - 2)
    descriptions = [
        highdicom.seg.SegmentDescription(
            segment_number=number,
            segment_label=name,
            segmented_property_category=highdicom.sr.CodedConcept("49755003", "SCT", "Morphologically Abnormal"),
            segmented_property_type=highdicom.sr.CodedConcept(code.value, code.scheme, code.meaning),
            algorithm_type="MANUAL",
        )
        for number, (name, code) in enumerate(zip(segment_names, types, strict=True), 1)
    ]
    headers = [pydicom.dcmread(plane_file(volume, number)) for number in range(SHAPE[2])]
    for header in headers:
        for name in ("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID"):
            setattr(header, name, None)
        for name in ("StudyDate", "StudyTime", "ReferringPhysicianName"):
            setattr(header, name, None)
    highdicom.seg.Segmentation(
        source_images=headers,
        pixel_array=pixels,
        segmentation_type=kind,
        segment_descriptions=descriptions,
        series_instance_uid=highdicom.UID(),
        series_number=1,
        sop_instance_uid=highdicom.UID(),
        instance_number=1,
        manufacturer="a",
        manufacturer_model_name="a",
        software_versions="1",
        device_serial_number="1",
        **options,
    ).save_as(path)
    return path


def masks(*values):
    """Returns masks `[plane, row, column, segment]` of `labels_of`."""
    return np.stack([labels_of().transpose(2, 1, 0) == value for value in values], -1)


def test_a_label_map_of_another_program_is_read(tmp_path, volume):
    pixels = labels_of().transpose(2, 1, 0)
    path = written(tmp_path / "a.dcm", volume, pixels, "LABELMAP")
    source = read_volume(volume)
    np.testing.assert_array_equal(read_mask(path, source).labels, source.geometry.to_canonical(labels_of()))


def test_segments_of_one_label_are_merged(tmp_path, volume):
    pixels = masks(1, 2, 2)
    path = written(tmp_path / "a.dcm", volume, pixels, "BINARY", ("liver", "tumor 1", "tumor 2"))
    source = read_volume(volume)
    np.testing.assert_array_equal(read_mask(path, source).labels, source.geometry.to_canonical(labels_of()))


def test_overlapping_segments_are_refused(tmp_path, volume):
    path = written(tmp_path / "a.dcm", volume, masks(1, 2) | masks(2, 2), "BINARY")
    text = r"a\.dcm: segments of the labels 1 and 2 overlap\. Fix: export them"
    with pytest.raises(DataError, match=text):
        read_mask(path, read_volume(volume))


def test_fractional_segments_are_refused(tmp_path, volume):
    path = written(tmp_path / "a.dcm", volume, masks(1, 2) * 0.5, "FRACTIONAL")
    text = r"a\.dcm: its SegmentationType is FRACTIONAL, .*Fix: export it as a binary segmentation"
    with pytest.raises(DataError, match=text):
        read_mask(path, read_volume(volume))


def shifted(header):
    for frame in header.PerFrameFunctionalGroupsSequence:
        frame.PlanePositionSequence[0].ImagePositionPatient[0] += 0.3


def outside(header):
    header.PerFrameFunctionalGroupsSequence[0].PlanePositionSequence[0].ImagePositionPatient[2] += 1000


def without_positions(header):
    for frame in header.PerFrameFunctionalGroupsSequence:
        del frame.PlanePositionSequence


@pytest.mark.parametrize(
    ("change", "expected"),
    [  # the messages without their fixes
        (
            lambda header: setattr(header.SegmentSequence[0], "SegmentLabel", "lesion"),
            r"the name of segment 1 is 'lesion', but its codes stand for the label 'liver'\.",
        ),
        (shifted, r"the frame at .* mm \(RAS\+\) does not lie on the voxel grid of the volume"),
        (
            outside,
            r"the frame at .* mm \(RAS\+\) does not lie on the voxel grid of the volume, which has shape \(6, 5, 4\)",
        ),
        (
            without_positions,
            r"cannot be read as DICOM-SEG: it is damaged .*ImagePositionPatient",
        ),
        (
            lambda header: header.PerFrameFunctionalGroupsSequence.pop(),
            r"its header states 3 frames, but 2 positions\.",
        ),
        (lambda header: header.SegmentSequence.pop(), r"frames refer to segment 2, which the header lacks\."),
        (lambda header: setattr(header, "TotalPixelMatrixRows", 5), r"not a segmentation \(DICOM-SEG\) of volumes"),
        (lambda header: setattr(header, "PixelData", b"\0\0"), r"has 2 bytes of pixels, but its header declares 12\. "),
    ],
)
def test_a_wrong_file_is_refused(file, volume, change, expected):
    with pytest.raises(DataError, match=rf"a\.dcm: .*{expected}.* Fix: "):
        read_mask(changed(file, change), read_volume(volume))


def test_unknown_segments_are_refused(file, volume):
    spleen = Description(("CT",), {"spleen": 1}, {"spleen": (1,)})
    text = (
        r"the segment\(s\) 1 'liver' \(Liver\), 2 'lesion' \(Neoplasm\) match none of the labels spleen\. "
        r"Fix: use the names of the segments as names of the labels in dataset\.json"
    )
    with pytest.raises(DataError, match=text) as error:
        read_mask(file, read_volume(volume), spleen)
    assert error.value.settings == ("dataset_json",)


def test_other_dicom_files_are_refused(file, volume, tmp_path):
    source = read_volume(volume)
    with pytest.raises(DataError, match=r"this DICOM file is CT Image Storage, not a segmentation \(DICOM-SEG\) of "):
        read_mask(shutil.copy(plane_file(volume, 0), tmp_path / "ct.dcm"), source)


def test_the_distance_of_planes_is_needed_without_images(file, volume, tmp_path):
    def change(header):
        del header.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].SpacingBetweenSlices

    with pytest.raises(DataError, match=r"lacks SpacingBetweenSlices, .*Fix: name the folder of the images") as error:
        read_segmentation(changed(file, change))
    assert error.value.settings == ("volume_dir",)
    read_mask(file, read_volume(volume))


def test_reading_needs_pydicom(file, volume, monkeypatch):
    source = read_volume(volume)
    monkeypatch.setitem(sys.modules, "highdicom", None)  # only writing needs it
    read_mask(file, source)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(DataError, match=r"a\.dcm: DICOM files need the package pydicom 3, .*Fix: run pip install"):
        read_mask(file, source)
