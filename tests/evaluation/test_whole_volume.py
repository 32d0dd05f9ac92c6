"""Segmentation of whole volumes: equality with the plain formula, bounded memory, and independence of slabs."""

import tracemalloc

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.images import stored
from mtf_imaging.data.sampling import label_region, slabs
from mtf_imaging.data.sampling.sampling import Sampling, whole_field
from mtf_imaging.kinds.volumes.segment import labels as sliced_labels
from tests.data import resampling as resample
from tests.data.reading import read_labels, read_volume
from tests.data.resampling import resample_linear, resample_nearest
from tests.kinds.volumes import predict_cases, segment_volume

SHAPE = (13, 22, 17)
SAMPLINGS = {
    "coarser": Sampling((8, 8, 8)),
    "finer": Sampling((16, 32, 24)),
    "mixed": Sampling((16, 8, 17)),
    "mm": Sampling((16, 16, 12), (1.5, 1.5, 2.0)),
    "mm, cropped": Sampling((8, 16, 8), (1.5, 1.5, 2.0)),
}


def slabs_of(monkeypatch, nbytes):
    """Sets the size of slabs of volumes, grids, probabilities and labels."""
    for module in (resample, slabs, label_region):
        monkeypatch.setattr(module, "_SLAB_BYTES", nbytes)
    monkeypatch.setattr(sliced_labels, "_SLAB_VOXELS", nbytes)


def store(path, array, affine=None):
    nibabel.save(nibabel.Nifti1Image(array, np.diag([1.1, -0.8, 1.5, 1]) if affine is None else affine), path)
    return path


def case(folder, dtype=np.int16, shape=SHAPE, suffix="nii.gz"):
    hu = np.random.default_rng(0).integers(-1000, 1000, shape)
    return store(folder / f"volume-0.{suffix}", hu.astype(dtype))


class Network:
    """A network that returns random probabilities, and stores its input and output."""

    def __init__(self, dtype=np.float32):
        self.dtype = dtype

    def __call__(self, image):
        self.image = image.copy()
        random = np.random.default_rng(1).random((*image.shape[:3], 3)) + np.array([0.2, 0, 0])
        self.probabilities = random.astype(self.dtype)
        return self.probabilities


def hats(span, n):
    """Returns the resampling weights `[size, n]` float64 along one axis, by the formula in `resample`."""
    radius = max(1.0, span.length / span.size)
    centers = np.clip(span.start + (np.arange(span.size) + 0.5) * span.length / span.size, 0, n)
    weights = np.maximum(0, 1 - np.abs(np.arange(n) + 0.5 - centers[:, None]) / radius)
    return weights / weights.sum(1, keepdims=True)


def dense(data, spans):
    return np.einsum(
        "ix,jy,kz,xyz...->ijk...", *(hats(s, n) for s, n in zip(spans, data.shape)), data.astype(np.float64)
    )


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("slab", [1, 3000, 1 << 25], ids=lambda slab: f"{slab} bytes")
def test_a_prediction_equals_the_plain_formula(tmp_path, sampling, slab, monkeypatch):
    """The network runs once on the whole volume, so there are no tiles or seams, and slabs leave no trace."""
    slabs_of(monkeypatch, slab)
    monkeypatch.setattr(stored, "_SLAB_VOXELS", slab)
    volume, network = read_volume(case(tmp_path)), Network()
    labels = segment_volume(volume, sampling, network)
    spans = sampling.spans(SHAPE, volume.geometry.spacing)
    inside = tuple(span.inside(n) for span, n in zip(spans, SHAPE))
    expected = np.full(sampling.grid, -1024.0)
    expected[inside] = dense(volume.hu, spans)[inside]
    np.testing.assert_allclose(network.image[..., 0], np.clip(expected / 1024 + 0.5, 0, 1), atol=0.51 / 1024)

    back = [span.part(part).inverse(n) for span, part, n in zip(spans, inside, SHAPE)]
    probabilities = dense(network.probabilities[inside], back)
    covered = np.zeros(SHAPE, bool)
    covered[tuple(s.inside(part.stop - part.start) for s, part in zip(back, inside))] = True
    second, first = np.sort(probabilities, axis=-1)[..., 1:].transpose(3, 0, 1, 2)
    is_clear = first - second > 1e-6  # rounding does not decide the class
    assert is_clear.mean() > 0.999
    np.testing.assert_array_equal(labels[is_clear], np.where(covered, probabilities.argmax(-1), 0)[is_clear])


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_slabs_change_no_bit(tmp_path, sampling, monkeypatch):
    volume = read_volume(case(tmp_path))
    spans = sampling.spans(SHAPE, volume.geometry.spacing)
    results = []
    for slab in (1, 2000, 1 << 25):
        slabs_of(monkeypatch, slab)
        results.append((resample_linear(volume.hu, spans), segment_volume(volume, sampling, Network())))
    for hu, labels in results[1:]:
        np.testing.assert_array_equal(hu, results[0][0])
        np.testing.assert_array_equal(labels, results[0][1])


def test_resampling_does_not_return_its_input():
    """Even an identity resampling makes a copy, because the image is windowed in place."""
    data = np.ones((4, 4, 4), np.float32)
    result = resample_linear(data, whole_field(data.shape, data.shape))
    assert not np.shares_memory(data, result)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_probabilities_of_any_float_type(tmp_path, dtype):
    from ml_dtypes import bfloat16

    volume, network = read_volume(case(tmp_path)), Network({"bfloat16": bfloat16}.get(dtype, dtype))
    labels = segment_volume(volume, Sampling((8, 8, 8)), network)
    same = network.probabilities.astype(np.float32)
    np.testing.assert_array_equal(labels, segment_volume(volume, Sampling((8, 8, 8)), lambda image: same))


def peak_bytes(function):
    """Returns the peak bytes that NumPy and Python allocate in a call, and its result."""
    tracemalloc.start()
    try:
        result = function()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


TALL = (64, 64, 1026)  # 4.2 million voxels
SLABS = 4 << 20  # allowance for slabs of the size set below


@pytest.fixture
def small_slabs(monkeypatch):
    slabs_of(monkeypatch, 1 << 18)
    monkeypatch.setattr(stored, "_SLAB_VOXELS", 1 << 16)


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("dtype", ["int16", "uint16", ">i2", "float32", "float64"])
@pytest.mark.parametrize("suffix", ["nii", "nii.gz"])
def test_a_volume_is_read_into_two_bytes_a_voxel(tmp_path, small_slabs, dtype, suffix):
    path = case(tmp_path, np.dtype(dtype), TALL, suffix)
    peak, volume = peak_bytes(lambda: read_volume(path))
    assert peak < 2 * np.prod(TALL) + SLABS
    peak, hu = peak_bytes(lambda: resample_linear(volume.hu, whole_field(TALL, (32, 32, 64))))
    assert peak < 4 * 64 * 32 * 64 + SLABS
    assert hu.shape == (32, 32, 64)


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_labels_are_read_into_a_byte_a_voxel(tmp_path, small_slabs, dtype, caplog):
    volume = read_volume(case(tmp_path, shape=TALL))
    path = store(tmp_path / "labels.nii.gz", np.random.default_rng(0).integers(0, 3, TALL).astype(dtype))
    peak, labels = peak_bytes(lambda: read_labels(path, volume))
    assert peak < np.prod(TALL) + SLABS
    peak, _ = peak_bytes(lambda: resample_nearest(labels, whole_field(TALL, (32, 32, 64))))
    assert peak < SLABS


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_segmenting_holds_no_second_copy_of_anything_large(tmp_path, small_slabs, dtype):
    """Memory holds the volume, or the image and the probabilities, or the probabilities and the labels."""
    path, grid = case(tmp_path, shape=TALL), (64, 64, 256)
    probabilities = Network(dtype)(np.empty((*grid, 1), np.float32))
    peak, _ = peak_bytes(
        lambda: predict_cases(path, tmp_path / "out.nii", Sampling(grid), lambda image: probabilities, progress=False)
    )
    # The image and its intermediate before the resampling along z are float32.
    assert peak < 2 * np.prod(TALL) + 2 * 4 * np.prod(grid) + SLABS
