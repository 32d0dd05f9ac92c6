"""Labels in compressed chunks, the planes that pictures show, and cases whose image is damaged."""

import dataclasses
import itertools
import logging
import math
import shutil
import tracemalloc
import types
import weakref

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.formats.ome_zarr import writing
from mtf_imaging.data.formats.ome_zarr.stored_array import StoredArray
from mtf_imaging.data.images import compact_labels, sources
from mtf_imaging.data.images.compact_labels import CompactLabels, read_compact
from mtf_imaging.data.images.geometry import MadeGeometry
from mtf_imaging.data.reading.open_sources import open_image_source, open_segmentation, open_volume
from mtf_imaging.data.sampling.regions import ALONG_Z
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.score_pairs import score_pair
from mtf_imaging.evaluation.volume_report.image_planes import read_planes
from mtf_imaging.evaluation.volume_report.overlay import make_overlays
from mtf_imaging.evaluation.volume_report.planes import PLANES
from mtf_imaging.evaluation.volume_scores.case import score_case
from tests.data.reading import read_mask, read_segmentation, read_volume
from tests.evaluation.descriptions import ORGANS
from tests.evaluation.oracle import array_source, store

CODES = ("RAS", "LPS", "SAL", "PIR")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Divides the small volumes of these tests into several chunks and slabs."""
    monkeypatch.setattr(compact_labels, "_CHUNK", 5)
    monkeypatch.setattr(sources, "_SLAB_VOXELS", 700)


@pytest.mark.parametrize("shape", [(12, 10, 7), (5, 5, 5), (11, 6)])
def test_labels_are_written_and_read_by_region(shape):
    rng = np.random.default_rng(0)
    found, expected = CompactLabels(shape), np.zeros(shape, np.uint8)
    for _ in range(40):
        region = tuple(slice(*sorted(rng.integers(0, n + 1, 2).tolist())) for n in shape)
        labels = rng.choice([0, 3, 255], size=expected[region].shape) if rng.random() < 0.5 else rng.integers(3)
        expected[region] = labels
        found[region] = labels
        other = tuple(slice(*sorted(rng.integers(0, n + 1, 2).tolist())) for n in shape)
        np.testing.assert_array_equal(found[other], expected[other])
    np.testing.assert_array_equal(found[(slice(None),) * len(shape)], expected)


def test_uniform_labels_take_no_memory(monkeypatch):
    monkeypatch.setattr(compact_labels, "_CHUNK", 32)
    x, y, z = np.ogrid[:128, :128, :128]
    ball = (np.square(x - 60) + np.square(y - 64) + np.square(z - 70) < 40**2).astype(np.uint8)
    tracemalloc.start()
    labels = CompactLabels(ball.shape)
    labels[:, :, :] = ball
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < ball.size / 20
    np.testing.assert_array_equal(labels[:, :, :], ball)


@pytest.mark.parametrize("codes", CODES)
def test_a_file_is_read_into_chunks_in_canonical_axes(tmp_path, codes):
    store(tmp_path, 1, codes)
    path = tmp_path / "segmentation-1.nii.gz"
    expected = read_segmentation(path)
    found = read_compact(open_segmentation(path))
    np.testing.assert_array_equal(found[:, :, :], expected.labels)
    other = np.roll(expected.labels, 1, axis=1)
    options = expected.geometry.spacing, expected.geometry
    assert score_case("1", found, other, *options) == score_case("1", expected.labels, other, *options)


def test_labels_that_a_description_lacks_are_refused(tmp_path):
    labels = np.zeros((6, 6, 20), np.uint8)
    labels[..., -1] = 9
    nibabel.save(nibabel.Nifti1Image(labels, np.diag([1.0, 1, 2, 1])), tmp_path / "a.nii")
    with pytest.raises(DataError, match=r"a\.nii: has the label\(s\) .*9, but"):
        read_compact(open_segmentation(tmp_path / "a.nii"))


@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("description", [LITS, ORGANS], ids=["ct", "mr"])
def test_the_planes_of_a_file_equal_those_of_the_array(tmp_path, monkeypatch, codes, description):
    monkeypatch.setattr("mtf_imaging.evaluation.volume_report.image_planes._SAMPLE", 200)  # every third voxel
    store(tmp_path, 1, codes)
    path = tmp_path / "volume-1.nii.gz"
    image = open_volume(path) if description is LITS else open_image_source([path], description)
    array = read_volume(path).hu
    for point in itertools.product((0, 23), (0, 7), (5, 15)):
        found, expected = (read_planes(one, point, description) for one in (image.channels[0], array_source(array)))
        assert found.bounds == expected.bounds
        for plane, index in zip(PLANES, (point[2], point[1], point[0]), strict=True):
            np.testing.assert_array_equal(plane.cut(found, index), plane.cut(array, index))
    image.close()
    with pytest.raises(IndexError, match="does not lie in a plane through the voxel"):
        found[0:2, 0:2, 0:2]


def test_pictures_of_a_pyramid_come_from_a_coarser_level(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_CHUNK", 4)
    monkeypatch.setattr("mtf_imaging.evaluation.volume_report.image_planes._LEAST", 7)
    values = np.random.default_rng(0).random((14, 9, 6), np.float32)
    path, point, description = tmp_path / "image.ome.zarr", (5, 8, 3), dataclasses.replace(ORGANS, channels=("T1w",))
    geometry = MadeGeometry.of(values.shape, np.diag([1.0, 2.0, 3.0, 1.0]))
    writing.write_zarr_maps(path, [values[..., np.newaxis]], geometry, ["one"])
    levels, read = [], StoredArray.read
    monkeypatch.setattr(StoredArray, "read", lambda self, region: levels.append(self.folder.name) or read(self, region))
    found = read_planes(open_image_source([path], description).channels[0], point, description)
    assert {*levels} == {"1"}
    near = values[::2, ::2, ::2].repeat(2, 0).repeat(2, 1).repeat(2, 2)[:14, :9, :6]
    assert found.shape == values.shape
    for plane, index in zip(PLANES, point[::-1], strict=True):
        np.testing.assert_array_equal(plane.cut(found, index), plane.cut(near, index))
    shutil.rmtree(path / "1")  # the next level has only 4 voxels
    found = read_planes(open_image_source([path], description).channels[0], point, description)
    np.testing.assert_array_equal(PLANES[0].cut(found, 3), PLANES[0].cut(values, 3))


def test_reading_planes_keeps_no_slab(monkeypatch):
    monkeypatch.setattr("mtf_imaging.evaluation.volume_report.image_planes._SAMPLE", 200)
    monkeypatch.setattr("mtf_imaging.data.images.sources._SLAB_VOXELS", 64)
    slabs, alive = [], []

    def read(region):
        slab = np.zeros([at.stop - at.start for at in region], np.int16)
        slabs.append(weakref.ref(slab))
        alive.append(sum(each() is not None for each in slabs))
        return slab

    geometry = types.SimpleNamespace(shape=(8, 8, 40))
    source = types.SimpleNamespace(geometry=geometry, dtype=np.int16, order=ALONG_Z, read=read, check=lambda: None)
    read_planes(source, (1, 2, 3), ORGANS)
    assert len(alive) == 40
    assert max(alive) <= 2


def test_the_report_of_a_file_equals_that_of_the_array(tmp_path):
    store(tmp_path, 1, "LPS")
    volume = read_volume(tmp_path / "volume-1.nii.gz")
    labels = read_mask(tmp_path / "segmentation-1.nii.gz", volume).labels
    with_array = make_overlays(array_source(volume.hu), labels, labels, volume.geometry.canonical_affine)
    assert score_pair(pair_of(tmp_path)).overlays == with_array
    assert all(view.image for view in with_array.views)


def pair_of(folder):
    mask = folder / "segmentation-1.nii.gz"
    return Pair("1", mask, mask, folder / "volume-1.nii.gz")


def test_a_ct_that_turns_out_to_be_damaged_is_left_out(tmp_path, caplog):
    """The damage is at the end of the file, where it is found after the labels have been read."""
    caplog.set_level(logging.WARNING)
    store(tmp_path, 1, "LPS")
    pair = pair_of(tmp_path)
    data = pair.volume.read_bytes()
    pair.volume.write_bytes(data[:-8] + bytes(4) + data[-4:])  # another checksum
    scored = score_pair(pair)
    assert scored == score_pair(dataclasses.replace(pair, volume=None))
    assert all(view.image is None for view in scored.overlays.views)
    assert "volume-1.nii.gz: the report of case 1 does not show this CT: " in caplog.text
    assert math.isclose(scored.score.mean_dice, 1.0)
