import numpy as np
import pytest
from scipy import ndimage

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.phantom.phantom import STORED_AS, make_case, write_phantom
from mtf_imaging.errors import DataError
from tests.data.reading import read_labels, read_volume
from tests.records import contents


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six phantom cases of seed 0."""
    path = tmp_path_factory.mktemp("phantom")
    assert write_phantom(path, 6, seed=0) == ["0", "1", "2", "3", "4", "5"]
    return path


@pytest.fixture(scope="module")
def cases(folder):
    """The volumes and labels of the phantom cases, in canonical axes."""
    volumes = [(read_volume(case.volume), case.labels) for case in find_cases(folder)]
    return [(volume, read_labels(labels, volume)) for volume, labels in volumes]


@pytest.mark.slow
def test_the_bytes_of_a_case_depend_only_on_seed_and_number(folder, tmp_path):
    write_phantom(tmp_path / "again", 2, seed=0, first_case=3)
    again = contents(tmp_path / "again")
    assert sorted(again) == [f"{kind}-{n}.nii.gz" for kind in ("segmentation", "volume") for n in (3, 4)]
    assert again.items() <= contents(folder).items()
    write_phantom(tmp_path / "other", 1, seed=1, first_case=3)
    assert contents(tmp_path / "other")["volume-3.nii.gz"] != again["volume-3.nii.gz"]


def test_files_of_another_run_are_not_overwritten(tmp_path):
    write_phantom(tmp_path, 1, seed=0)
    before = contents(tmp_path)
    (tmp_path / "segmentation-0.nii.gz").unlink()
    write_phantom(tmp_path, 1, seed=0)  # resumes
    assert contents(tmp_path) == before
    with pytest.raises(
        DataError,
        match=r"volume-0\.nii\.gz: the contents of this file differ from the synthetic data of seed 1; nothing",
    ):
        write_phantom(tmp_path, 1, seed=1)
    with pytest.raises(
        DataError, match=r"contains 2 file\(s\) of cases other than 5\.\.6, such as segmentation-0\.nii\.gz\."
    ):
        write_phantom(tmp_path, 2, seed=0, first_case=5)
    with pytest.raises(DataError, match="num_cases 0"):
        write_phantom(tmp_path, 0, seed=0)
    assert contents(tmp_path) == before


def test_files_are_stored_as_public_sets_are(cases):
    assert [volume.geometry.axis_codes for volume, _ in cases] == [*STORED_AS, STORED_AS[0]]
    for volume, labels in cases:
        sx, sy, sz = volume.geometry.spacing
        assert sx == sy != sz
        assert volume.geometry.header.get_data_dtype() == np.int16
        assert set(np.unique(labels)) <= {0, 1, 2}


def test_organs_have_plausible_size_and_hounsfield_units(cases):
    for volume, labels in cases:
        liters_per_voxel = np.prod(volume.geometry.spacing) / 1e6
        assert 0.9 < (labels >= 1).sum() * liters_per_voxel < 2.1
        inside = ndimage.binary_erosion(labels == 1, iterations=2)
        assert 95 < np.median(volume.hu[inside]) < 130
        assert 8 < volume.hu[inside].std() < 40
        corner = volume.hu[:4, :4, :4]
        assert corner.min() >= -1024
        assert -1010 < np.median(corner) < -980
        assert (volume.hu > 300).sum() * liters_per_voxel > 0.1  # bone
        lungs = (volume.hu > -950) & (volume.hu < -750)
        assert lungs[:, :, -5:].sum() > 3 * lungs[:, :, :5].sum()  # at the top
        x = np.argwhere(labels >= 1)[:, 0].mean()
        assert x > 0.52 * labels.shape[0]  # the liver is on the right


def test_lesions_are_dark_and_of_plausible_number_and_size(cases):
    counts = []
    for volume, labels in cases:
        parts, count = ndimage.label(labels == 2)
        counts.append(count)
        for part in ndimage.find_objects(parts) if count == 1 else ():  # several lesions can form one component
            assert max(np.multiply([axis.stop - axis.start for axis in part], volume.geometry.spacing)) < 30 + 4
        core = ndimage.binary_erosion(labels == 2)
        if core.any():
            assert 20 < volume.hu[core].mean() < 75
    assert max(counts) <= 6
    assert sum(counts) > 0


def test_a_case_is_a_function_of_seed_and_number():
    for one, other in zip(make_case(2, 1), make_case(2, 1), strict=True):
        assert one.to_bytes() == other.to_bytes()


@pytest.mark.slow
def test_small_lesions_are_many_and_small_on_finer_voxels():
    volume, labels = make_case(1, 0, "small_lesions")
    assert min(volume.shape) > 100
    assert max(volume.header.get_zooms()) < 2
    parts, count = ndimage.label(np.asarray(labels.dataobj) == 2)
    volumes = np.bincount(parts.ravel())[1:] * np.prod(volume.header.get_zooms())
    diameters = np.cbrt(6 / np.pi * volumes)
    assert 6 <= count <= 14  # touching lesions count as one
    assert np.count_nonzero(diameters < 10) >= 2
    assert diameters.max() < 40
