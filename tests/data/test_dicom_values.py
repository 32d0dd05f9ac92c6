"""DICOM files: padding, modalities, series in several folders, and sizes that the file cannot have."""

import numpy as np
import pydicom
import pytest
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset
from pydicom.uid import ImplicitVRLittleEndian

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.dicom.padding import Padding, read_padding
from mtf_imaging.data.formats.dicom.segmentation_writing import check_series
from mtf_imaging.data.formats.dicom.series import open_series
from mtf_imaging.errors import DataError
from tests.data.dicom_folder import AXIAL, STEP_MM, compress, plane_file, write_enhanced, write_plane, write_series
from tests.data.reading import read_image, read_volume

SHAPE = (17, 16, 4)  # JPEG 2000 fails below 16 pixels


def one_channel(name):
    return Description(channels=(name,), labels={"a": 1}, masks={"a": (1,)})


def numbers_of(dtype=np.int16, high=2000):
    return np.random.default_rng(0).integers(24, high, SHAPE).astype(dtype)


# name: (type of the numbers, padded numbers, PixelPaddingValue with its type, PixelPaddingRangeLimit, other elements)
PADDING = {
    "signed": (np.int16, [-2000], ("SS", -2000), None, {}),
    "signed as unsigned": (np.int16, [-2000], ("US", 63536), None, {}),
    "unsigned": (np.uint16, [63536], ("US", 63536), None, {}),
    "unsigned as signed": (np.uint16, [63536], ("SS", -2000), None, {}),
    "12 bits": (np.uint16, [4095], ("US", 4095), None, {"BitsStored": 12, "HighBit": 11}),
    "12 bits, signed": (np.int16, [-2000], ("SS", -2000), None, {"BitsStored": 12, "HighBit": 11}),
    "in unused bits": (np.int16, [-32768], ("SS", -32768), None, {"BitsStored": 12, "HighBit": 11}),
    "range": (np.int16, [-2000, -1500, -1999], ("SS", -2000), ("SS", -1500), {}),
    "reversed range": (np.uint16, [4095, 4000], ("US", 4095), ("US", 4000), {}),
    "highest": (np.uint16, [65535], ("US", 65535), None, {}),
}


def write_padded(folder, name):
    dtype, padded, value, limit, elements = PADDING[name]
    numbers = numbers_of(dtype)
    is_padding = np.random.default_rng(1).random(SHAPE) < 0.3
    numbers[is_padding] = np.resize(np.array(padded, dtype), is_padding.sum())
    write_series(folder, numbers, **elements)
    for file in sorted(folder.iterdir()):
        header = pydicom.dcmread(file)
        for tag, element in (("PixelPaddingValue", value), ("PixelPaddingRangeLimit", limit)):
            if element is not None:
                header[tag] = DataElement(tag, *element)
        header.save_as(file)
    expected = numbers.astype(np.float64) - 1024
    expected[is_padding] = -1024
    return expected


@pytest.mark.parametrize("name", PADDING)
def test_padding_of_a_ct_is_air(tmp_path, name, caplog):
    expected = write_padded(tmp_path / "series", name)
    volume = read_volume(tmp_path / "series")
    np.testing.assert_array_equal(volume.geometry.to_stored(volume.hu), expected)
    assert not caplog.records


@pytest.mark.parametrize("name", ["signed", "unsigned as signed", "range"])
def test_padding_is_read_without_types(tmp_path, name):
    expected = write_padded(tmp_path / "series", name)
    for file in sorted((tmp_path / "series").iterdir()):
        header = pydicom.dcmread(file)
        copy = Dataset(header)
        copy.file_meta = header.file_meta
        copy.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
        pydicom.dcmwrite(file, copy, enforce_file_format=True)
    volume = read_volume(tmp_path / "series")
    np.testing.assert_array_equal(volume.geometry.to_stored(volume.hu), expected)


@pytest.mark.parametrize("syntax", ["JPEGLosslessProcess14_1", "JPEG2000Lossless", "JPEGLSLossless", "RLELossless"])
@pytest.mark.parametrize("name", ["signed", "unsigned"])
def test_padding_of_compressed_pixels_is_air(tmp_path, syntax, name):
    expected = write_padded(tmp_path / "series", name)
    for file in sorted((tmp_path / "series").iterdir()):
        compress(file, syntax)
        assert "PixelPaddingValue" in pydicom.dcmread(file)
    volume = read_volume(tmp_path / "series")
    np.testing.assert_array_equal(volume.geometry.to_stored(volume.hu), expected)


def test_every_file_has_its_own_padding_and_scale(tmp_path):
    numbers = numbers_of()
    numbers[3, 4] = [-2000, -1500, 60, 70]
    for plane, elements in enumerate(
        (
            {"PixelPaddingValue": -2000},
            {"PixelPaddingValue": -1500, "RescaleSlope": 2},
            {},
            {"RescaleIntercept": -1000},
        )
    ):
        pixels = np.ascontiguousarray(numbers[..., plane].T)
        path = plane_file(tmp_path / "series", plane)
        write_plane(path, pixels, (0, 0, plane * STEP_MM), AXIAL, **elements)
    values = open_series(tmp_path / "series")[0][0].open().read(slice(0, 4))
    assert values[3, 4].tolist() == [-1024, -1024, 60 - 1024, 70 - 1000]
    np.testing.assert_array_equal(values[5, 5], numbers[5, 5] * [1, 2, 1, 1] - [1024, 1024, 1024, 1000])


def test_padding_of_a_later_plane_alone(tmp_path):
    numbers = numbers_of()
    numbers[3, 4] = [60, -2000, 80, 90]
    write_series(tmp_path / "series", numbers)
    header = pydicom.dcmread(plane_file(tmp_path / "series", 1))
    header["PixelPaddingValue"] = DataElement("PixelPaddingValue", "SS", -2000)
    header.save_as(plane_file(tmp_path / "series", 1))
    values = open_series(tmp_path / "series")[0][0].open().read(slice(0, 4))
    assert values[3, 4].tolist() == [60 - 1024, -1024, 80 - 1024, 90 - 1024]


# The values themselves do not show these: a CT has no values below air.
@pytest.mark.parametrize(
    ("dtype", "bits", "value", "expected"),
    [
        (np.int16, 16, 0x8000, Padding(-32768, -32768, is_raw=False)),
        (np.int16, 16, 0x7FFF, Padding(32767, 32767, is_raw=False)),
        (np.int16, 12, -2048, Padding(-2048, -2048, is_raw=False)),
        (np.int16, 12, -2049, Padding(-2049, -2049, is_raw=True)),
        (np.int16, 12, 2048, Padding(2048, 2048, is_raw=True)),
        (np.uint16, 12, 4096, Padding(4096, 4096, is_raw=True)),
    ],
)
def test_bits_of_padding(dtype, bits, value, expected):
    assert read_padding({"PixelPaddingValue": value, "BitsStored": bits}, np.dtype(dtype)) == expected


def test_padding_of_other_modalities_is_0(tmp_path):
    numbers = numbers_of()
    numbers[0] = -5
    folder = write_series(
        tmp_path / "series", numbers, Modality="MR", PixelPaddingValue=-5, RescaleSlope=1, RescaleIntercept=10
    )
    image = read_image([folder], one_channel("T1w"))
    values = image.geometry.to_stored(image.channels[0])
    assert (values[0] == 0).all()
    np.testing.assert_array_equal(values[1:], numbers[1:] + 10)


def test_padding_with_the_value_of_tissue_is_named(tmp_path, caplog):
    folder = write_series(tmp_path / "series", numbers_of(), RescaleIntercept=0, PixelPaddingValue=40)
    open_series(folder)
    assert "series: PixelPaddingValue stands for 40 HU, which tissue can have; all pixels of this value" in caplog.text
    assert "remove the element from IM0003.dcm and the other files" in caplog.text


# (modality of the file, channel, modality that the channel needs, or None if it accepts the file)
MODALITIES = [
    *(("CT", "CT", None), ("", "CT", None), ("MR", "T1w", None), ("MR", "T2-FLAIR", None), ("PT", "PET", None)),
    *(("CT", "arterial phase", None), ("MR", "perfusion", None)),
    *(("MR", "CT", "CT"), ("PT", "ct", "CT"), ("US", "CT", "CT"), ("CT", "T1w", "MR"), ("CT", "FLAIR", "MR")),
    ("MR", "PET", "PT"),
]


@pytest.mark.parametrize(("modality", "channel", "needed"), MODALITIES)
def test_the_modality_must_suit_the_channel(tmp_path, modality, channel, needed, caplog):
    folder = write_series(tmp_path / "series", numbers_of(), Modality=modality)
    if needed is None:
        assert read_image([folder], one_channel(channel)).geometry.shape == SHAPE
        assert "modality" not in caplog.text
    else:
        message = f"states the modality {modality}, but the channel '{channel}' needs {needed}"
        with pytest.raises(DataError, match=rf"series: .*{message}\. Fix: give .*dataset\.json"):
            read_image([folder], one_channel(channel))
        if channel == "CT":
            with pytest.raises(DataError, match=message):
                read_volume(folder)


def test_an_unknown_modality_is_named(tmp_path, caplog):
    folder = write_series(tmp_path / "series", numbers_of(), Modality="OT")
    assert read_volume(folder).geometry.shape == SHAPE
    assert "series: its modality is OT (other), not CT; it is read as channel 'CT'." in caplog.text


def split(folder, *parts):
    """Moves planes of a series to folders of their own."""
    for number, planes in enumerate(parts):
        for plane in planes:
            file = plane_file(folder, plane)
            target = folder.parent / f"part{number}" / file.name
            target.parent.mkdir(exist_ok=True)
            file.rename(target)
    folder.rmdir()


@pytest.mark.parametrize("parts", [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0,), (1,), (2, 3))])
def test_a_series_in_two_folders_is_refused(tmp_path, parts):
    split(write_series(tmp_path / "cases" / "series", numbers_of()), *parts)
    shown = ", ".join(rf".*part{number} \({len(planes)} files\)" for number, planes in enumerate(parts))
    message = (
        rf"{shown}: these folders hold parts of one DICOM series, .*, whose 4 planes together are one volume\. Fix:"
    )
    with pytest.raises(DataError, match=message):
        find_cases(tmp_path / "cases", need_labels=False)


def write_enhanced_parts(folder, numbers):
    """Writes a series as several files with several frames each."""
    for part in (slice(0, 2), slice(2, 4)):
        write_enhanced(folder / f"{part.start}.dcm", numbers[..., part], origin=(0, 0, part.start * STEP_MM))
    return folder


def test_a_series_of_several_enhanced_files_is_one_image(tmp_path):
    folder = write_enhanced_parts(tmp_path / "cases/series", numbers_of())
    (case,) = find_cases(tmp_path / "cases", need_labels=False)
    assert case.volume == folder
    np.testing.assert_array_equal(
        read_volume(folder).hu, read_volume(write_series(tmp_path / "b", numbers_of(), origin=(0, 0, 0))).hu
    )


def test_a_segmentation_of_several_enhanced_files_is_refused_before_it_is_computed(tmp_path):
    folder = write_enhanced_parts(tmp_path / "series", numbers_of())
    for file in folder.iterdir():
        header = pydicom.dcmread(file)
        header.FrameOfReferenceUID, header.PatientID = "1.2.3", "1"
        header.save_as(file)
    one = write_enhanced(tmp_path / "one/1.dcm", numbers_of(), FrameOfReferenceUID="1.2.3", PatientID="1").parent
    check_series(tmp_path / "a.dcm", one)
    with pytest.raises(DataError, match=r"a\.dcm: .*series has several files .* Fix: use another output_format\."):
        check_series(tmp_path / "a.dcm", folder)


def test_other_folders_with_one_uid_are_named(tmp_path, caplog):
    write_series(tmp_path / "copies" / "a", numbers_of())
    (tmp_path / "copies" / "b").mkdir()
    for file in (tmp_path / "copies" / "a").iterdir():
        (tmp_path / "copies" / "b" / file.name).write_bytes(file.read_bytes())
    assert len(find_cases(tmp_path / "copies", need_labels=False)) == 2
    assert "a (4 files), " in caplog.text
    assert "b (4 files): these folders hold the same files, 1.2.826" in caplog.text
    write_series(tmp_path / "phases" / "a", numbers_of())
    write_series(tmp_path / "phases" / "b", numbers_of())
    assert len(find_cases(tmp_path / "phases", need_labels=False)) == 2
    assert "b (4 files): these folders have the same SeriesInstanceUID" in caplog.text
    caplog.clear()
    write_series(tmp_path / "apart" / "a", numbers_of())
    write_series(tmp_path / "apart" / "b", numbers_of(), SeriesInstanceUID="1.2.9")
    find_cases(tmp_path / "apart", need_labels=False)
    assert not caplog.records


@pytest.mark.parametrize("compression", [None, "JPEG2000Lossless", "RLELossless"])
def test_more_pixels_than_the_file_can_have_are_refused(tmp_path, compression):
    folder = write_series(tmp_path / "series", numbers_of())
    path = plane_file(folder, 0)
    if compression:
        compress(path, compression)
    header = pydicom.dcmread(path)
    header.Rows = header.Columns = 65535
    header.save_as(path)
    what = "compressed bytes" if compression else "bytes"
    message = (
        rf"IM0003.dcm: its header declares 65535 rows and 65535 columns of 16 bits \(8589672450 bytes\), but .* {what}"
    )
    with pytest.raises(DataError, match=message):
        open_series(folder)
