"""OME-Zarr images that we write open in ngff-zarr with the same voxels and geometry, and the other way round."""

import ngff_zarr
import nibabel
import numpy as np
import pytest

from mtf_imaging.data.formats.ome_zarr.writing import write_zarr_labels
from mtf_imaging.data.reading.geometry import read_geometry
from tests.data.reading import read_segmentation, read_volume

SCALE, TRANSLATION = {"x": 0.7, "y": 0.8, "z": 2.5}, {"x": -20.0, "y": 11.0, "z": 30.5}
SHAPE = (7, 6, 5)


def values():
    return np.random.default_rng(0).integers(-1000, 1000, SHAPE).astype(np.int16)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("dims", ["xyz", "zyx"])
def test_an_image_of_ngff_zarr_is_read(tmp_path, dims, version):
    hu, path = values(), tmp_path / "a.ome.zarr"
    image = ngff_zarr.to_ngff_image(
        np.transpose(hu, ["xyz".index(dim) for dim in dims]),
        list(dims),
        SCALE,
        TRANSLATION,
        axes_units=dict.fromkeys(dims, "millimeter"),
    )
    ngff_zarr.to_ngff_zarr(str(path), ngff_zarr.to_multiscales(image, scale_factors=[]), version=version)
    volume = read_volume(path)
    np.testing.assert_array_equal(volume.hu, hu)
    spacing = np.linalg.norm(volume.geometry.affine[:3, :3], axis=0)
    np.testing.assert_allclose(spacing, [*SCALE.values()])
    np.testing.assert_allclose(np.abs(volume.geometry.affine[:3, 3]), np.abs([*TRANSLATION.values()]))


def test_labels_of_ours_are_read_by_ngff_zarr(tmp_path):
    labels = (values() % 3).astype(np.uint8)
    nifti, path = tmp_path / "a.nii.gz", tmp_path / "b.ome.zarr"
    affine = nibabel.affines.from_matvec(np.diag([*SCALE.values()]), [*TRANSLATION.values()])
    nibabel.save(nibabel.Nifti1Image(labels, affine), nifti)
    write_zarr_labels(path, [labels], read_geometry(nifti))
    np.testing.assert_array_equal(read_segmentation(path).labels, labels)
    image = ngff_zarr.from_ngff_zarr(str(path)).images[0]
    spatial = [dim for dim in image.dims if dim in "xyz"]
    stored = np.asarray(image.data).reshape([n for n, dim in zip(image.data.shape, image.dims) if dim in "xyz"])
    np.testing.assert_array_equal(np.transpose(stored, [spatial.index(dim) for dim in "xyz"]), labels)
    assert {dim: image.scale[dim] for dim in "xyz"} == pytest.approx(SCALE)
    assert {dim: image.translation[dim] for dim in "xyz"} == pytest.approx(TRANSLATION)
