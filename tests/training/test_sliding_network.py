"""Networks that slide over an image, compared with the network of the whole image."""

import itertools
import tracemalloc

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.engine.layout.regions import whole_region
from mtf_imaging.engine.meshes.group import ALONE
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.files import blocks
from mtf_imaging.inference.averages import ensemble, flipped
from mtf_imaging.inference.network import Slices
from mtf_imaging.inference.sliding import sliding
from mtf_imaging.inference.windows import SlidingWindow, Windows
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.training import prediction
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns, network_of_slices, predictor
from mtf_imaging.training.step import training_step

WINDOW = SlidingWindow((4, 4, 4))
IMAGE = np.random.default_rng(0).random((9, 6, 4, 1))


def slide(function, window=WINDOW, size=1, classes=1):
    """Returns the sliding network of a function of batches of windows."""
    inputs, outputs = ([whole_region((*window.size, last))] for last in (1, classes))
    return sliding(network_of_slices(Slices(ALONE, inputs, outputs, function, [slice(0, size)])), window)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("step", [0.25, 0.5, 1.0])
def test_a_network_of_single_voxels(size, step):
    """The sum of all windows is the result for the whole image, whatever the number of windows in the last batch."""
    network = slide(lambda images: np.sqrt(images) + 1, window=SlidingWindow((4, 3, 4), step), size=size)
    np.testing.assert_allclose(network(IMAGE), np.sqrt(IMAGE) + 1, rtol=1e-13)


def test_a_constant_stays_constant():
    network = slide(lambda images: np.full(images.shape, 0.3, np.float32))
    np.testing.assert_allclose(network(IMAGE), 0.3, rtol=3e-7)


def test_the_weights_of_a_network_that_sees_its_window():
    """The result is the weighted mean of the numbers of the windows."""
    window, numbers = SlidingWindow((4, 4, 4)), itertools.count()
    network = slide(lambda images: np.full(images.shape, float(next(numbers))), window=window)
    windows, expected = Windows(IMAGE.shape[:3], window), np.zeros(IMAGE.shape)
    for number in range(len(windows)):
        x, y, z = windows.weights(number)
        expected[windows.region(number)] += number * (x[:, None, None] * y[:, None] * z)[..., None]
    np.testing.assert_allclose(network(IMAGE), expected, rtol=1e-13)
    assert next(numbers) == len(windows) == 4 * 2 * 1


def test_a_window_of_the_size_of_the_image_changes_nothing():
    network = slide(lambda images: np.sin(images), window=SlidingWindow((9, 6, 4)))
    np.testing.assert_array_equal(network(IMAGE), np.sin(IMAGE))


def test_the_last_batch_repeats_a_window():
    calls = []
    slide(lambda images: calls.append(images) or images, size=3)(IMAGE)
    assert [len(images) for images in calls] == [3, 3, 3], "8 windows"
    np.testing.assert_array_equal(calls[-1][1], calls[-1][2])
    np.testing.assert_array_equal(calls[-1][1], IMAGE[-4:, -4:, -4:])


@pytest.mark.parametrize(
    ("dtype", "sum_dtype"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64")]
)
def test_the_sum_is_float32_or_wider(dtype, sum_dtype):
    result = slide(lambda images: images.astype(dtype))(IMAGE)
    assert result.dtype == sum_dtype
    np.testing.assert_allclose(result, IMAGE.astype(dtype).astype(sum_dtype), rtol=1e-6)


def test_the_results_of_the_network_are_not_modified():
    def network(images):
        images = images + 1
        images.flags.writeable = False  # like the arrays of TensorFlow
        return images

    np.testing.assert_allclose(slide(network)(IMAGE), IMAGE + 1, rtol=1e-13)


@pytest.mark.parametrize("length", [64, 256])
def test_memory_is_the_sum_and_a_few_windows(length):
    """The number of windows grows with the image, but memory only by the image's own sum."""
    image = np.zeros((length, 64, 64, 1), np.float32)
    window = SlidingWindow((32, 32, 32))
    network = slide(lambda images: np.ones((1, 32, 32, 32, 3), np.float32), window=window, classes=3)
    tracemalloc.start()
    result = network(image)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.shape == (length, 64, 64, 3)
    of_window = 32**3 * 3 * 4
    assert result.nbytes <= peak < result.nbytes + 4.5 * of_window


def test_large_sums_are_passed_on_in_parts(monkeypatch):
    """Rows come in order, once each, and equal those of a sum in memory bit for bit; the sum holds one window."""

    def network(images):
        return np.cumsum(images, axis=1)

    whole = slide(network)(IMAGE)
    monkeypatch.setattr(blocks, "IN_MEMORY", 0)
    monkeypatch.setattr(blocks, "_SIDE", 3)
    slices, parts = slide(network).slices(IMAGE.shape[:3]), []

    def consume(rows, values):
        parts.append((rows, np.array(values[: rows.stop - rows.start,])))
        assert len(values) == 4

    image = blocks.working_array(IMAGE.shape, IMAGE.dtype)
    image[whole_region(IMAGE.shape)] = IMAGE
    slices.predict_parts(image, consume)
    assert [rows.start for rows, _ in parts] == [0, *(rows.stop for rows, _ in parts[:-1])]
    assert len(parts) > 2
    np.testing.assert_array_equal(np.concatenate([values for _, values in parts]), whole)
    np.testing.assert_array_equal(slices.predict_image(image), whole)


class Convolution:
    """A network with one convolution and a softmax, whose receptive field is `size` voxels along each axis."""

    def __init__(self, size=1):
        self._size = size

    def inputs(self, batch_size, sizes, *, dtype, labels):
        x, y, z = sizes
        inputs = {"image": (f"batch:{batch_size},x:{x},y:{y},z:{z},channels:1", dtype)}
        return inputs | ({"labels": (f"batch:{batch_size},x:{x},y:{y},z:{z}", "int32")} if labels else {})

    def loss(self, image, labels):
        return mi.mtf.reduce_mean(self.predict(image)), {}

    def predict(self, image):
        classes = mi.mtf.Dimension("classes", 3)
        taps = [mi.mtf.Dimension(f"f{axis}", self._size) for axis in "xyz"]
        shape = mi.mtf.Shape([*taps, image.shape[-1], classes])
        weights = mi.mtf.get_variable(image.mesh, "filter", shape, dtype=image.dtype)
        return mi.mtf.softmax(mi.ops.conv3d(image, weights), classes)


def networks(task, layout=ONE_PROCESSOR, window=None, sizes=IMAGE.shape[:3], seed=0):
    """Returns a network with random weights."""
    inputs = task.inputs(1, (4, 4, 4), dtype="float64", labels=False)
    weights = mi.Program(task.predict, inputs, seed=seed)
    options = {"task": task, "dtype": "float64", "layout": layout, "mesh_impl": "stacked"}
    return NetworkBuilder(**options, window=window).network_of(weights, sizes)


LAYOUTS = {
    "one": ONE_PROCESSOR,
    "space": Layout.parse("rows:2,cols:2", "x:rows,y:cols"),
    "uneven": Layout.parse("rows:3", "z:rows"),
    "batch": Layout.parse("cores:3", "batch:cores"),
    "both": Layout.parse("rows:2,cores:2", "x:rows,batch:cores"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_network_of_single_voxels_equals_that_of_the_whole_image(name):
    whole, sliding = (networks(Convolution(), LAYOUTS[name], window) for window in (None, WINDOW))
    expected = whole(IMAGE)
    assert expected.std() > 1e-3
    np.testing.assert_allclose(sliding(IMAGE), expected, rtol=1e-12)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_give_the_same_sums(name):
    """The border of each window differs from the whole image, so only the same windows give the same result."""
    expected = networks(Convolution(3), window=WINDOW)(IMAGE)
    assert np.abs(networks(Convolution(3))(IMAGE) - expected).max() > 1e-4
    np.testing.assert_allclose(networks(Convolution(3), LAYOUTS[name], WINDOW)(IMAGE), expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "windows"), [("one", 1), ("space", 1), ("batch", 3), ("both", 2)])
def test_each_processor_along_the_batch_computes_a_window(monkeypatch, name, windows):
    shapes = []

    def program(function, inputs, **options):
        shapes.append(inputs["image"][0])
        return mi.Program(function, inputs, **options)

    monkeypatch.setattr(prediction, "Program", program)
    networks(Convolution(), LAYOUTS[name], WINDOW)
    assert shapes == [f"batch:{windows},x:4,y:4,z:4,channels:1"]


def test_a_voxel_whose_windows_contain_its_receptive_field():
    """A convolution of 3 voxels equals that of the whole image, except at voxels at the border of a window."""
    window, image = SlidingWindow((6, 6, 6), 1 / 3), np.random.default_rng(1).random((8, 6, 6, 1))
    whole, sliding = (networks(Convolution(3), window=own, sizes=image.shape[:3])(image) for own in (None, window))
    # Windows start at 0 and 2. Voxel 2 is the first one of a window, and voxel 5 the last one.
    seen = np.array([x not in (2, 5) for x in range(8)])
    np.testing.assert_allclose(sliding[seen], whole[seen], rtol=1e-12)
    assert np.abs(sliding[~seen] - whole[~seen]).max(axis=(1, 2, 3)).min() > 1e-5


def test_flips_and_ensembles_of_sliding_networks():
    """The flipped image is computed in windows, whose results are flipped back."""
    members = [networks(Convolution(3), window=WINDOW, seed=seed) for seed in (0, 1)]
    averaged = ensemble([flipped(member, (0, 2)) for member in members])
    by_hand = [np.flip(member(np.flip(IMAGE, axes)), axes) for member in members for axes in [(), (0,), (2,), (0, 2)]]
    expected = np.mean(by_hand, axis=0)
    np.testing.assert_allclose(averaged(IMAGE), expected, rtol=1e-12)
    slices = averaged.slices(IMAGE.shape[:3])
    assert (slices.inputs, slices.outputs) == ([whole_region(IMAGE.shape)], [whole_region((9, 6, 4, 3))])
    np.testing.assert_allclose(slices.predict_image(IMAGE), expected, rtol=1e-12)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A checkpoint of a network that sees 3 voxels."""
    folder, task = tmp_path_factory.mktemp("run"), Convolution(3)
    program = mi.Program(training_step(task, Adam(0.1)), task.inputs(1, (4, 4, 4), dtype="float32", labels=True))
    Checkpoints(folder, program).save()
    return folder


def test_one_program_serves_several_grids(run, monkeypatch):
    built = []

    def program(*args, **options):
        built.append(mi.Program(*args, **options))
        return built[-1]

    monkeypatch.setattr(prediction, "Program", program)
    grids = [(9, 6, 4), (5, 8, 7)]
    own, runs = NetworkBuilder(task=Convolution(3), window=WINDOW), TrainedRuns([run])
    network = trained_network(own, runs, grids)
    for grid in grids:
        image = np.random.default_rng(2).random((*grid, 1)).astype(np.float32)
        expected = predictor(model_dir=run, sizes=grid, window=WINDOW, task=own.task)(image)
        np.testing.assert_array_equal(network(image), expected)
        assert network(image).shape == (*grid, 3)
    assert len(built) == 1 + len(grids), "one for both grids, and those of the comparison"
    with pytest.raises(ConfigError, match="window of 4 x 4 x 4 voxels does not fit into the grid of 9 x 6 x 3 voxels"):
        trained_network(own, runs, [(9, 6, 3), (9, 6, 4)])
    with pytest.raises(ConfigError, match="does not fit into the grid of 3 x 6 x 4 voxels"):
        network(np.zeros((3, 6, 4, 1), np.float32))


class OfWindow(Convolution):
    def predict(self, image):
        return mi.mtf.reduce_mean(image, output_shape=[image.shape[0], image.shape[-1]])


def test_predictions_that_windows_cannot_add():
    with pytest.raises(ShapeError, match=r"an array of shape \[1\] for a window of \[4, 4, 4\] voxels") as caught:
        networks(OfWindow(), window=WINDOW)
    assert caught.value.settings == ("sliding_window",)
