"""FreeSurfer files: values and geometry equal those of nibabel, and segmentations keep the place of the image."""

import nibabel
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.formats.all_formats import open_stored, write_label_slabs
from mtf_imaging.errors import DataError
from tests.data.reading import read_segmentation, read_volume, write_labels

SHAPE = (7, 6, 5)
OBLIQUE = np.eye(4)
OBLIQUE[:3, :3] = Rotation.from_euler("xyz", (12, -17, 25), degrees=True).as_matrix() @ np.diag([-0.9, 1.1, 1.3])
OBLIQUE[:3, 3] = 5, 7, 3


def save(path, dtype=np.int16, affine=OBLIQUE, shape=SHAPE):
    values = np.random.default_rng(0).integers(-1000, 200, shape).astype(dtype)
    nibabel.save(nibabel.MGHImage(values, affine), path)
    return values


@pytest.mark.parametrize("name", ["a.mgz", "a.mgh"])
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.float32])
def test_values_and_places_are_those_of_nibabel(tmp_path, name, dtype):
    values = save(tmp_path / name, dtype)
    volume = read_volume(tmp_path / name)
    np.testing.assert_array_equal(volume.geometry.to_stored(volume.hu), values)
    np.testing.assert_allclose(volume.geometry.affine, OBLIQUE, atol=1e-5)


@pytest.mark.parametrize(
    ("stored", "dtype", "top"), [(None, np.uint8, 1), ({1: 205}, np.uint8, 205), ({1: 300}, ">i4", 300)]
)
def test_a_segmentation_keeps_the_place(tmp_path, stored, dtype, top):
    save(tmp_path / "a.mgz")
    geometry = read_volume(tmp_path / "a.mgz").geometry
    labels = np.zeros(geometry.shape, np.uint8)
    labels[1:3, 2:, :4] = 1
    write_label_slabs(tmp_path / "s.mgz", [labels], geometry, stored=stored)
    written = nibabel.load(tmp_path / "s.mgz")
    np.testing.assert_allclose(written.affine, geometry.affine, atol=1e-5)
    assert written.get_data_dtype() == dtype
    np.testing.assert_array_equal(geometry.to_canonical(np.asarray(written.dataobj)), labels * np.int32(top))


def test_a_file_without_a_place_is_read_with_a_warning(tmp_path, caplog):
    save(tmp_path / "a.mgh")
    content = bytearray((tmp_path / "a.mgh").read_bytes())
    content[28:30] = b"\0\0"
    (tmp_path / "a.mgh").write_bytes(content)
    assert read_volume(tmp_path / "a.mgh").geometry.spacing == (1, 1, 1)
    assert "its header states no place (goodRASFlag is 0)" in caplog.text


def test_frames_are_channels(tmp_path):
    values = save(tmp_path / "a.mgz", shape=(*SHAPE, 2))
    stored, _ = open_stored(tmp_path / "a.mgz", ("T1w", "T2w"))
    np.testing.assert_array_equal(stored[1].open().read(slice(0, 5)), values[..., 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:200], "declares 7 x 6 x 5 voxels of int16 .* but the file has 200 bytes"),
        (lambda content: b"\0\0\0\2" + content[4:], "does not begin with a header of NIfTI or FreeSurfer"),
        (lambda content: content[:4] + b"\x7f\xff\xff\xff" + content[8:], "2147483647 x 6 x 5 voxels"),
        (lambda content: content[:20] + b"\0\0\0\x63" + content[24:], "cannot be read as NIfTI or FreeSurfer"),
    ],
)
def test_damage_is_named(tmp_path, change, message):
    save(tmp_path / "a.mgh")
    (tmp_path / "a.mgh").write_bytes(change((tmp_path / "a.mgh").read_bytes()))
    with pytest.raises(DataError, match=message):
        read_volume(tmp_path / "a.mgh")


def test_cases_may_have_this_format(tmp_path):
    save(tmp_path / "volume-1.mgz")
    write_labels(tmp_path / "segmentation-1.mgz", np.ones(SHAPE, np.uint8), open_stored(tmp_path / "volume-1.mgz")[1])
    (case,) = find_cases(tmp_path)
    assert case.prediction_name == "segmentation-1.mgz"
    assert read_segmentation(case.labels).labels.all()
