"""Maps beside segmentations: probabilities, their entropy, and the mutual information of several members."""

import itertools

import nibabel
import numpy as np
import pytest
import zarr
from scipy.stats import entropy as scipy_entropy

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.inference.averages import ensemble, flipped
from mtf_imaging.inference.network import Network, Slices, of_function
from mtf_imaging.inference.uncertainty import entropy, uncertainty, with_entropy
from mtf_imaging.kinds.volumes.segment import maps
from mtf_imaging.kinds.volumes.segment.maps import MapChoice
from tests.data.dicom_folder import write_series
from tests.data.test_write_labels import volume as empty_volume
from tests.data.zarr_image import write_image
from tests.kinds.volumes import plan_predictions, predict_cases, prediction_files

SHAPE = (9, 8, 7)
SAMPLINGS = {
    "own grid": Sampling(SHAPE),
    "another grid": Sampling((5, 12, 6)),
    "a box that crops x and pads y": Sampling((4, 12, 6), (1.5, 2.0, 4.0)),
}
EVERY = MapChoice(True, True, several=True)
REGIONS = Description(("CT",), {"whole": 1, "core": 2}, {"whole": (1, 2), "core": (2,)}, region_order=(1, 2))


def network(seed, count=3):
    """Returns a function of a whole image with the probabilities of a random, smooth network."""
    factors = np.random.default_rng(seed).normal(size=(4, count)) * 3

    def predict(image):
        x, y, z = (np.linspace(-1, 1, n) for n in image.shape[:3])
        features = np.stack(np.broadcast_arrays(x[:, None, None], y[:, None], z, image[..., 0] + 1), -1)
        values = np.exp(features @ factors).astype(np.float32)
        return values / values.sum(-1, keepdims=True)

    return predict


def members(seeds, flips=(), has_regions=False, count=3):
    networks = [with_entropy(of_function(network(seed, count), 1, count), has_regions) for seed in seeds]
    return ensemble([flipped(each, ["xyz".index(axis) for axis in flips]) for each in networks])


def predicted(path, output, sampling, predict, choice=EVERY, **options):
    (written,) = predict_cases(path, output, sampling, predict, progress=False, maps=choice, **options)
    return written, choice.paths(written, output if path.name == "cases" else None)


def read(path):
    return np.asarray(nibabel.load(path).dataobj)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("codes", ["RAS", "LPI", "SAL"])
def test_the_largest_probability_is_the_label(tmp_path, sampling, codes, monkeypatch):
    path = empty_volume(tmp_path, codes)
    written, files = predicted(path, tmp_path / "out.nii.gz", sampling, members((0, 1)))
    probabilities, labels = read(files[0]), read(written)
    assert probabilities.dtype == np.float32
    assert probabilities.shape == (*labels.shape, 3)
    np.testing.assert_array_equal(probabilities.argmax(-1), labels)
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
    assert len(np.unique(labels)) > 1
    np.testing.assert_array_equal(nibabel.load(files[0]).affine, nibabel.load(path).affine)
    for name, file in zip(EVERY.names, files, strict=True):
        assert file.name == f"out_{name}.nii.gz"
    monkeypatch.setattr(maps, "_SLAB_BYTES", 700)
    _, again = predicted(path, tmp_path / "again.nii.gz", sampling, members((0, 1)))
    for first, second in zip(files, again, strict=True):
        np.testing.assert_array_equal(read(first), read(second))


def test_the_values_are_those_of_the_formulas(tmp_path):
    path = empty_volume(tmp_path, "RAS")
    image = np.full((*SHAPE, 1), 0.5, np.float32)
    each = [network(seed)(image).astype(np.float64) for seed in (0, 1)]
    flipped = [np.flip(network(seed)(np.flip(image, 0)), 0).astype(np.float64) for seed in (0, 1)]
    every = [*each, *flipped]
    mean = np.mean(every, axis=0)
    expected = (
        scipy_entropy(mean, axis=-1),
        scipy_entropy(mean, axis=-1) - np.mean([scipy_entropy(one, axis=-1) for one in every], axis=0),
    )
    window = (-1000.0, 1000.0)  # the volume of zeros becomes 0.5
    _, files = predicted(path, tmp_path / "out.nii", Sampling(SHAPE), members((0, 1), ("x",)), window=window)
    assert [file.name for file in files] == [f"out_{name}.nii.gz" for name in EVERY.names]
    np.testing.assert_allclose(read(files[0]), mean, atol=1e-5)
    for file, values in zip(files[1:], expected, strict=True):
        np.testing.assert_allclose(read(file), values, atol=1e-5)
    assert read(files[2]).max() > 0.1


@pytest.mark.parametrize("count", [2, 3, 7])
def test_there_is_no_information_where_all_members_agree(count):
    predict = members([5] * count)
    values = predict(np.full((*SHAPE, 1), 0.5, np.float32))
    result = uncertainty(values)
    assert (result[..., 1] == 0).all()
    assert result[..., 0].max() > 0.4
    assert uncertainty(values, several=False).shape == (*SHAPE, 1)


def test_certain_probabilities_have_no_entropy():
    certain = np.eye(4, dtype=np.float32)
    assert (entropy(certain) == 0).all()
    assert (entropy(certain, has_regions=True) == 0).all()
    np.testing.assert_allclose(entropy(np.full(4, 0.25)), np.log(4), rtol=1e-6)
    np.testing.assert_allclose(entropy(np.full(4, 0.5), has_regions=True), 4 * np.log(2), rtol=1e-6)
    mask = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    np.testing.assert_allclose(entropy(np.full(1, 0.25), has_regions=True), mask, rtol=1e-6)


def test_the_information_is_at_most_the_entropy():
    values = members(range(4))(np.random.default_rng(0).random((*SHAPE, 1), np.float32))
    result = uncertainty(values)
    assert (result[..., 1] >= 0).all()
    assert (result[..., 1] <= result[..., 0]).all()
    assert (result[..., 0] <= np.log(3) + 1e-6).all()


def test_masks_have_probabilities_of_their_own(tmp_path):
    path, sampling = empty_volume(tmp_path, "LPS"), SAMPLINGS["a box that crops x and pads y"]
    predict = members((0, 1), has_regions=True, count=2)
    written, files = predicted(path, tmp_path / "out.nii.gz", sampling, predict, description=REGIONS)
    probabilities = read(files[0])
    np.testing.assert_array_equal(REGIONS.to_labels(probabilities), read(written))
    beyond = probabilities.sum(-1) == 0
    assert beyond.any()
    for file in files[1:]:
        assert (read(file)[beyond] == 0).all()


@pytest.mark.parametrize("is_zarr", [False, True], ids=["from NIfTI", "from OME-Zarr"])
def test_ome_zarr_has_the_values_of_nifti(tmp_path, is_zarr):
    path = empty_volume(tmp_path, "SAL")
    if is_zarr:
        path = write_image(tmp_path / "volume-0.ome.zarr", np.ones(SHAPE, np.int16), scale=(1.5, 2.0, 3.0))
    sampling = SAMPLINGS["another grid"]
    _, expected = predicted(path, tmp_path / "out.nii.gz", sampling, members((0, 1)))
    written, files = predicted(path, tmp_path / "out.ome.zarr", sampling, members((0, 1)))
    assert [file.name for file in files] == [f"out_{name}.ome.zarr" for name in EVERY.names]
    labels = zarr.open_group(written, mode="r")["0"]
    for file, nifti, count in zip(files, expected, (3, 1, 1), strict=True):
        group = zarr.open_group(file, mode="r")
        array, (multiscale,) = group["0"], group.attrs["ome"]["multiscales"]
        assert [axis["name"] for axis in multiscale["axes"]] == [*"c" * (count > 1), *labels.metadata.dimension_names]
        values = array[...] if count > 1 else array[...][None]
        geometry = read_geometry(nifti if count == 1 else written.with_name("out.nii.gz"))
        canonical = geometry.to_canonical(read(nifti))
        order = ["xyz".index(name) for name in labels.metadata.dimension_names]
        canonical = canonical.reshape(*SHAPE, count).transpose(3, *order)
        np.testing.assert_array_equal(values, canonical)
        for step in multiscale["datasets"][0]["coordinateTransformations"]:
            assert len(step[step["type"]]) == array.ndim
        names = ["background", "liver", "lesion"] if count > 1 else [file.name.removesuffix(".ome.zarr")[4:]]
        assert group.attrs["mtf_imaging"]["maps"] == names


def test_the_maps_of_a_dicom_series_are_nifti(tmp_path):
    path = write_series(tmp_path / "series", np.zeros(SHAPE, np.int16))
    written, (probabilities,) = predicted(
        path, tmp_path / "out.nrrd", Sampling((4, 4, 4)), network(0), MapChoice(probabilities=True)
    )
    assert written.name == "out.nrrd"
    assert read(probabilities).shape == (*SHAPE, 3)


def test_the_maps_of_a_folder_are_in_folders_of_their_own(tmp_path):
    cases = tmp_path / "cases"
    cases.mkdir()
    empty_volume(cases, "RAS")
    written, _ = predicted(cases, tmp_path / "out", Sampling((4, 4, 4)), members((0, 1)))
    found = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.nii.gz"))
    name = written.name
    assert found == sorted([name, *(f"{one}/{name}" for one in EVERY.names)])
    planned = plan_predictions(cases, tmp_path / "new", maps=EVERY)
    (image,) = prediction_files(planned.pairs, cases, tmp_path / "new", EVERY).images
    assert [path.parent.name for path in image.outputs] == ["new", *EVERY.names]
    with pytest.raises(DataError, match=r"already exists"):
        plan_predictions(cases / "volume-0.nii.gz", tmp_path / "out", maps=EVERY)
    (tmp_path / "one_entropy.nii.gz").touch()
    with pytest.raises(DataError, match=r"one_entropy\.nii\.gz: already exists"):
        plan_predictions(cases / "volume-0.nii.gz", tmp_path / "one.nii.gz", maps=EVERY)
    kept = empty_volume(tmp_path, "RAS").rename(tmp_path / "two_entropy.nii.gz")
    with pytest.raises(DataError, match=r"two_entropy\.nii\.gz: would be overwritten by its maps"):
        plan_predictions(kept, tmp_path / "two.nii.gz", overwrite=True, maps=EVERY)


class Part:
    """One of several processes that are simulated one after the other: moves arrays between their slices."""

    num = 1

    def __init__(self, arrays):
        self.arrays, self.index = arrays, 0

    def move(self, array, have, want, order="C"):
        whole = np.zeros([max(region[axis].stop for region in have) for axis in range(array.ndim)], array.dtype)
        for part, region in zip(self.arrays, have, strict=True):
            whole[tuple(region)] = part
        return whole[tuple(want[self.index])]


def test_classes_that_are_split_are_gathered_for_the_entropy():
    image = np.full((*SHAPE, 1), 0.5, np.float32)
    probabilities = network(3)(image)
    regions = [
        (x, slice(0, 8), slice(0, 7), classes)
        for x, classes in itertools.product((slice(0, 5), slice(5, 9)), (slice(0, 2), slice(2, 3)))
    ]
    group = Part([probabilities[region] for region in regions])

    split = Slices(
        group, regions, regions, lambda images: group.arrays[group.index][None], [slice(0, 1)] * len(regions)
    )
    slices = with_entropy(Network(lambda sizes: split)).slices(SHAPE)
    expected = with_entropy(of_function(network(3), 1, 3))(image)
    for group.index, region in enumerate(slices.outputs):
        assert region[3] == slice(0, 4)
        np.testing.assert_array_equal(slices.predict(None)[0], expected[region])
