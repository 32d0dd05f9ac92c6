"""Tests that a prediction keeps the voxel grid and the header of its volume, for headers found in public CT sets.

Each test reads a volume, segments it with an exact network and writes the result. The files are compared with nibabel,
not with the functions under test.
"""

import itertools

import nibabel
import numpy as np
import pytest
from nibabel import orientations
from scipy.spatial.transform import Rotation

from mtf_imaging.data.sampling.sampling import Sampling
from tests.data.reading import read_labels, read_volume, write_labels
from tests.kinds.volumes import predict_cases

HU_OF_LABEL = np.array([-400, 0, 400], np.int16)
SHAPE = (7, 6, 5)
AFFINE = nibabel.affines.from_matvec(np.diag([1.5, 2.0, 3.0]), (-20.0, 10.0, 30.0))
# Header fields that describe the stored numbers rather than the volume.
NUMBER_FIELDS = {"datatype", "bitpix", "scl_slope", "scl_inter", "cal_min", "cal_max", "vox_offset"}


def oracle(image):
    """Returns class probabilities for an image with window (-512, 512)."""
    return np.exp(-np.abs(image * 1024 - 512 - HU_OF_LABEL) / 100)


def labels_of(shape=SHAPE):
    return np.random.default_rng(0).integers(0, 3, shape).astype(np.uint8)


def round_trip(path, shape=SHAPE):
    """Segments a file on its own voxels, `shape` in canonical axes, and returns the prediction."""
    out = path.with_name(f"out-{path.name}")
    (written,) = predict_cases(path, out, Sampling(shape), oracle, progress=False, overwrite=True)
    return nibabel.load(written)


def check_same_header(written, source):
    """Compares every header field and extension, except for the fields of the stored numbers."""
    assert type(written) is type(source)
    assert written.shape == source.shape
    assert written.header.endianness == source.header.endianness
    for name in set(source.header.keys()) - NUMBER_FIELDS:
        np.testing.assert_array_equal(written.header[name], source.header[name], err_msg=name)
    assert [e.get_content() for e in written.header.extensions] == [e.get_content() for e in source.header.extensions]
    assert written.get_data_dtype().newbyteorder("=") == np.uint8
    assert (written.dataobj.slope, written.dataobj.inter) == (1, 0)
    np.testing.assert_array_equal(written.affine, source.affine)


TURNS = [
    [(axis, flip) for axis, flip in zip(axes, flips)]
    for axes in itertools.permutations(range(3))
    for flips in itertools.product((1, -1), repeat=3)
]


@pytest.mark.parametrize("degrees", [(0, 0, 0), (12, -17, 25)], ids=["straight", "oblique"])
@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: "".join(orientations.ornt2axcodes(turn)))
def test_all_48_orders_and_directions_of_axes(tmp_path, turn, degrees):
    to_stored = orientations.ornt_transform(orientations.axcodes2ornt("RAS"), np.array(turn))
    rotation = nibabel.affines.from_matvec(Rotation.from_euler("xyz", degrees, degrees=True).as_matrix())
    affine = rotation @ AFFINE @ orientations.inv_ornt_aff(to_stored, SHAPE)
    stored = np.ascontiguousarray(orientations.apply_orientation(labels_of(), to_stored))
    nibabel.save(nibabel.Nifti1Image(HU_OF_LABEL[stored], affine), tmp_path / "volume-0.nii")
    volume = read_volume(tmp_path / "volume-0.nii")
    assert volume.geometry.axis_codes == "".join(orientations.ornt2axcodes(turn))
    np.testing.assert_array_equal(volume.hu, HU_OF_LABEL[labels_of()])
    written = round_trip(tmp_path / "volume-0.nii")
    np.testing.assert_array_equal(np.asarray(written.dataobj), stored)
    check_same_header(written, nibabel.load(tmp_path / "volume-0.nii"))
    np.testing.assert_array_equal(read_labels(tmp_path / "out-volume-0.nii", volume), labels_of())


def both_forms(image, sform, qform, sform_code, qform_code):
    image.set_sform(sform, code=sform_code, update_affine=False)
    image.set_qform(qform, code=qform_code, update_affine=False)


def oblique(degrees=(12, -17, 25)):
    return nibabel.affines.from_matvec(Rotation.from_euler("xyz", degrees, degrees=True).as_matrix()) @ AFFINE


def plain(image):
    return image


def described(image):
    header = image.header
    header.set_xyzt_units("mm", "sec")
    header["descrip"], header["aux_file"], header["intent_name"] = b"a scanner", b"none", b"CT"
    header["pixdim"][4:] = 0.25
    header["toffset"] = 3.5
    header.set_dim_info(1, 0, 2)
    header["cal_max"] = 300
    header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"of the hospital"))


HEADERS = {
    "plain": plain,
    "described": described,
    "sform only": lambda image: both_forms(image, AFFINE, None, 1, 0),
    "qform only": lambda image: both_forms(image, None, oblique(), 0, 1),
    "microns": lambda image: image.header.set_xyzt_units("micron", "sec"),
    "oblique": lambda image: both_forms(image, oblique(), oblique(), 2, 1),
    "sform is not qform": lambda image: both_forms(image, oblique(), AFFINE, 4, 1),
}
NUMBERS = {
    "int16": lambda hu: hu,
    "big-endian": lambda hu: hu.astype(">i2"),
    "float32": lambda hu: hu.astype(np.float32),
    "float64": lambda hu: hu.astype(np.float64),
    "int32": lambda hu: hu.astype(np.int32),
    "uint16": lambda hu: hu.astype(np.uint16),
    "NaN": lambda hu: np.where(hu < 0, np.nan, hu).astype(np.float32),
    "below -1024": lambda hu: np.where(hu < 0, -3024, hu).astype(np.int16),
}
KINDS = {"nifti1": nibabel.Nifti1Image, "nifti2": nibabel.Nifti2Image}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", ["nii", "nii.gz"])
@pytest.mark.parametrize("shape", [SHAPE, (*SHAPE, 1), (*SHAPE, 1, 1)], ids=["3d", "4d", "5d"])
def test_every_field_of_the_header_is_kept(tmp_path, header, kind, suffix, shape):
    image = KINDS[kind](HU_OF_LABEL[labels_of()].reshape(shape), AFFINE)
    HEADERS[header](image)
    nibabel.save(image, tmp_path / f"volume-0.{suffix}")
    source = nibabel.load(tmp_path / f"volume-0.{suffix}")
    written = round_trip(tmp_path / f"volume-0.{suffix}")
    check_same_header(written, source)
    np.testing.assert_array_equal(np.asarray(written.dataobj), labels_of().reshape(shape))


SCALES = {"unscaled": None, "scaled": (2.0, -24.0), "halved": (0.5, 100.0)}


@pytest.mark.parametrize(
    ("numbers", "scale"),
    # Scaled unsigned numbers are not read as signed, so HU below 0 would not fit.
    [(n, s) for n, s in itertools.product(NUMBERS, SCALES) if (n, s == "unscaled") != ("uint16", False)],
)
def test_numbers_of_any_kind(tmp_path, numbers, scale):
    hu = NUMBERS[numbers](HU_OF_LABEL[labels_of()])
    scale = SCALES[scale]
    stored = hu if scale is None else ((hu - scale[1]) / scale[0]).astype(hu.dtype)
    header = nibabel.Nifti1Header(endianness=">" if hu.dtype.byteorder == ">" else "<")
    header.set_data_dtype(hu.dtype)
    image = nibabel.Nifti1Image(stored, AFFINE, header)
    if scale:
        image.header.set_slope_inter(*scale)
    nibabel.save(image, tmp_path / "volume-0.nii")  # stored numbers are not rescaled if a scale is given
    source = nibabel.load(tmp_path / "volume-0.nii")
    assert source.get_data_dtype() == hu.dtype
    written = round_trip(tmp_path / "volume-0.nii")
    check_same_header(written, source)
    np.testing.assert_array_equal(np.asarray(written.dataobj), labels_of())


@pytest.mark.parametrize("slices", [1, 42, 1026])
@pytest.mark.parametrize("codes", ["RAS", "LPS", "SAL"])
def test_any_number_of_slices(tmp_path, store, slices, codes):
    labels = labels_of((8, 8, slices))
    path = store(tmp_path / "volume-0.nii.gz", HU_OF_LABEL[labels], codes)
    written = nibabel.as_closest_canonical(round_trip(path, labels.shape))
    np.testing.assert_array_equal(np.asarray(written.dataobj), labels)
    written = nibabel.as_closest_canonical(round_trip(path, (16, 16, 64)))
    assert written.shape == labels.shape


@pytest.mark.parametrize("number", [3, 28, 47, 53])
def test_faults_are_detected_from_the_header_and_not_from_the_case_number(tmp_path, number, caplog):
    """In LiTS, cases 28-47 lack an affine, and the mask of case 53 has another affine; the names are ignored."""
    hu, labels = HU_OF_LABEL[labels_of()], labels_of()
    sound, lost, mask = (tmp_path / name / f"volume-{number}.nii" for name in ("sound", "lost", "mask"))
    for path, array, affine in ((sound, hu, AFFINE), (lost, hu, np.eye(4)), (mask, labels, oblique())):
        path.parent.mkdir()
        nibabel.save(nibabel.Nifti1Image(array, affine), path)
    volume = read_volume(sound)
    assert volume.geometry.spacing == (1.5, 2.0, 3.0)
    assert not caplog.records
    assert read_volume(lost).geometry.spacing == (1.0, 1.0, 1.0)
    assert f"volume-{number}.nii: its affine is the identity" in caplog.text
    np.testing.assert_array_equal(read_labels(mask, volume), labels)
    assert f"volume-{number}.nii: its affine differs from the affine of" in caplog.text
    assert len(caplog.records) == 2


def test_a_mask_with_another_affine_is_written_with_the_affine_of_its_volume(tmp_path):
    hu, labels = HU_OF_LABEL[labels_of()], labels_of()
    for name, array, affine in (("volume", hu, oblique()), ("segmentation", labels, AFFINE)):
        nibabel.save(nibabel.Nifti1Image(array, affine), tmp_path / f"{name}-53.nii")
    volume = read_volume(tmp_path / "volume-53.nii")
    write_labels(tmp_path / "out.nii", read_labels(tmp_path / "segmentation-53.nii", volume), volume.geometry)
    check_same_header(nibabel.load(tmp_path / "out.nii"), nibabel.load(tmp_path / "volume-53.nii"))
    np.testing.assert_array_equal(np.asarray(nibabel.load(tmp_path / "out.nii").dataobj), labels)
