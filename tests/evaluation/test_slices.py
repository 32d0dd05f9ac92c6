"""Regions of the input of a network, and labels that are computed from slices, in one process."""

from pathlib import Path

import numpy as np
import pytest

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.data.sampling.slabs import source_region
from mtf_imaging.engine.layout.regions import whole_region as whole
from mtf_imaging.engine.meshes.group import ALONE
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.inference.network import Slices, as_network
from mtf_imaging.kinds.volumes.segment.images import input_region, source_statistics
from mtf_imaging.kinds.volumes.segment.labels import Labeling
from tests.data.reading import Image
from tests.data.test_write_labels import volume as store
from tests.kinds.volumes import as_source, network_input, sliced_labels

SHAPE = (13, 22, 17)
MR = Description(("T1w", "noNorm", "CT"), {"tumor": 1}, {"tumor": (1,)})
SAMPLINGS = {
    "whole field": Sampling((8, 24, 17)),
    "cropped and padded": Sampling((6, 30, 12), (1.5, 2.0, 3.0)),
}
# Regions of the first grid that are inside both grids; the last one is empty.
REGIONS = [(slice(0, 6), slice(0, 24), slice(0, 12)), (slice(2, 4), slice(9, 20), slice(5, 6)), (slice(3, 3),) * 3]
samplings = pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)


@pytest.fixture
def geometry(tmp_path):
    return read_geometry(store(tmp_path, "LPS", SHAPE))


def image(geometry, description):
    rng = np.random.default_rng(0)
    channels = [rng.integers(-1000, 1000, SHAPE, np.int16)]
    if description is MR:
        channels = [*rng.normal(size=(2, *SHAPE)).astype(np.float32), *channels]
    return Image(tuple(channels), description.channels, geometry, Path("case_0000.nii"))


@samplings
@pytest.mark.parametrize("description", [LITS, MR], ids=["CT", "three channels"])
@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_a_region_of_the_input_equals_the_whole_input(geometry, sampling, description, region):
    whole_image = image(geometry, description)
    expected = network_input(whole_image, sampling, description=description)
    source = as_source(whole_image)
    options = {"description": description, "statistics": source_statistics(source, description)}
    result = input_region(source, sampling, region, **options)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, expected[region])


@samplings
def test_only_the_voxels_that_a_region_needs_are_read(geometry, sampling):
    read, source = [], as_source(image(geometry, LITS))
    (channel,), voxels = source.channels, source.channels[0].read
    channel.read = lambda region: read.append(region) or voxels(region)
    input_region(source, sampling, REGIONS[1])
    needed = source_region(SHAPE, sampling.spans(SHAPE, geometry.spacing), REGIONS[1])
    covered = np.zeros(SHAPE, int)
    for region in read:
        covered[region] += 1
    expected = np.zeros(SHAPE, int)
    expected[needed] = 1
    np.testing.assert_array_equal(covered, expected)
    assert expected.sum() < expected.size / 4


def test_a_function_of_a_whole_image_has_one_slice():
    slices = as_network(lambda image: image * 2, 1, 5).slices((4, 3, 2))
    assert slices.group is ALONE
    assert slices.inputs == [whole((4, 3, 2, 1))]
    assert slices.outputs == [whole((4, 3, 2, 5))]
    np.testing.assert_array_equal(slices.predict_image(np.ones(2)), [2, 2])


# The slices of two processes.
_HALVES = [(x, slice(0, 3), slice(0, 2), slice(0, 2)) for x in (slice(0, 2), slice(2, 4))]
HALVES = Slices(ALONE, _HALVES, _HALVES, lambda images: images, [slice(0, 1)] * 2)


def test_the_shape_of_all_slices_is_checked(geometry):
    own = np.zeros((2, 3, 2, 2), np.float32)
    expected = r"shape \(4, 3, 2, 2\); x:4,y:3,z:2 needs \(4, 3, 2, 3\)"
    with pytest.raises(ShapeError, match=expected):
        sliced_labels(HALVES, own, geometry, Sampling((4, 3, 2)), Path("volume-0.nii"))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(geometry, value):
    slices = as_network(None, 1, 3).slices((4, 3, 2))
    probabilities = np.zeros((4, 3, 2, 3), np.float32)
    probabilities[3, 2, 1, 2] = value
    with pytest.raises(DataError, match=r"volume-0\.nii: the network returned NaN or infinity\. Fix: lower"):
        sliced_labels(slices, probabilities, geometry, Sampling((4, 3, 2)), Path("volume-0.nii"))


@pytest.mark.parametrize("thickness", [1, 5, 100])
def test_slabs_in_the_order_of_the_file_are_the_whole_labels(geometry, monkeypatch, thickness):
    monkeypatch.setattr("mtf_imaging.kinds.volumes.segment.labels._SLAB_VOXELS", thickness * 13 * 22)
    probabilities = np.random.default_rng(0).random((8, 8, 8, 3)).astype(np.float32)
    labels = sliced_labels(
        as_network(None, 1, 3).slices((8, 8, 8)), probabilities, geometry, Sampling((8, 8, 8)), Path("v")
    )
    expected, order = labels.own, geometry.plane_order
    result = np.full(SHAPE, 9, np.uint8)
    for region, slab in zip(labels.parts(order), labels.slabs(order), strict=True):
        result[region] = slab
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(labels.compact(order)[whole_region(SHAPE)], expected)
    assert len(list(labels.parts(order))) == -(-17 // thickness)


@pytest.mark.parametrize("sampling", [Sampling((4, 8, 8)), Sampling((16, 6, 5)), Sampling((8, 8, 8), (2.0, 2.0, 2.0))])
@pytest.mark.parametrize("ends", [range(1, 4), [3]])
def test_labels_do_not_depend_on_the_parts_of_the_probabilities(geometry, sampling, ends):
    """A part ends within the rows that a voxel of the volume needs, and a part may serve no voxel at all."""
    probabilities = np.random.default_rng(0).random((*sampling.grid, 3)).astype(np.float32)
    slices, where = as_network(None, 1, 3).slices(sampling.grid), (geometry, sampling, Path("v"))
    whole = sliced_labels(slices, probabilities, *where).own
    np.testing.assert_array_equal(sliced_labels(slices, probabilities, *where, ends=ends).own, whole)
    assert len(np.unique(whole)) == 3


def test_missing_rows_are_refused(geometry):
    slices = as_network(None, 1, 3).slices((8, 8, 8))
    labeling = Labeling(slices, geometry, Sampling((8, 8, 8)), Path("volume-0.nii"))
    labeling.add(slice(0, 7), np.zeros((7, 8, 8, 3), np.float32))
    with pytest.raises(ShapeError, match=r"of shape \(7, 8, 8, 3\); x:8,y:8,z:8 needs \(8, 8, 8, 3\)"):
        labeling.finish()
