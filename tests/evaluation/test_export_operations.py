"""The preprocessing of exported models, as TensorFlow operations, equals that of NumPy bit for bit."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.images.repairs import FiniteRepair, HounsfieldRepair
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.intensities import tensors
from mtf_imaging.data.intensities.schemes import KINDS, Intensity, apply_intensities
from mtf_imaging.data.intensities.statistics import channel_statistics
from mtf_imaging.data.pixels.scaling import SCALINGS
from mtf_imaging.data.sampling.buckets import Samplings
from mtf_imaging.data.sampling.sampling import Sampling, way_back
from mtf_imaging.engine.meshes.portable import divisor
from mtf_imaging.evaluation.export.signature import Field, Signature
from mtf_imaging.kinds.objects import pixel_operations as pixels
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.masks import paste_mask
from mtf_imaging.kinds.volumes import operations
from tests.data.resampling import resample_linear, resample_to_labels

# shape and voxel size of a volume, grid and voxel size of the network
NUMBERS = {"window": [(-160.0, 240.0)], "clip": [(-160.0, 240.0), (80.0, 41.5)]}
SCHEMES = [Intensity(kind, *NUMBERS.get(kind, [])) for kind in KINDS]
PLACES = [
    ((7, 9, 11), (1.0, 1.0, 1.0), (7, 9, 11), None),  # the same voxels
    ((16, 5, 30), (1.0, 1.0, 1.0), (6, 7, 4), None),
    ((6, 6, 6), (1.0, 1.0, 1.0), (13, 12, 11), None),
    ((11, 12, 13), (0.7, 0.8, 2.5), (9, 10, 7), (1.5, 1.5, 3.0)),  # surrounds the volume
    ((20, 21, 13), (0.7, 0.8, 2.5), (5, 6, 4), (1.5, 1.5, 3.0)),  # crops it
    ((10, 8, 6), (2.0, 2.0, 2.0), (6, 12, 6), (2.0, 2.0, 2.0)),  # moves whole voxels
    ((1, 40, 3), (0.9, 0.9, 5.0), (4, 4, 4), (3.0, 3.0, 3.0)),
]


def scalars(shape):
    return [tf.constant(size, tf.int64) for size in shape]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "spacing", "grid", "mm"), PLACES, ids=str)
def test_resampling_there_and_back(shape, spacing, grid, mm):
    rng, sampling = np.random.default_rng(0), Sampling(grid, mm)
    volume = rng.integers(-1000, 1000, shape).astype(np.float32)
    probabilities = rng.random((*grid, 3)).astype(np.float32)
    spans = sampling.spans(shape, spacing)

    @tf.function
    def run(volume, probabilities, spacing):
        sizes = tf.unstack(tf.shape(volume, tf.int64))
        own = operations.grid_spans(sizes, spacing, grid, mm)
        sampled = operations.resample_linear(volume[..., tf.newaxis], own, tf.constant([-1024.0]))[..., 0]
        return sampled, *operations.resample_back(probabilities, own, sizes)

    anything = tf.TensorSpec([None] * 3, tf.float32)
    run = run.get_concrete_function(anything, tf.TensorSpec(probabilities.shape), tf.TensorSpec([3], tf.float64))
    sampled, back, is_inside = run(tf.constant(volume), tf.constant(probabilities), tf.constant(spacing, tf.float64))
    np.testing.assert_array_equal(sampled, resample_linear(volume, spans, -1024))
    part, spans_back = way_back(spans, shape)
    found = np.where(is_inside, LITS.to_labels(back.numpy()), 0)
    np.testing.assert_array_equal(found, resample_to_labels(probabilities[part], spans_back))


@pytest.mark.parametrize("shape", [(3, 3, 3), (4, 4, 4), (5, 3, 3), (8, 8, 6), (9, 9, 9), (4, 30, 4), (30, 30, 30)])
def test_the_grid_of_a_volume(shape):
    sampling = Samplings(((4, 4, 4), (8, 8, 6), (6, 16, 8)), (1.0, 1.1, 1.0))
    for spacing in ((1.0, 1.1, 1.0), (0.9, 1.0, 2.0)):
        found = operations.choose_grid(scalars(shape), tf.constant(spacing, tf.float64), sampling)
        assert sampling.grids[int(found)] == sampling.choose(shape, spacing).grid


EXPECTED = r"input_image \[{}\] is not compatible with expected shape \[{}\]"
# sizes of a signature, sizes of a call, the error
WRONG_SHAPES = [
    ((3, 4, 2), (3, 4), EXPECTED.format("3,4", "3,4,2")),
    ((3, 4, 2), (1, 3, 4, 2), EXPECTED.format("1,3,4,2", "3,4,2")),
    ((3, 4, 2), (3, 5, 2), EXPECTED.format("3,5,2", "3,4,2")),
    ((None, None, 2), (3, 5, 1), EXPECTED.format("3,5,1", r"\?,\?,2")),
    ((None, None, 2), (3, 5, 2, 1), EXPECTED.format("3,5,2,1", r"\?,\?,2")),
    (
        (None, None, 2),
        (3, 0, 2),
        r"needs image: float32 \[x: any, y: any, channels: 2\], but a size is 0:\] \[3 0 2\]",
    ),
]


@pytest.mark.parametrize(("sizes", "wrong", "message"), WRONG_SHAPES)
def test_inputs_of_a_wrong_shape_are_named(tmp_path, sizes, wrong, message):
    """TensorFlow does not check the shape of an argument of a loaded model."""
    field = Field("image", tf.float32, sizes, ("x", "y", "channels"), "An image.")
    signature = Signature("double", "Doubles.", (field,), (field,), lambda image: {"image": 2 * image})
    tf.saved_model.save(tf.Module(), str(tmp_path), {"double": signature.function()})
    double = tf.saved_model.load(str(tmp_path)).signatures["double"]
    np.testing.assert_array_equal(double(image=tf.ones([3, 4, 2]))["image"], np.full((3, 4, 2), 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        double(image=tf.ones(wrong))


def test_values_are_repaired_as_in_files():
    values = np.random.default_rng(0).uniform(-2000, 1500, (5, 6, 7, 2)).astype(np.float32)
    values[0, :5, 0] = np.array([np.nan, np.inf, -np.inf, 4e4, -1024.5])[:, None]
    run = tf.function(lambda x: operations.repair_values(x, ("CT", "T1")))
    found = run(tf.constant(values)).numpy()
    stored = [Stored(Path("image"), (5, 6, 7), values.dtype, Planes)] * 2
    np.testing.assert_array_equal(found[..., 0], HounsfieldRepair(stored[0])(values[..., 0]))
    np.testing.assert_array_equal(found[..., 1], FiniteRepair(stored[1], "T1")(values[..., 1]))


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_intensity_schemes(scheme):
    values = np.random.default_rng(0).integers(-300, 300, (5, 6, 7, 1)).astype(np.float32)
    values[:2] = 0
    statistics = channel_statistics(values)
    expected = apply_intensities(values, [scheme], [statistics])
    scaling = scheme.scaling(statistics)
    pair = (tf.constant([scaling.offset], tf.float32), tf.constant([scaling.scale], tf.float32))
    run = tf.function(lambda x: tensors.scale_channels(x, [scheme], pair))
    np.testing.assert_array_equal(run(tf.constant(values)), expected)
    if scheme.needs_statistics:
        offset, scale = tensors.image_statistics(tf.constant(values), [scheme])
        np.testing.assert_array_equal(offset, np.float32([scaling.offset]))
        np.testing.assert_array_equal(scale, np.float32([scaling.scale]))


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme.needs_statistics], ids=str)
def test_a_constant_channel_becomes_zero(scheme):
    values = np.full((2, 2, 2, 1), 7, np.float32)
    pair = tensors.image_statistics(tf.constant(values), [scheme])
    found = tensors.scale_channels(tf.constant(values), [scheme], pair)
    np.testing.assert_array_equal(found, apply_intensities(values, [scheme], [channel_statistics(values)]))
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_pixels_are_scaled(scaling):
    image = np.arange(256, dtype=np.uint8)[:, None, None] * np.ones(3, np.uint8)
    own = ObjectDescription(((1, "cup"),), scaling)
    found = tf.function(lambda x: own.scale(tf.cast(x, tf.float32), divisor))(tf.constant(image))
    np.testing.assert_array_equal(found, own.scale(image))


@pytest.mark.parametrize(
    "box", [(1.0, 2.0, 6.0, 9.0), (0.5, 0.5, 0.6, 0.7), (2.5, 3.5, 4.5, 3.5), (-3.0, -2.0, 20.0, 20.0), (3, 1, 2, 4)]
)
def test_masks_are_pasted(box):
    mask = np.random.default_rng(0).random((4, 5)).astype(np.float32)
    found = pixels.paste_masks(tf.constant(mask[None]), tf.constant([box], tf.float64), tf.constant([8, 10]))
    np.testing.assert_array_equal(found[0], paste_mask(mask, box, 8, 10))


def test_a_division_by_a_divisor_is_exact():
    """TensorFlow would multiply by the reciprocal of a constant."""
    values = np.random.default_rng(0).random(1000).astype(np.float32)
    found = tf.function(lambda x: x / divisor(400.0))(tf.constant(values))
    np.testing.assert_array_equal(found, values / np.float32(400))
