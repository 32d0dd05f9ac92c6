"""Units of NIfTI files, sheared affines and headers that contradict themselves."""

import gzip
import json
import logging

import nibabel
import numpy as np
import pytest
import SimpleITK

from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.images.geometry import check_orthogonal
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.files.reading import Fault
from tests.data.reading import read_mask, read_segmentation, read_volume, write_labels
from tests.data.zarr_image import write_image

AFFINE = nibabel.affines.from_matvec(np.diag([0.8, 0.8, 2.0]), (-20.0, 10.0, 30.0))
UNITS = {"micron": 1000.0, "meter": 0.001, "mm": 1.0, "unknown": 1.0}  # of a millimeter


def save(path, array, affine=AFFINE, unit="mm", sform=1, qform=1, **fields):
    """Writes a file whose affine in mm is `affine`; other fields of the header are written as they are."""
    stored = np.array(affine, np.float64)
    stored[:3] *= UNITS[unit]
    header = nibabel.Nifti1Header()
    header.set_data_shape(array.shape)
    header.set_data_dtype(array.dtype)
    header.set_qform(stored, qform, strip_shears=True)
    header.set_sform(stored, sform)
    header.set_xyzt_units(unit)
    header["vox_offset"], header["scl_slope"], header["scl_inter"], header["magic"] = 352, 1, 0, b"n+1"
    for name, value in fields.items():
        header[name] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    data = header.binaryblock + bytes(4) + array.tobytes(order="F")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def shear(degrees, rows=(1, 2)):
    """Returns an affine whose third axis is tilted, as by a gantry."""
    affine = AFFINE.copy()
    affine[rows] = affine[2, 2] * np.tan(np.radians(degrees))
    return affine


@pytest.mark.parametrize("form", [(1, 1), (1, 0), (0, 1)], ids=["both", "sform", "qform"])
@pytest.mark.parametrize("unit", UNITS)
def test_lengths_are_in_mm(tmp_path, arrays, unit, form, caplog):
    hu, labels = arrays()
    path = save(tmp_path / "volume-0.nii", hu, unit=unit, sform=form[0], qform=form[1])
    volume = read_volume(path)
    np.testing.assert_allclose(volume.geometry.canonical_affine, AFFINE, rtol=1e-6)
    np.testing.assert_allclose(volume.geometry.spacing, SimpleITK.ReadImage(str(path)).GetSpacing(), rtol=1e-6)
    assert read_geometry(path).spacing == volume.geometry.spacing
    np.testing.assert_allclose(volume.geometry.header_spacing, (0.8, 0.8, 2), rtol=1e-6)
    mask = save(tmp_path / "mask.nii", labels)  # in mm
    np.testing.assert_array_equal(read_mask(mask, volume).labels, labels)
    assert not caplog.records


@pytest.mark.parametrize("unit", UNITS)
def test_a_prediction_lies_on_its_volume_in_every_program(tmp_path, arrays, unit):
    hu, labels = arrays()
    path = save(tmp_path / "volume-0.nii", hu, unit=unit)
    for name in ("out.nii.gz", "out.ome.zarr"):
        write_labels(tmp_path / name, labels, read_volume(path).geometry)
        np.testing.assert_allclose(read_segmentation(tmp_path / name).geometry.affine, AFFINE, rtol=1e-6)
        np.testing.assert_array_equal(read_mask(tmp_path / name, read_volume(path)).labels, labels)
    written, source = nibabel.load(tmp_path / "out.nii.gz"), nibabel.load(path)
    np.testing.assert_array_equal(written.affine, source.affine)
    assert written.header.get_xyzt_units() == source.header.get_xyzt_units()
    images = [SimpleITK.ReadImage(str(one)) for one in (path, tmp_path / "out.nii.gz")]
    np.testing.assert_allclose(images[0].GetOrigin(), images[1].GetOrigin(), rtol=1e-6)
    np.testing.assert_allclose(images[0].GetSpacing(), images[1].GetSpacing(), rtol=1e-6)


def test_scores_are_in_mm(tmp_path, arrays):
    labels, scores = arrays()[1], []
    for unit in ("mm", "micron"):
        for name, array in (("a", labels), ("b", np.roll(labels, 1, axis=2))):
            save(tmp_path / unit / name / "segmentation-0.nii", array, unit=unit)
        folder = tmp_path / unit
        score_folders(folder / "a", folder / "b", folder / "scores", workers=1, progress=False)
        case = json.loads((folder / "scores" / "metrics.json").read_text())["cases"]["0"]
        scores.append([case["liver"][name] for name in ("dice", "assd", "hd95")])
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert scores[0][1] < 10


def test_a_size_without_an_affine_has_the_unit_of_the_file(tmp_path, arrays):
    path = save(tmp_path / "volume-0.nii", arrays()[0], unit="micron", sform=0, qform=0)
    assert read_geometry(path).spacing == pytest.approx((0.8, 0.8, 2))


def test_the_identity_in_any_unit_defines_no_axes(tmp_path, arrays, caplog):
    path = save(tmp_path / "volume-0.nii", arrays()[0], np.eye(4) / 1000, unit="micron")
    assert read_volume(path).geometry.spacing == pytest.approx((0.001,) * 3)
    assert "its affine is the identity" in caplog.text


def test_unusual_units_are_named(tmp_path, arrays, caplog):
    hu = arrays()[0]
    assert read_geometry(save(tmp_path / "a.nii", hu, xyzt_units=3)).spacing[2] == pytest.approx(0.002)
    assert "a.nii: its unit of length is µm, so voxels have 0.0008 x 0.0008 x 0.002 mm, which is" in caplog.text
    assert read_geometry(save(tmp_path / "b.nii", hu, xyzt_units=1)).spacing[2] == pytest.approx(2000)
    assert "b.nii: its unit of length is m, so voxels have 800 x 800 x 2000 mm" in caplog.text
    assert read_geometry(save(tmp_path / "c.nii", hu, xyzt_units=5)).spacing[2] == pytest.approx(2)
    assert "c.nii: the code 5 of its unit of length is not defined in NIfTI; lengths are read as mm." in caplog.text
    caplog.clear()
    assert read_geometry(save(tmp_path / "d.nii", hu, xyzt_units=2 + 8)).spacing[2] == pytest.approx(2)  # and seconds
    assert not caplog.records


@pytest.mark.parametrize("reader", [read_volume, read_geometry, read_segmentation])
@pytest.mark.parametrize("rows", [(1, 2), (0, 2), (0, 1)])
def test_a_sheared_sform_is_refused(tmp_path, arrays, reader, rows):
    affine = shear(20, rows)
    path = save(tmp_path / "volume-0.nii.gz", arrays()[1].astype(np.int16), affine)
    first, second = (affine[:3, row] / np.linalg.norm(affine[:3, row]) for row in rows)
    angle = np.degrees(np.arccos(first @ second))
    axes = " and ".join("ijk"[number] for number in rows)
    message = f"volume-0.nii.gz: its affine is sheared: the angle between the voxel axes {axes} is {angle:.2f} degrees"
    with pytest.raises(DataError, match=f"{message} instead of 90, .*tilted by .*Fix: resample.*perpendicular axes"):
        reader(path)


def test_a_sheared_affine_of_an_ome_zarr_image_is_refused(tmp_path, arrays):
    scale = tuple(np.linalg.norm(shear(5)[:3, :3], axis=0))
    ours = {"affine": shear(5).tolist()}
    path = write_image(tmp_path / "volume-0.ome.zarr", arrays()[0], scale=scale, mtf_imaging=ours)
    with pytest.raises(DataError, match=r"volume-0\.ome\.zarr: its affine is sheared: .* is 85\.00 degrees"):
        open_stored(path)


@pytest.mark.parametrize("degrees", [0, 0.05, -0.05, 0.2, -0.2])
def test_only_rounding_is_accepted(degrees):
    if abs(degrees) < 0.1:
        check_orthogonal(shear(degrees))
    else:
        with pytest.raises(Fault, match="its affine is sheared"):
            check_orthogonal(shear(degrees))


def test_rotations_in_single_precision_are_not_sheared():
    rng = np.random.default_rng(0)
    for _ in range(100):
        rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        affine = nibabel.affines.from_matvec(rotation @ np.diag(rng.uniform(0.001, 9, 3)))
        check_orthogonal(affine.astype(np.float32))
        check_orthogonal(np.round(rotation, 4))


def test_a_sform_that_contradicts_the_header_is_named(tmp_path, arrays, caplog):
    hu = arrays()[0]
    assert read_volume(save(tmp_path / "a.nii", hu, qoffset_x=-10, sform=2)).geometry.affine[0, 3] == -20
    assert "a.nii: its sform (code 2) and its qform (code 1) put the voxels in different places" in caplog.text
    assert "-20, 10, 30 mm or at -10, 10, 30 mm, with the axes RAS or RAS; the sform is used" in caplog.text
    for name, qform, other in (("b.nii", 1, "pixdim, as in the qform"), ("c.nii", 0, "pixdim")):
        path = save(tmp_path / name, hu, qform=qform, pixdim=[1, 0.8, 0.8, 2.5, 1, 1, 1, 1])
        assert read_volume(path).geometry.spacing == pytest.approx((0.8, 0.8, 2))
        assert (
            f"{name}: the voxel size is 0.8 x 0.8 x 2 mm in the sform, but 0.8 x 0.8 x 2.5 mm in {other}; the sform is "
            "used." in caplog.text
        )
    caplog.clear()
    for number, fields in enumerate(({"qoffset_x": -20.1}, {"qform_code": 0, "qoffset_x": -10}, {"sform_code": 0})):
        read_volume(save(tmp_path / f"{number}.nii", hu, AFFINE @ np.diag([1, -1, 1, 1]), **fields))
    assert not caplog.records


def test_small_voxels_define_axes(tmp_path, arrays):
    path = save(tmp_path / "volume-0.nii", arrays()[0], np.diag([1e-4, 1e-4, 1e-4, 1]), unit="micron")
    assert read_geometry(path).spacing == pytest.approx((1e-4,) * 3)


NUMBERS = {
    "inf offset": ({"vox_offset": np.inf}, "vox_offset is inf, but the voxels .* start after the header of 348 bytes"),
    "nan offset": ({"vox_offset": np.nan}, "vox_offset is nan"),
    "negative offset": ({"vox_offset": -352}, "vox_offset is -352"),
    "offset in the header": ({"vox_offset": 100}, "vox_offset is 100"),
    "offset beyond the file": (
        {"vox_offset": 1e30},
        "its header declares 1[0-9]{30} bytes before its voxels, but the file has",
    ),
    "inf slope": ({"scl_slope": np.inf}, "scl_slope is inf and scl_inter is 0, which give no values"),
    "nan inter": ({"scl_inter": np.nan}, "scl_slope is 1 and scl_inter is nan, which give no values"),
    "no axes": ({"dim": [0] * 8}, "Fix: "),
    "too many axes": ({"dim": [9, 7, 6, 5, 1, 1, 1, 1]}, "Fix: "),
    "negative axes": ({"dim": [-3, 7, 6, 5, 1, 1, 1, 1]}, "Fix: "),
    "no voxels": ({"dim": [3, 0, 6, 5, 1, 1, 1, 1]}, r"shape \(0, 6, 5\) is neither a 3-D volume"),
    "huge axes": ({"dim": [7] + [32767] * 7}, "Fix: "),
    "unknown type": ({"datatype": 9999}, "Fix: "),
}


@pytest.mark.parametrize("reader", [read_volume, read_geometry, read_segmentation])
@pytest.mark.parametrize("name", NUMBERS)
def test_headers_with_unusable_numbers_are_named(tmp_path, arrays, name, reader):
    fields, message = NUMBERS[name]
    path = save(tmp_path / "volume-0.nii", arrays()[0], **fields)
    with pytest.raises(DataError, match=rf"volume-0\.nii: .*{message}"):
        reader(path)


def test_a_slope_of_nan_is_no_scale(tmp_path, arrays, caplog):
    path = save(tmp_path / "volume-0.nii", arrays()[0], scl_slope=np.nan)
    np.testing.assert_array_equal(read_volume(path).hu, arrays()[0])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "volume-0.nii: scl_slope is NaN; the stored numbers are read without a scale." in caplog.text
