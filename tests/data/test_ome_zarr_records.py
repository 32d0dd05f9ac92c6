"""Tests that records are images that other programs read: by plain Zarr, and by the rules of OME-Zarr 0.5."""

import dataclasses

import numpy as np
import pytest
import zarr

from mtf_imaging.data.records.ome_metadata import grid_affine
from mtf_imaging.data.sampling.sampling import Sampling
from tests.data.resampling import resample_linear
from tests.data.test_stored_records import CHUNK, GRID, make
from tests.records import write_record


@pytest.fixture(params=[None, 3], ids=["CT", "3 channels"])
def written(request, tmp_path):
    """Returns a record and the root group of its folder, opened without our code."""
    record = make(request.param)
    write_record(tmp_path / "case-2.ome.zarr", record, CHUNK)
    return record, zarr.open(tmp_path / "case-2.ome.zarr", mode="r")


def check_multiscales(group, has_channels):
    """Checks the rules of OME-Zarr 0.5 for an image, and returns its array, scale and translation."""
    (multiscale,) = group.attrs["ome"]["multiscales"]
    assert isinstance(multiscale["name"], str)
    axes = multiscale["axes"]
    assert len({axis["name"] for axis in axes}) == len(axes)
    channel = [{"name": "c", "type": "channel"}] if has_channels else []
    assert axes == channel + [{"name": name, "type": "space", "unit": "millimeter"} for name in "zyx"]
    (dataset,) = multiscale["datasets"]
    array = group[dataset["path"]]
    assert isinstance(array, zarr.Array)
    assert array.metadata.zarr_format == 3
    assert array.metadata.dimension_names == tuple(axis["name"] for axis in axes)
    scale, translation = dataset["coordinateTransformations"]
    assert (scale.keys(), translation.keys()) == ({"type", "scale"}, {"type", "translation"})
    assert (scale["type"], translation["type"]) == ("scale", "translation")
    assert len(scale["scale"]) == len(translation["translation"]) == len(axes) == array.ndim
    if has_channels:
        assert (scale["scale"][0], translation["translation"][0]) == (1, 0)
    return array, np.array(scale["scale"][-3:])[::-1], np.array(translation["translation"][-3:])[::-1]


def test_any_zarr_reader_gets_the_voxels(written):
    record, root = written
    np.testing.assert_array_equal(root["0"][:], record.image.T)
    np.testing.assert_array_equal(root["labels/segmentation/0"][:], record.labels.T)
    assert root["0"].dtype == (np.int16 if record.num_channels is None else np.float32)
    assert root["labels/segmentation/0"].dtype == np.uint8
    # A reader that lists a group warns about files that do not belong to Zarr, and warnings are errors in tests.
    assert dict(root.members(max_depth=None)).keys() == {
        *("0", "labels", "labels/segmentation", "labels/segmentation/0")
    }


def test_the_metadata_follow_ome_zarr(written):
    record, root = written
    assert root.metadata.zarr_format == 3
    assert root.attrs["ome"].keys() == {"version", "multiscales"}
    image, *place = check_multiscales(root, has_channels=record.num_channels is not None)
    assert root["labels"].attrs["ome"] == {"version": "0.5", "labels": ["segmentation"]}
    group = root["labels"]["segmentation"]
    labels, *labels_place = check_multiscales(group, has_channels=False)
    assert group.attrs["ome"].keys() == {"version", "multiscales", "image-label"}
    assert group.attrs["ome"]["image-label"] == {"source": {"image": "../../"}}
    assert root.attrs["ome"]["version"] == group.attrs["ome"]["version"] == "0.5"
    assert np.issubdtype(labels.dtype, np.integer)
    assert labels.shape == image.shape[-3:] == GRID[::-1]
    np.testing.assert_array_equal(place, labels_place)
    affine = np.array(root.attrs["mtf_imaging"]["affine"])
    np.testing.assert_allclose(place[0], np.linalg.norm(affine[:3, :3], axis=0))
    np.testing.assert_array_equal(place[1], affine[:3, 3])
    np.testing.assert_array_equal(affine, group.attrs["mtf_imaging"]["affine"])


@pytest.mark.parametrize("spacing", [None, (0.8, 1.25, 0.45)])
def test_the_affine_of_the_grid_gives_the_positions_of_its_voxels(spacing):
    facts = dataclasses.replace(make().facts, shape=(5, 8, 10), spacing=(1.0, 1.5, 0.5), sampled_at=spacing)
    # Plain interpolation of the positions of the volume's voxels gives the positions of the grid's voxels.
    voxels = np.stack(np.meshgrid(*map(np.arange, facts.shape), indexing="ij"), -1)
    positions = (voxels @ facts.affine[:3, :3].T + facts.affine[:3, 3]).astype(np.float32)
    spans = Sampling(GRID, spacing).spans(facts.shape, facts.spacing)
    resampled = resample_linear(positions, spans)
    affine = grid_affine(facts, GRID)
    found = np.stack(np.meshgrid(*map(np.arange, GRID), indexing="ij"), -1) @ affine[:3, :3].T + affine[:3, 3]
    within = [span.inside(n) for span, n in zip(spans, facts.shape)]
    inside = tuple(slice(part.start + 1, part.stop - 1) for part in within)  # at the border, voxels are repeated
    assert found[inside].size
    np.testing.assert_allclose(resampled[inside], found[inside], rtol=0, atol=1e-4)
