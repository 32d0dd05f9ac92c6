"""Segmentations in DICOM-SEG: the voxels of the NIfTI segmentation, in the place of the series."""

import json

import highdicom
import numpy as np
import pydicom
import pytest
from scipy.spatial.transform import Rotation

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.data.formats.dicom.label_codes import codes_of_labels, read_label_codes
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.provenance.package import this_package
from mtf_imaging.kinds.volumes.evaluate import cases_to_evaluate
from tests.data.dicom_folder import plane_file, write_enhanced, write_series
from tests.data.reading import read_mask, read_volume
from tests.data.test_simpleitk import HU_OF_LABEL, oracle
from tests.kinds.volumes import plan_predictions, predict_cases

SHAPE = (6, 5, 4)
FRAME = "1.2.826.0.1.3680043.8.498.7"
OBLIQUE = tuple(Rotation.from_euler("xyz", (12, -17, 25), degrees=True).as_matrix()[:, :2].T.ravel())
ORIENTATIONS = {
    "axial": (1.0, 0, 0, 0, 1.0, 0),
    "feet first": (1.0, 0, 0, 0, -1.0, 0),  # the planes are ordered from head to feet
    "sagittal": (0, 1.0, 0, 0, 0, -1.0),
    "oblique": OBLIQUE,
}
# Elements of the modules of the Segmentation IOD (DICOM PS3.3, A.51) that must be present; some may be empty.
REQUIRED = (
    *("PatientName", "PatientID", "PatientBirthDate", "PatientSex", "StudyDate", "StudyTime", "StudyID"),
    *("ReferringPhysicianName", "AccessionNumber", "StudyInstanceUID", "SeriesInstanceUID", "SeriesNumber"),
    *("Modality", "FrameOfReferenceUID", "PositionReferenceIndicator", "Manufacturer", "ManufacturerModelName"),
    *("DeviceSerialNumber", "SoftwareVersions", "ImageType", "InstanceNumber", "ContentLabel", "ContentDescription"),
    *("ContentCreatorName", "ContentDate", "ContentTime", "SamplesPerPixel", "PhotometricInterpretation"),
    *("PixelRepresentation", "BitsAllocated", "BitsStored", "HighBit", "LossyImageCompression", "SegmentationType"),
    *("SegmentSequence", "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence", "NumberOfFrames"),
    *("DimensionOrganizationSequence", "DimensionIndexSequence", "SOPClassUID", "SOPInstanceUID"),
)
SPLEEN = {"category": ["SCT", "91723000", "Anatomical Structure"], "type": ["SCT", "78961009", "Spleen"]}


def labels_of():
    labels = np.zeros(SHAPE, np.uint8)
    labels[1:5, 1:4, 1:3] = 1
    labels[3, 2, 2] = 2
    return labels


def series(folder, orientation=ORIENTATIONS["axial"], labels=None, **values):
    numbers = HU_OF_LABEL[labels_of() if labels is None else labels] + np.int16(1024)
    return write_series(folder, numbers, orientation, FrameOfReferenceUID=FRAME, **values)


def segmented(path, output, **options):
    return predict_cases(path, output, Sampling(read_geometry(path).shape), oracle, progress=False, **options)[0]


def points(path):
    """Returns {label: sorted positions in LPS} of a DICOM-SEG file, from its own geometry."""
    volume = highdicom.seg.segread(path).get_volume(combine_segments=True)
    return {
        label: sorted(map(tuple, np.round(volume.map_indices_to_reference(np.argwhere(volume.array == label)), 3)))
        for label in (1, 2)
    }


def nifti_points(path):
    geometry, labels = read_geometry(path), read_mask(path, read_volume(path.parent / "series")).labels
    found = {}
    for label in (1, 2):
        index = np.argwhere(labels == label)
        ras = index @ geometry.canonical_affine[:3, :3].T + geometry.canonical_affine[:3, 3]
        found[label] = sorted(map(tuple, np.round(ras * (-1, -1, 1), 3)))
    return found


@pytest.mark.parametrize("name", ORIENTATIONS)
def test_the_voxels_lie_where_those_of_nifti_lie(tmp_path, name):
    path = series(tmp_path / "series", ORIENTATIONS[name])
    (found, expected) = (
        read(segmented(path, tmp_path / f"out{ending}"))
        for ending, read in ((".dcm", points), (".nii.gz", nifti_points))
    )
    assert [len(found[label]) for label in (1, 2)] == [23, 1]
    for label in (1, 2):
        np.testing.assert_allclose(found[label], expected[label], atol=2e-3)


def test_planes_of_different_scales_are_segmented(tmp_path):
    path = series(tmp_path / "series")
    for plane in range(SHAPE[2]):  # the same HU, stored with another slope in each plane
        header = pydicom.dcmread(plane_file(path, plane))
        slope = plane + 1
        numbers = header.pixel_array.astype(np.int32) - 1024
        header.RescaleSlope, header.RescaleIntercept = 2.0 ** (slope % 3), 0
        header.PixelData = (numbers / 2 ** (slope % 3)).astype(np.int16).tobytes()
        header.save_as(plane_file(path, plane))
    found = points(segmented(path, tmp_path / "out.dcm"))
    for label, expected in nifti_points(segmented(path, tmp_path / "out.nii.gz")).items():
        np.testing.assert_allclose(found[label], expected, atol=2e-3)


def test_the_object_names_its_series_labels_and_program(tmp_path):
    path = series(tmp_path / "series", PatientID="P7", PatientName="A^B", StudyDate="20240102")
    first = pydicom.dcmread(segmented(path, tmp_path / "out.dcm"))
    planes = [pydicom.dcmread(plane_file(path, number)) for number in range(SHAPE[2])]
    assert first.SOPClassUID.name == "Segmentation Storage"
    assert first.Modality == "SEG"
    assert (first.PatientID, first.PatientName, first.StudyDate) == ("P7", "A^B", "20240102")
    assert first.StudyInstanceUID == planes[0].StudyInstanceUID
    assert first.FrameOfReferenceUID == FRAME
    for name in REQUIRED:
        assert name in first, name
    (referenced,) = first.ReferencedSeriesSequence
    assert referenced.SeriesInstanceUID == planes[0].SeriesInstanceUID
    uids = {item.ReferencedSOPInstanceUID for item in referenced.ReferencedInstanceSequence}
    assert uids == {plane.SOPInstanceUID for plane in planes}
    assert first.SoftwareVersions == this_package().release
    assert first.Manufacturer == first.ManufacturerModelName == "mtf_imaging"
    assert first.SeriesDescription == "Segmentation: liver, lesion"
    liver, lesion = first.SegmentSequence
    assert [item.SegmentLabel for item in (liver, lesion)] == ["liver", "lesion"]
    types = [item.SegmentedPropertyTypeCodeSequence[0] for item in (liver, lesion)]
    assert [(code.CodeValue, code.CodingSchemeDesignator) for code in types] == [
        ("10200004", "SCT"),
        ("108369006", "SCT"),
    ]
    assert lesion.AnatomicRegionSequence[0].CodeValue == "10200004"
    assert liver.SegmentAlgorithmType == "AUTOMATIC"
    second = pydicom.dcmread(segmented(path, tmp_path / "again.dcm"))
    assert first.SOPInstanceUID != second.SOPInstanceUID
    assert first.SeriesInstanceUID != second.SeriesInstanceUID


def test_a_segmentation_without_voxels_is_written(tmp_path, caplog):
    path = series(tmp_path / "series", labels=np.zeros(SHAPE, np.uint8))
    assert points(segmented(path, tmp_path / "out.dcm")) == {1: [], 2: []}
    assert not [record for record in caplog.records if record.name.startswith("highdicom")]


def test_a_folder_of_series_is_segmented(tmp_path):
    for number in (1, 2):
        series(tmp_path / f"cases/volume-{number}", SeriesInstanceUID=f"1.2.{number}")
    planned = plan_predictions(tmp_path / "cases", tmp_path / "out", output_format="dicom-seg")
    written = predict_cases(
        tmp_path / "cases", tmp_path / "out", Sampling(SHAPE), oracle, progress=False, planned=planned
    )
    assert [path.name for path in written] == ["segmentation-1.dcm", "segmentation-2.dcm"]
    assert all(len(points(path)[2]) == 1 for path in written)
    with pytest.raises(DataError, match=r"new\.dcm: the input .* is a folder, so the output must be a folder, too"):
        plan_predictions(tmp_path / "cases", tmp_path / "new.dcm")


def test_codes_of_other_labels_come_from_a_file(tmp_path):
    labels = {"spleen": 1, "organ": 2}
    spleen = Description(("CT",), labels, {name: (value,) for name, value in labels.items()})
    path, codes = series(tmp_path / "series"), tmp_path / "codes.json"
    options = {"description": spleen, "output_format": "dicom-seg"}
    expected = r"the label\(s\) spleen, organ have no codes of a terminology\. Fix: write their codes to a JSON file"
    with pytest.raises(ConfigError, match=expected) as error:
        plan_predictions(path, tmp_path / "out.dcm", **options)
    assert error.value.settings == ("output_format", "label_codes")
    organ = {**SPLEEN, "type": ["99LOCAL", "1", "Organ"], "region": ["SCT", "113345001", "Abdomen"]}
    codes.write_text(json.dumps({"spleen": SPLEEN, "organ": organ}))
    found = codes_of_labels(labels, read_label_codes(codes, labels))
    assert found["spleen"].type == ("SCT", "78961009", "Spleen")
    geometry, array = read_geometry(path), labels_of()
    slabs = (array for _ in range(1))
    write_label_slabs(tmp_path / "out.dcm", (geometry.to_canonical(slab) for slab in slabs), geometry, found)
    first, second = pydicom.dcmread(tmp_path / "out.dcm").SegmentSequence
    assert first.SegmentedPropertyTypeCodeSequence[0].CodeMeaning == "Spleen"
    assert second.AnatomicRegionSequence[0].CodeValue == "113345001"
    with pytest.raises(ConfigError, match=r"label_codes = '.*codes\.json' has no effect: no segmentation is written"):
        plan_predictions(path, tmp_path / "out.nii.gz", label_codes=codes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON"),
        ("[]", "has no object of labels, but the labels are spleen"),
        ('{"kidney": {}}', "has kidney, but the labels are spleen"),
        ('{"spleen": {}}', "the label 'spleen' is {}, but needs category and type"),
        ('{"spleen": []}', "the label 'spleen' is"),
        (json.dumps({"spleen": {**SPLEEN, "color": 1}}), "the label 'spleen' is"),
        (json.dumps({"spleen": {**SPLEEN, "type": "Spleen"}}), "each a scheme, a value and a meaning"),
        (json.dumps({"spleen": {**SPLEEN, "type": ["SCT", "7", " "]}}), "each a scheme, a value and a meaning"),
        (json.dumps({"spleen": {**SPLEEN, "type": ["S" * 17, "7", "a"]}}), "at most 16, 16, 64 characters"),
        (json.dumps({"spleen": {**SPLEEN, "type": ["S", "7", "a\\b"]}}), "without a backslash"),
    ],
)
def test_a_wrong_file_of_codes_is_refused(tmp_path, text, expected):
    path = tmp_path / "codes.json"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"codes\.json: .*{expected}") as error:
        read_label_codes(path, ["spleen"])
    assert error.value.settings == ("label_codes",)
    assert "Fix: " in str(error.value)


def test_what_cannot_be_written_is_refused_before_the_network_is_built(tmp_path, store, arrays):
    nifti = store(tmp_path / "volume-0.nii.gz", arrays()[0])
    with pytest.raises(
        DataError, match=r"out\.dcm: DICOM-SEG refers to .*volume-0\.nii\.gz is not a DICOM series"
    ) as e:
        plan_predictions(nifti, tmp_path / "out.dcm")
    assert e.value.settings == ("output_format",)
    without = write_series(tmp_path / "series", np.zeros(SHAPE, np.int16))
    with pytest.raises(DataError, match=r"its header lacks FrameOfReferenceUID, which DICOM-SEG refers to\. Fix: give"):
        plan_predictions(without, tmp_path / "out.dcm")
    with pytest.raises(ConfigError, match="evaluate writes no DICOM-SEG"):
        cases_to_evaluate(tmp_path, tmp_path / "out", output_format="dicom-seg")


def test_frames_of_one_file_get_their_labels(tmp_path):
    numbers = np.random.default_rng(0).integers(24, 2000, (7, 6, 5)).astype(np.int16)
    write_enhanced(tmp_path / "series/1.dcm", numbers, FrameOfReferenceUID=FRAME)
    volume = read_volume(tmp_path / "series")
    labels = np.random.default_rng(1).integers(0, 2, volume.hu.shape).astype(np.uint8)
    write_label_slabs(tmp_path / "a.dcm", [labels], volume.geometry, codes_of_labels({"liver": 1}, None))
    np.testing.assert_array_equal(read_mask(tmp_path / "a.dcm", volume).labels, labels)
