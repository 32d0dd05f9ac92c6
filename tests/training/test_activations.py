"""Activations of a trained network by name: under every layout they are those of the whole network."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging import mtf
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.training.checkpoints import Checkpoints
from mtf_imaging.training.checkpoints.weights_folder import Weights
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.prediction import predictor
from mtf_imaging.training.step import training_step

SIZES = (6, 5)


class TwoConvs:
    """Two convolutions in a scope each, a norm, and a softmax over classes."""

    def inputs(self, batch_size, sizes, *, dtype, labels):
        return {"image": (f"batch:{batch_size},x:{sizes[0]},y:{sizes[1]},channels:1", dtype)}

    def loss(self, image):
        return mtf.reduce_mean(mtf.square(self.predict(image))), {}

    def predict(self, image):
        with tf.compat.v1.variable_scope("encoder"):
            hidden = mi.ops.leaky_relu(mi.ops.group_norm(_conv(image, "first", 4), 2, name="norm"), 0.1)
        logits = mtf.rename_dimension(_conv(hidden, "second", 3), "channels", "classes")
        return mi.ops.softmax(logits, logits.shape.dims[-1])


def _conv(x, name, filters):
    with tf.compat.v1.variable_scope(name):
        dims = [mtf.Dimension("fx", 3), mtf.Dimension("fy", 3), x.shape.dims[-1], mtf.Dimension("filters", filters)]
        kernel = mtf.get_variable(
            x.mesh, "filter", mtf.Shape(dims), dtype=x.dtype, initializer=tf.random_normal_initializer()
        )
        return mtf.rename_dimension(mi.ops.conv2d(x, kernel), "filters", "channels")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the folder of a run."""
    task, folder = TwoConvs(), tmp_path_factory.mktemp("run")
    program = mi.Program(training_step(task, Adam(0.1)), task.inputs(1, SIZES, dtype="float64", labels=True))
    Checkpoints(folder, program).save()
    return folder


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(0).normal(size=(*SIZES, 1))


def _predictor(run, **options):
    return predictor(task=TwoConvs(), sizes=SIZES, model_dir=run, dtype="float64", **options)


@pytest.fixture(scope="module")
def whole(run):
    return _predictor(run)


NAMES = ("encoder/first", "encoder/norm", "encoder", "second/conv2d")


def test_the_names_are_those_of_scopes_and_operations(whole):
    names = whole.activation_names
    assert set(NAMES) <= {*names}
    assert [names.index(name) for name in NAMES] == sorted(names.index(name) for name in NAMES)
    assert not any("filter" in name or "scale" in name for name in names), "weights are no activations"


def test_an_activation_is_the_tensor_of_that_name(run, whole, image):
    found = whole.activations(image, NAMES)
    (kernel,) = (value for _, value in Weights(str(run / "ckpt-0")).read(["encoder/first/filter"]))
    first = tf.nn.conv2d(image[None], kernel, 1, "SAME")[0].numpy()
    np.testing.assert_allclose(found["encoder/first"], first, atol=1e-12)
    np.testing.assert_allclose(found["encoder"], np.where(found["encoder/norm"] > 0, 1, 0.1) * found["encoder/norm"])
    logits = found["second/conv2d"]
    np.testing.assert_allclose(whole(image), tf.nn.softmax(logits).numpy())
    np.testing.assert_array_equal(whole.activations(image, "second/conv2d"), logits)


@pytest.mark.parametrize("layout", [("rows:2", "x:rows"), ("rows:4,model:2", "y:rows,channels:model")])
def test_a_layout_does_not_change_them(run, whole, image, layout):
    found = _predictor(run, mesh_shape=layout[0], layout=layout[1]).activations(image, NAMES)
    expected = whole.activations(image, NAMES)
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-12)


def test_images_of_other_sizes(run, image):
    network = _predictor(run, other_sizes=None)
    assert network.activations(image[:4], "encoder").shape == (4, 5, 4)


def test_mistakes_have_fixes(run, whole, image):
    with pytest.raises(ConfigError, match=r"no activation 'encoder/first_'\. Did you mean 'encoder/first'\?"):
        whole.activations(image, ["encoder/first_"])
    with pytest.raises(ShapeError, match="image"):
        whole.activations(image[:4], "encoder")
    for compute in (whole, lambda given: whole.activations(given, "encoder")):
        with pytest.raises(ShapeError, match=rf"shape \(1, {', '.join(map(str, image.shape))}\), but .* 2 spatial dim"):
            compute(image[np.newaxis])
    sliding = _predictor(run, window=SlidingWindow((4, 4), (2, 2)))
    with pytest.raises(ConfigError, match="Fix: build the predictor without a window"):
        sliding.activations(image, "encoder")
    with pytest.raises(ConfigError, match=r"checkpoint = 'bets' is not known. Did you mean 'best'\? Fix: choose"):
        _predictor(run, checkpoint="bets")
