"""HU in unsigned and wide integers, and images of one value."""

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.description.description import Description
from mtf_imaging.errors import DataError
from tests.data.dicom_folder import write_series
from tests.data.reading import read_image, read_volume
from tests.data.zarr_image import write_image

MR = Description(channels=("T1w",), labels={"a": 1}, masks={"a": (1,)})
# The type of the file: the unsigned types in which negative HU may have been wrapped before.
WRAPPED = {
    "uint16": ["uint16"],
    "uint32": ["uint32", "uint16"],
    "uint64": ["uint64", "uint32", "uint16"],
    "int32": ["uint16"],
    "int64": ["uint32", "uint16"],
}


@pytest.mark.parametrize(("dtype", "wrapped"), [(one, other) for one, others in WRAPPED.items() for other in others])
@pytest.mark.parametrize("order", ["<", ">"])
def test_wrapped_hu_are_negative(tmp_path, arrays, dtype, wrapped, order, caplog):
    hu = arrays()[0]
    hu[:2] = 3000
    stored = hu.astype(np.int64).astype(wrapped).astype(np.dtype(dtype).newbyteorder(order))
    affine = np.diag([1.5, 2, 3, 1])
    header = nibabel.Nifti1Header(endianness=order)
    image = nibabel.Nifti1Image(stored, affine, header, dtype=stored.dtype)
    nibabel.save(image, tmp_path / "volume-0.nii")
    np.testing.assert_array_equal(read_volume(tmp_path / "volume-0.nii").hu, hu)
    count, bits = np.count_nonzero(hu < 0), wrapped.removeprefix("uint")
    assert [record.getMessage().partition("volume-0.nii")[2] for record in caplog.records] == [
        f": {count} of {hu.size} unsigned {bits}-bit voxels are above 32767; they are read as negative HU."
    ]


def test_values_far_above_hu_are_not_wrapped(tmp_path, arrays):
    values = np.abs(arrays()[0].astype(np.int32)) + 40_000
    nibabel.save(nibabel.Nifti1Image(values, np.diag([1.5, 2, 3, 1])), tmp_path / "volume-0.nii")
    with pytest.raises(DataError, match="210 of 210 voxels are above 32767, so this is not a CT in HU"):
        read_volume(tmp_path / "volume-0.nii")


def test_a_constant_image_is_named(tmp_path, store, caplog):
    constant = np.full((7, 6, 5), -1000, np.int16)
    paths = [
        store(tmp_path / "a.nii", constant),
        store(tmp_path / "b.nii.gz", constant.astype(np.float32)),
        write_image(tmp_path / "c.ome.zarr", constant),
        write_series(tmp_path / "d", constant + np.int16(1024)),
    ]
    for path in paths:
        assert (read_volume(path).hu == -1000).all()
        assert f"{path.name}: this image is constant: -1000 HU in every voxel" in caplog.text
    read_image([store(tmp_path / "e.nii", np.zeros((7, 6, 5), np.uint8))], MR)
    assert "e.nii: this image is constant: T1w is 0 in every voxel" in caplog.text
    caplog.clear()
    constant[3, 2, 1] = 0
    read_volume(store(tmp_path / "f.nii", constant))
    read_image([store(tmp_path / "g.nii", constant)], MR)
    assert not caplog.records
