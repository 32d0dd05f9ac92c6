"""Series of DICOM files: geometry and values equal those of ITK, and unusable series are refused by name."""

import io
import sys

import numpy as np
import pydicom
import pytest
import SimpleITK
from PIL import Image
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset
from pydicom.uid import (
    MPEG2MPML,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    RLELossless,
    SegmentationStorage,
)
from scipy.spatial.transform import Rotation

from mtf_imaging.data.formats.dicom.series import open_series
from mtf_imaging.data.listing.dicom_files import holds_dicom
from mtf_imaging.errors import DataError
from mtf_imaging.files import memory
from tests.data.dicom_folder import (
    AXIAL,
    PIXEL_MM,
    STEP_MM,
    compress,
    plane_file,
    write_enhanced,
    write_plane,
    write_series,
)
from tests.data.reading import read_volume

SHAPE = (7, 6, 5)
OBLIQUE = tuple(np.round(Rotation.from_euler("xyz", (12, -17, 25), degrees=True).as_matrix().T[:2].ravel(), 8))


def stored_numbers(dtype=np.int16, shape=SHAPE):
    return np.random.default_rng(0).integers(24, 2000, shape).astype(dtype)


def itk_volume(folder):
    """Returns the values `[x, y, z]` in the axes of the file, and the affine to RAS+, as ITK reads a series."""
    reader = SimpleITK.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
    image = reader.Execute()
    affine = np.eye(4)
    affine[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) @ np.diag(image.GetSpacing())
    affine[:3, 3] = image.GetOrigin()
    return SimpleITK.GetArrayFromImage(image).T, np.diag([-1, -1, 1, 1]) @ affine


# name: (orientation, stored type, further elements of the header)
SERIES = {
    "axial": (AXIAL, np.int16, {}),
    "head first, prone": ((-1, 0, 0, 0, -1, 0), np.int16, {}),
    "feet up": ((1, 0, 0, 0, -1, 0), np.int16, {}),
    "coronal": ((1, 0, 0, 0, 0, -1), np.int16, {}),
    "sagittal": ((0, 1, 0, 0, 0, -1), np.int16, {}),
    "oblique": (OBLIQUE, np.int16, {}),
    "unsigned": (AXIAL, np.uint16, {}),
    "12 bits": (AXIAL, np.uint16, {"BitsStored": 12, "HighBit": 11}),
    "slope": (AXIAL, np.int16, {"RescaleSlope": 0.5, "RescaleIntercept": 10.25}),
    "no rescale": (AXIAL, np.int16, {"RescaleSlope": None, "RescaleIntercept": None}),
    "no description": (AXIAL, np.int16, {"SeriesDescription": None}),
}


@pytest.mark.parametrize("orientation", [AXIAL, OBLIQUE])
@pytest.mark.parametrize("syntax", [None, RLELossless, DeflatedExplicitVRLittleEndian])
def test_frames_of_one_file_are_the_planes(tmp_path, orientation, syntax):
    write_series(tmp_path / "series", stored_numbers(), orientation)
    path = write_enhanced(tmp_path / "enhanced/1.dcm", stored_numbers(), orientation)
    header = pydicom.dcmread(path)
    if syntax == RLELossless:
        header.compress(syntax)
    elif syntax:
        header.file_meta.TransferSyntaxUID = syntax
    header.save_as(path)
    one, other = read_volume(tmp_path / "enhanced"), read_volume(tmp_path / "series")
    np.testing.assert_array_equal(one.hu, other.hu)
    np.testing.assert_allclose(one.geometry.affine, other.geometry.affine, atol=1e-6)


@pytest.mark.parametrize("name", SERIES)
def test_geometry_and_values_equal_those_of_itk(tmp_path, name):
    orientation, dtype, values = SERIES[name]
    folder = write_series(tmp_path / "series", stored_numbers(dtype=dtype), orientation, **values)
    (series,), geometry = open_series(folder)
    expected, affine = itk_volume(folder)
    np.testing.assert_allclose(geometry.affine, affine, atol=1e-4)
    assert series.shape == geometry.stored_shape == SHAPE
    np.testing.assert_allclose(geometry.stored_spacing, (PIXEL_MM[1], PIXEL_MM[0], STEP_MM), atol=1e-6)
    np.testing.assert_array_equal(series.scaled(series.open().read(slice(0, 5))), expected)
    volume = read_volume(folder)
    np.testing.assert_array_equal(volume.geometry.to_stored(volume.hu), np.rint(expected))


@pytest.mark.parametrize("syntax", ["JPEGLosslessProcess14_1", "JPEG2000Lossless", "JPEGLSLossless", "RLELossless"])
def test_compressed_pixels_equal_those_of_itk(tmp_path, syntax):
    folder = write_series(tmp_path / "series", stored_numbers(shape=(17, 16, 3)))  # JPEG 2000 fails below 16 pixels
    for file in sorted(folder.iterdir()):
        compress(file, syntax)
        assert pydicom.dcmread(file).file_meta.TransferSyntaxUID.is_compressed
    expected, affine = itk_volume(folder)
    (series,), geometry = open_series(folder)
    np.testing.assert_allclose(geometry.affine, affine, atol=1e-4)
    np.testing.assert_array_equal(series.scaled(series.open().read(slice(0, 3))), expected)


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian])
def test_other_encodings_equal_those_of_itk(tmp_path, syntax):
    folder = write_series(tmp_path / "series", stored_numbers())
    for file in sorted(folder.iterdir()):
        header = pydicom.dcmread(file)
        if not syntax.is_little_endian:
            header["PixelData"] = DataElement("PixelData", "OW", header.pixel_array.astype(">i2").tobytes())
        copy = Dataset(header)  # without the byte order of the file
        copy.file_meta = header.file_meta
        copy.file_meta.TransferSyntaxUID = syntax
        pydicom.dcmwrite(file, copy, enforce_file_format=True)
    expected, _ = itk_volume(folder)
    (series,), _ = open_series(folder)
    np.testing.assert_array_equal(series.scaled(series.open().read(slice(0, 5))), expected)


def test_each_plane_has_its_own_scale(tmp_path):
    numbers = stored_numbers()
    folder = write_series(tmp_path / "series", numbers, Modality="PT", RescaleIntercept=0)
    slopes = [0.25, 0.5, 1.0, 2.0, 3.5]
    for plane, slope in enumerate(slopes):
        _edit(plane_file(folder, plane), RescaleSlope=slope)
    (series,), _ = open_series(folder)
    assert series.dtype == np.float64
    np.testing.assert_array_equal(series.open().read(slice(1, 4)), numbers[..., 1:4] * np.array(slopes[1:4]))


def test_one_plane_has_its_thickness(tmp_path):
    numbers = stored_numbers()[..., :1]
    (series,), geometry = open_series(write_series(tmp_path / "series", numbers))
    assert geometry.stored_spacing == (PIXEL_MM[1], PIXEL_MM[0], STEP_MM)
    np.testing.assert_array_equal(series.open().read(slice(0, 1)), numbers)


def test_positions_are_rounded(tmp_path):
    """Headers with positions of two digits have steps of 0.62 and 0.63 mm."""
    folder = tmp_path / "series"
    for plane in range(9):
        write_plane(folder / f"{plane}.dcm", stored_numbers()[..., 0].T, (0, 0, round(plane * 0.625 + 1e-9, 2)))
    assert open_series(folder)[1].spacing[2] == pytest.approx(0.625, abs=1e-6)


def test_other_files_are_skipped(tmp_path):
    folder = write_series(tmp_path / "series", stored_numbers())
    (folder / "DICOMDIR").write_bytes(bytes(128) + b"DICM")
    (folder / "README").write_text("notes")
    (folder / "segmentation.nii").write_bytes(bytes(128) + b"DICM")
    (folder / "subfolder").mkdir()
    assert open_series(folder)[1].stored_shape == SHAPE
    assert holds_dicom(folder)
    assert not holds_dicom(tmp_path)
    assert not holds_dicom(plane_file(folder, 0))


def _edit(path, **values):
    header = pydicom.dcmread(path)
    for name, value in values.items():
        if value is None:
            delattr(header, name)
        else:
            setattr(header, name, value)
    header.save_as(path)


def _tilt(folder):
    for plane in range(SHAPE[2]):
        shift = np.tan(np.radians(15)) * plane * STEP_MM
        _edit(
            plane_file(folder, plane),
            ImagePositionPatient=[-20, 10 + shift, 30 + plane * STEP_MM],
            GantryDetectorTilt=15,
        )


def _smaller(folder):
    write_plane(plane_file(folder, 2), np.zeros((4, 7), np.int16), (-20, 10, 30 + 2 * STEP_MM))


def _move(plane, *offset):
    return lambda folder: _edit(
        plane_file(folder, plane), ImagePositionPatient=[*(np.array([-20, 10, 30 + plane * STEP_MM]) + offset)]
    )


def _edit_plane(plane, **values):
    return lambda folder: _edit(plane_file(folder, plane), **values)


def _edit_all(**values):
    def edit(folder):
        for plane in range(SHAPE[2]):
            _edit(plane_file(folder, plane), **values)

    return edit


def _delete(*planes):
    def delete(folder):
        for plane in planes:
            plane_file(folder, plane).unlink()

    return delete


def _mpeg(folder):
    path = plane_file(folder, 1)
    header = pydicom.dcmread(path)
    header.file_meta.TransferSyntaxUID = MPEG2MPML
    header.PixelData = pydicom.encaps.encapsulate([b"1234"])
    header["PixelData"].is_undefined_length = True
    header.save_as(path)


# name: (change of a good series, text of the error)
REFUSED = {
    "no DICOM file": (
        _delete(*range(5)),
        "holds no DICOM file of an image .*Fix: give the folder with the files of",
    ),
    "gantry tilt": (
        _tilt,
        r"gantry was tilted by 15.0 degrees \(GantryDetectorTilt is 15\): the planes shift sideways by 2.7 mm",
    ),
    "one plane shifted": (_move(3, 5, 0, 0), r"IM0024.dcm is shifted sideways by 5.0 mm from IM0017.dcm"),
    "missing plane": (
        _delete(2),
        r"1 plane\(s\) are missing: the planes are 2.5 mm apart, but IM0010.dcm and IM0024.dcm 5 mm",
    ),
    "same place twice": (
        _move(3, 0, 0, -STEP_MM),
        "IM0017.dcm and IM0024.dcm lie in the same place, as do 0 other pairs of files",
    ),
    "uneven distances": (
        _move(2, 0, 0, 0.8),
        r"vary from 1.7 mm \(IM0017.dcm and IM0024.dcm\) to 3.3 mm \(IM0010.dcm and IM0017.dcm\)",
    ),
    "two series": (
        _edit_plane(1, SeriesInstanceUID="1.2.9", SeriesDescription="head"),
        r"files of 2 DICOM series, not of one \(CT abdomen, such as IM0003.dcm; CT head, such as IM0010.dcm\)",
    ),
    "two sizes": (
        _smaller,
        r"differ in their size: 7 x 4 in IM0017.dcm and 0 other file\(s\), but 7 x 6 in the median",
    ),
    "two orientations": (
        _edit_plane(4, ImageOrientationPatient=[0, 1, 0, 0, 0, -1]),
        "differ in their orientation: 0 x 1 x 0 x 0 x 0 x -1 in IM0031.dcm",
    ),
    "two pixel sizes": (
        _edit_plane(0, PixelSpacing=[0.7, 0.5]),
        r"differ in their pixel size: 0.5 x 0.7 in IM0003.dcm and 0 other file\(s\), but 0.5 x 0.75",
    ),
    "frames without positions": (_edit_plane(0, NumberOfFrames=3), r"IM0003.dcm: this DICOM file has 3 frames, but"),
    "no pixels": (
        _edit_plane(0, PixelData=None),
        r"IM0003.dcm: this DICOM file has no pixel data \(its modality is CT\)",
    ),
    "no image at all": (
        _edit_plane(0, PixelData=None, Rows=None, Columns=None, Modality="SR"),
        r"no pixel data \(its modality is SR\)",
    ),
    "colors": (
        _edit_plane(0, PhotometricInterpretation="PALETTE COLOR"),
        r"1 sample\(s\) per pixel of the kind 'PALETTE COLOR'",
    ),
    "no position": (
        _edit_plane(3, ImagePositionPatient=None),
        "IM0024.dcm: its header has no ImagePositionPatient with 3 numbers",
    ),
    "no pixel size": (_edit_plane(3, PixelSpacing=None), "IM0024.dcm: its header has no PixelSpacing with 2 numbers"),
    "pixel size of 0": (_edit_plane(3, PixelSpacing=[0, 1]), r"IM0024.dcm: PixelSpacing \[0.0, 1.0\] is not positive"),
    "oblique rows": (
        _edit_all(ImageOrientationPatient=[1, 0, 0, 0.5, 0.5, 0]),
        r"ImageOrientationPatient \[1.0, 0.0, 0.0, 0.5, 0.5, 0.0\] is not two perpendicular unit vectors",
    ),
    "unknown compression": (
        _mpeg,
        "IM0010.dcm: its pixels are compressed as MPEG2 Main Profile / Main Level, which no decoder supports",
    ),
    "not DICOM": (
        lambda folder: plane_file(folder, 0).write_bytes(bytes(128) + b"DICMxyz"),
        r"IM0003.dcm: cannot be read as DICOM: the file is truncated or damaged",
    ),
    "no signature": (
        lambda folder: plane_file(folder, 4).write_bytes(plane_file(folder, 4).read_bytes()[132:]),
        "IM0031.dcm: cannot be read as DICOM: .*Fix: fetch the file again, move it",
    ),
    "no sign": (
        _edit_plane(0, PixelRepresentation=None),
        "IM0003.dcm: BitsAllocated is 16 and PixelRepresentation is None, which is not a supported type",
    ),
    "slope of 0": (
        _edit_plane(0, RescaleSlope=0),
        "IM0003.dcm: RescaleSlope 0 and RescaleIntercept -1024 do not give the values of its numbers",
    ),
}


def test_a_segmentation_beside_the_series_is_skipped_by_name(tmp_path, caplog):
    folder = write_series(tmp_path / "series", stored_numbers())
    write_plane(folder / "seg.dcm", np.zeros((2, 2), np.int16), (0, 0, 0), SOPClassUID=SegmentationStorage)
    assert open_series(folder)[1].stored_shape == SHAPE
    assert "seg.dcm: is skipped, because it is no image of the series, but an object of Segmentation" in caplog.text


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_series_are_refused_by_name(tmp_path, name):
    change, message = REFUSED[name]
    folder = write_series(tmp_path / "series", stored_numbers())
    change(folder)
    with pytest.raises(DataError, match=message):
        open_series(folder)


def test_a_plane_without_thickness_needs_others(tmp_path):
    folder = write_series(tmp_path / "series", stored_numbers()[..., :1], SliceThickness=None)
    with pytest.raises(DataError, match=r"is its only plane and has no SliceThickness"):
        open_series(folder)


@pytest.mark.parametrize("syntax", [JPEG2000Lossless, RLELossless])
def test_compressed_pixels_larger_than_declared_are_refused(tmp_path, monkeypatch, syntax):
    folder = write_series(tmp_path / "series", stored_numbers())
    header = pydicom.dcmread(plane_file(folder, 0))
    if syntax == RLELossless:
        monkeypatch.setattr(memory, "machine_memory", lambda: 1 << 20)
        stream, words = bytes(64) + b"\x81\0" * (1 << 14), "which need about .* GB to read"
    else:
        file = io.BytesIO()
        Image.new("L", (400, 300)).save(file, "JPEG2000")
        stream, words = file.getvalue(), "but a frame has 300 x 400 pixels"
    header.PixelData, header.file_meta.TransferSyntaxUID = pydicom.encaps.encapsulate([stream]), syntax
    header["PixelData"].is_undefined_length = True
    header.save_as(plane_file(folder, 0))
    with pytest.raises(DataError, match=rf"its header declares .*, {words}"):
        open_series(folder)


def test_missing_decoders_are_named(tmp_path, monkeypatch):
    folder = write_series(tmp_path / "series", stored_numbers())
    header = pydicom.dcmread(plane_file(folder, 0))
    header.compress(RLELossless)
    header.save_as(plane_file(folder, 0))
    monkeypatch.setattr(type(pydicom.pixels.get_decoder(RLELossless)), "is_available", property(lambda self: False))
    with pytest.raises(
        DataError, match=r'compressed as RLE Lossless, and no decoder.*pip install "mtf-imaging\[dicom\]"'
    ):
        open_series(folder)


def test_an_old_pydicom_is_named(tmp_path, monkeypatch):
    folder = write_series(tmp_path / "series", stored_numbers())
    monkeypatch.setitem(sys.modules, "pydicom.pixels", None)  # as in version 2
    with pytest.raises(DataError, match=r"need the package pydicom 3, which is not installed\. Fix: run"):
        open_series(folder)


def test_a_copy_of_a_file_is_skipped(tmp_path, caplog):
    folder = write_series(tmp_path / "series", stored_numbers())
    expected = read_volume(folder).hu
    first, *_ = sorted(folder.iterdir())
    (folder / "copy.dcm").write_bytes(first.read_bytes())
    np.testing.assert_array_equal(read_volume(folder).hu, expected)
    assert "copy.dcm" in caplog.text
    assert "is a copy of" in caplog.text
    changed = pydicom.dcmread(first)
    changed.PixelData = bytes(len(changed.PixelData))
    changed.save_as(folder / "copy.dcm")
    with pytest.raises(DataError, match=r"copy\.dcm"):
        read_volume(folder)
