"""NRRD and MetaImage files: the same volumes as NIfTI, in the same place, and segmentations that ITK finds there."""

import numpy as np
import pytest
import SimpleITK

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.listing.image_files import files_of_image
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.score import score_folders
from tests.data import volume_files
from tests.data.oriented import turned
from tests.data.reading import read_mask, read_volume
from tests.data.test_simpleitk import HEADERS, HU_OF_LABEL, OBLIQUE, RAS, SHAPE, oracle
from tests.kinds.volumes import plan_predictions, predict_cases
from tests.records import make_record

ENDINGS = (".nrrd", ".nhdr", ".mha", ".mhd")
OUTPUTS = (".nrrd", ".mha")


def labels_of():
    labels = np.zeros(SHAPE, np.uint8)
    labels[3:8, 1:6, 2:6] = 1
    labels[4:7, 3:5, 3:5] = 2
    return labels


def itk_image(canonical, codes="LPS", affine=RAS):
    """Returns an array as an image of SimpleITK that is stored in another orientation."""
    return volume_files.itk_image(*turned(canonical, codes, affine))


def write(path, image, compressed=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(image, str(path), compressed)
    return path


def same_place(first, second):
    a, b = (SimpleITK.ReadImage(str(path)) for path in (first, second))
    states = [(image.GetSize(), image.GetOrigin(), image.GetSpacing(), image.GetDirection()) for image in (a, b)]
    return all(np.allclose(one, other, rtol=0, atol=1e-12) for one, other in zip(*states, strict=True))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("codes", "affine"), [("LPS", RAS), ("SAR", OBLIQUE)])
def test_a_volume_is_read_as_from_nifti(tmp_path, ending, compressed, codes, affine):
    hu = HU_OF_LABEL[labels_of()]
    volume = read_volume(write(tmp_path / f"volume-0{ending}", itk_image(hu, codes, affine), compressed))
    np.testing.assert_array_equal(volume.hu, hu)
    np.testing.assert_allclose(volume.geometry.canonical_affine, affine, atol=1e-12)
    assert volume.geometry.axis_codes == codes


@pytest.mark.parametrize("name", ["LPS", "flipped along z", "other axes", "oblique"])
@pytest.mark.parametrize("source", [".nii.gz", ".nrrd", ".mhd"])
@pytest.mark.parametrize("target", OUTPUTS)
def test_a_prediction_lies_on_its_volume(tmp_path, name, source, target):
    codes, affine, *_ = HEADERS[name]
    labels = labels_of()
    path = write(tmp_path / f"volume-0{source}", itk_image(HU_OF_LABEL[labels], codes, affine))
    (written,) = predict_cases(path, tmp_path / f"out{target}", Sampling(SHAPE), oracle, progress=False)
    if source != ".nii.gz":  # NIfTI stores float32
        assert same_place(path, written)
    volume = read_volume(path)
    np.testing.assert_array_equal(read_mask(written, volume).labels, labels)
    np.testing.assert_allclose(read_geometry(written).affine, volume.geometry.affine, atol=1e-5)
    image = SimpleITK.ReadImage(str(written))
    assert image.GetPixelID() == SimpleITK.sitkUInt8
    assert b"ELEMENTDATAFILE = LOCAL" not in written.read_bytes().upper() or b"CompressedData = True" in (
        written.read_bytes()
    )


@pytest.mark.parametrize(("given", "expected"), [(".nhdr", ".nrrd"), (".mhd", ".mha"), (".nrrd", ".nrrd")])
def test_folders_of_these_formats_are_converted_predicted_and_scored(tmp_path, given, expected):
    labels, cases = labels_of(), tmp_path / "cases"
    write(cases / f"volume-3{given}", itk_image(HU_OF_LABEL[labels]))
    write(cases / "segmentation-3.seg.nrrd", itk_image(labels))
    (case,) = find_cases(cases)
    record = make_record(case, Sampling(SHAPE))
    np.testing.assert_array_equal(record.labels, labels)
    planned = plan_predictions(cases, tmp_path / "out")
    assert [output.name for _, output in planned.pairs] == [f"segmentation-3{expected}"]
    predict_cases(cases, tmp_path / "out", Sampling(SHAPE), oracle, progress=False)
    (score,) = score_folders(cases, tmp_path / "out", tmp_path / "scores", workers=1, progress=False)
    assert score.key == "3"
    assert score.mean_dice == 1


def test_the_voxels_beside_a_header_are_files_of_the_image(tmp_path):
    write(tmp_path / "volume-3.mhd", itk_image(HU_OF_LABEL[labels_of()]))
    write(tmp_path / "segmentation-3.nrrd", itk_image(labels_of()))
    assert [path.name for path in files_of_image(tmp_path / "volume-3.mhd")] == ["volume-3.mhd", "volume-3.raw"]
    (case,) = find_cases(tmp_path)
    before = case.digest()
    raw = tmp_path / "volume-3.raw"
    raw.write_bytes(raw.read_bytes()[:-2] + b"\1\1")
    assert case.digest() != before


HEADER = """NDims = 3\nTransformMatrix = {}\nOffset = 0 0 0\nElementSpacing = {}\nDimSize = {}\nElementType = MET_SHORT
ElementDataFile = LOCAL\n"""
FLAT = r"a\.mha: the affine .* does not define the axes"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("0 0 0 0 1 0 0 0 1", "1 1 1", "4 5 6"), FLAT),
        (("nan 0 0 0 1 0 0 0 1", "1 1 1", "4 5 6"), FLAT),
        (("1 0 0 0 1 0 0 0 1", "0 1 1", "4 5 6"), FLAT),
        (("1 0 0 0 1 0 0 0 1", "1 inf 1", "4 5 6"), FLAT),
        (("1 0 0 0 1 0 0 0 1", "1 1 1", "0 5 6"), r"a\.mha: its shape \(0, 5, 6\) has an axis without voxels"),
    ],
)
def test_headers_without_axes_are_refused(tmp_path, fields, message):
    (tmp_path / "a.mha").write_bytes(HEADER.format(*fields).encode() + bytes(240))
    with pytest.raises(DataError, match=message):
        open_stored(tmp_path / "a.mha")


def test_vectors_and_layers_are_refused(tmp_path):
    layers = SimpleITK.Compose(itk_image(labels_of()), itk_image(labels_of()))
    with pytest.raises(
        DataError, match=r"a\.seg\.nrrd: .* and 2 number\(s\) per voxel.* export a segmentation with lay"
    ):
        open_stored(write(tmp_path / "a.seg.nrrd", layers))
    with pytest.raises(DataError, match=r"a\.mha: has 3 axes \(9 x 8 x 7\) and 2 number\(s\) per voxel.*Fix: store"):
        open_stored(write(tmp_path / "a.mha", layers))
    movie = SimpleITK.JoinSeries([itk_image(labels_of())] * 2)
    with pytest.raises(DataError, match=r"b\.nrrd: has 4 axes \(9 x 8 x 7 x 2\).*Fix: store each channel or point in"):
        open_stored(write(tmp_path / "b.nrrd", movie))
    complex_image = SimpleITK.Cast(itk_image(labels_of()), SimpleITK.sitkComplexFloat32)
    with pytest.raises(DataError, match=r"c\.mha: .*Fix"):
        open_stored(write(tmp_path / "c.mha", complex_image))


@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged_files_are_refused(tmp_path, ending):
    path = write(tmp_path / f"a{ending}", itk_image(HU_OF_LABEL[labels_of()]))
    path.write_bytes(b"NRRD0004\ntype: short\n" if ending in (".nrrd", ".nhdr") else b"NDims = 3\n")
    with pytest.raises(DataError, match=r"cannot be read as NRRD or MetaImage: .*its header lacks \w+.*Fix: fetch"):
        open_stored(path)


@pytest.mark.parametrize("ending", [".nrrd", ".mha"])
def test_damaged_compression_is_found(tmp_path, ending):
    noise = np.random.default_rng(0).integers(0, 100, SHAPE).astype(np.int16)
    path = write(tmp_path / f"a{ending}", itk_image(noise), compressed=True)
    data = bytearray(path.read_bytes())
    data[-300:-100] = bytes(200)
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"a\{ending}: cannot be read as NRRD or MetaImage.*Fix: fetch the file again"):
        read_volume(path)


def test_voxels_in_other_folders_are_refused(tmp_path):
    path = write(tmp_path / "a.mhd", itk_image(labels_of()))
    text = path.read_text()
    path.write_text(text.replace("a.raw", "../a.raw"))
    with pytest.raises(DataError, match=r"voxels are in the file \.\./a\.raw, which is in another folder\. Fix: move"):
        open_stored(path)
    path.write_text(text.replace("a.raw", "a%03d.raw 1 3 1"))
    with pytest.raises(DataError, match=r"its voxels are in several files .*Fix: store them in one file"):
        open_stored(path)
    path.write_text(text.replace("a.raw", "b.raw"))
    with pytest.raises(DataError, match=r"a\.mhd: .*b\.raw"):
        open_stored(path)


def test_other_units_are_refused(tmp_path):
    path = write(tmp_path / "a.nrrd", itk_image(labels_of()))
    text = path.read_bytes()
    path.write_bytes(text.replace(b"\nkinds:", b'\nspace units: "um" "um" "um"\nkinds:', 1))
    with pytest.raises(DataError, match=r"a\.nrrd: its space units are um um um, but ITK reads lengths as mm\. Fix"):
        open_stored(path)


def test_a_header_without_directions_is_in_doubt(tmp_path, caplog):
    path = tmp_path / "volume-0.nrrd"
    voxels = HU_OF_LABEL[labels_of()]
    header = "NRRD0004\ntype: short\ndimension: 3\nsizes: 9 8 7\nspacings: 2 3 4\nendian: little\nencoding: raw\n\n"
    path.write_bytes(header.encode() + voxels.tobytes(order="F"))
    assert read_volume(path).geometry.spacing == (2, 3, 4)
    assert "its header does not state the anatomical directions of the axes" in caplog.text
