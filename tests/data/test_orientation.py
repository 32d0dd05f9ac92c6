"""Files whose affine defines no axes: the orientation is inferred from the spine."""

import logging

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.images.orientation import y_points_back
from mtf_imaging.data.reading.geometry import read_geometry
from tests.data.reading import read_labels, read_volume, write_labels


def body(shape=(40, 30, 12)):
    """Returns HU of a body of water with a spine at the back (low y)."""
    hu = np.full(shape, -1000, np.int16)
    hu[5:35, 4:26] = 40
    hu[18:22, 6:9] = 600
    return hu


def test_axes_of_an_identity_affine_are_inferred_from_the_spine(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    assert not y_points_back(body())
    assert y_points_back(body()[:, ::-1])
    assert not y_points_back(np.zeros((4, 4, 4), np.int16))
    for name, stored in (("ras", body()), ("lps", body()[::-1, ::-1])):
        nibabel.save(nibabel.Nifti1Image(stored, np.eye(4)), tmp_path / f"{name}.nii")
        volume = read_volume(tmp_path / f"{name}.nii")
        np.testing.assert_array_equal(volume.hu, body())
        assert volume.geometry.axis_codes == name.upper()
        assert f"{name}.nii: its affine is the identity" in caplog.text
        # Written labels have the stored axes and the affine of the file.
        write_labels(tmp_path / f"{name}-out.nii", (volume.hu > 500).astype(np.uint8), volume.geometry)
        written = nibabel.load(tmp_path / f"{name}-out.nii")
        np.testing.assert_array_equal(np.asarray(written.dataobj), stored > 500)
        np.testing.assert_array_equal(written.affine, np.eye(4))
        np.testing.assert_array_equal(read_labels(tmp_path / f"{name}-out.nii", volume), body() > 500)
    read_volume(tmp_path / "ras.nii")
    assert (
        "read as LPS, because the spine shows that the second axis points to the back, with voxels of 1 x 1 x 1 mm, "
        "from its pixdim; "
    ) in caplog.text
    assert caplog.text.count("ras.nii: its affine is the identity") == 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((78, 79), True),  # 8.5 rows behind the middle of the body
        ((77, 79), False),  # 8 rows, exactly 0.08 of the depth
        ((70, 71), False),
        ((60, 61), False),
    ],
)
def test_the_spine_shows_the_back_only_if_it_is_clearly_off_center(rows, expected):
    """The threshold is a fraction of the depth of the body, here 100 of 160 rows with the middle at 69.5."""
    hu = np.full((6, 160, 3), -1000, np.int16)
    hu[1:5, 20:120] = 40
    hu[2:4, slice(*rows)] = 600
    assert y_points_back(hu) is expected


@pytest.mark.parametrize("affine", [np.eye(4), None], ids=["identity", "none"])
def test_the_pixdim_is_used_if_the_affine_is_lost(tmp_path, affine, caplog):
    """The header stores the voxel size twice, so pixdim can replace an affine that defines no axes."""
    image = nibabel.Nifti1Image(body()[::-1, ::-1], affine)
    data = bytearray(image.to_bytes())
    data[80:92] = np.array((0.7, 0.7, 2.5), "<f4").tobytes()  # pixdim[1:4]
    path = tmp_path / "volume-0.nii"
    path.write_bytes(data)
    volume = read_volume(path)
    np.testing.assert_array_equal(volume.hu, body())
    assert volume.geometry.spacing == pytest.approx((0.7, 0.7, 2.5))
    assert read_geometry(path).spacing == volume.geometry.spacing
    assert volume.geometry.axis_codes == "LPS"
    assert "; read as LPS, because the spine" in caplog.text
    assert "0.7 x 0.7 x 2.5 mm, from its pixdim; spacing and all results" in caplog.text
    assert "results in mm depend on this size. Fix: give the true size in a spacing_table." in caplog.text
    assert [record.settings for record in caplog.records] == [("spacing_table",)]
    write_labels(tmp_path / "out.nii", (volume.hu > 500).astype(np.uint8), volume.geometry)
    written, source = nibabel.load(tmp_path / "out.nii"), nibabel.load(path)
    np.testing.assert_array_equal(np.asarray(written.dataobj), np.asarray(source.dataobj) > 500)
    np.testing.assert_array_equal(written.affine, source.affine)
    assert written.header["sform_code"] == source.header["sform_code"]
    np.testing.assert_array_equal(read_labels(tmp_path / "out.nii", volume), body() > 500)
