"""R(2+1)D equals a network in plain TensorFlow, and does not depend on the layout, in training and in evaluation."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet import Classification
from mtf_imaging.models.video import R2Plus1D
from tests.models.programs import assert_equal, evaluation_program, train_program, values

SMALL = {"classes": 4, "blocks": (1, 1), "base_filters": 2, "stem_kernel": 3, "norm_momentum": 0.5}
DIMS = ("time", "height", "width")
SIZES, ODD = (8, 12, 10), (7, 9, 10)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def make_task(**settings):
    return Classification(R2Plus1D(**SMALL | settings), dims=DIMS)


@functools.cache
def batch(sizes=SIZES, batch_size=2):
    # Normal numbers instead of generated clips, whose plain backgrounds make many values equal.
    rng = np.random.default_rng(0)
    return {"image": rng.normal(size=(batch_size, *sizes, 3)), "labels": np.arange(batch_size, dtype=np.int32) % 4}


def compute(sizes=SIZES, settings=(), **setup):
    """Returns the results of `programs.values`, and the program of the training."""
    results, _, program = values(make_task(**dict(settings)), batch(sizes), **setup)
    return results, program


@functools.cache
def whole(sizes, settings=()):
    return compute(sizes, settings)[0]


def reference(clip, weights, blocks, causal, statistics=None):
    """Computes the network in plain TensorFlow, with the statistics of the batch or with stored ones."""

    def conv_norm(x, name, strides, pads):
        pads = [(0, 0), *pads, (0, 0)]
        x = tf.nn.conv3d(tf.pad(x, pads), weights[f"r2plus1d/{name}/filter"], [1, *strides, 1], "VALID")
        if statistics is None:
            mean, variance = tf.nn.moments(x, [0, 1, 2, 3])
        else:
            mean, variance = (statistics[f"r2plus1d/{name}_norm/moving_{what}"] for what in ("mean", "variance"))
        scale, offset = weights[f"r2plus1d/{name}_norm/scale"], weights[f"r2plus1d/{name}_norm/offset"]
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-5)

    def factorized(x, name, space_stride, time_stride=1):
        x = conv_norm(x, f"{name}/space", (1, space_stride, space_stride), [(0, 0), (1, 1), (1, 1)])
        times = (2, 0) if causal else (1, 1)
        return conv_norm(tf.nn.relu(x), f"{name}/time", (time_stride, 1, 1), [times, (0, 0), (0, 0)])

    x = tf.nn.relu(factorized(clip, "stem", 2))
    for stage, number in enumerate(blocks):
        for block in range(number):
            name, stride = f"stage{stage}/block{block}", 2 if stage and not block else 1
            y = tf.nn.relu(factorized(x, f"{name}/conv0", stride, stride))
            y = factorized(y, f"{name}/conv1", 1)
            if y.shape != x.shape:
                x = conv_norm(x, f"{name}/shortcut", (stride,) * 3, [(0, 0)] * 3)
            x = tf.nn.relu(y + x)
    return tf.reduce_mean(x, [1, 2, 3]) @ weights["r2plus1d/classes/weights"] + weights["r2plus1d/classes/bias"]


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "causal"), [(ODD, True), slow(SIZES, False)], ids=["causal", "centered"])
def test_values_and_gradients_equal_plain_tensorflow(sizes, causal):
    blocks, inputs = (1, 2), batch(sizes)
    task = make_task(blocks=blocks, causal=causal)
    training = train_program(task, sizes)
    weights = {name: tf.constant(v) for name, v in training.variables.items() if v.trainable}
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = reference(inputs["image"], weights, blocks, causal)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(inputs["labels"], logits))
    accuracy = np.mean(np.argmax(logits, -1) == inputs["labels"])
    want = {"loss": loss, "accuracy": accuracy, **tape.gradient(loss, weights)}
    assert_equal(*({"train": {name: np.array(x) for name, x in each.items()}} for each in (training(**inputs), want)))

    statistics = {name: tf.constant(v) for name, v in training.variables.items() if not v.trainable}
    assert not np.allclose(statistics["r2plus1d/stem/space_norm/moving_variance"], 1)
    want = tf.nn.softmax(reference(inputs["image"], weights, blocks, causal, statistics))
    predict = evaluation_program(task, sizes, variables=training)
    np.testing.assert_allclose(predict(image=inputs["image"])["probabilities"], want, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "causal", "mesh_shape", "layout", "mesh_impl"),
    [
        (ODD, True, "frames:2,rows:2", "time:frames,height:rows", "stacked"),
        slow(SIZES, False, "frames:2", "time:frames", "stacked"),
        slow(SIZES, True, "rows:2,cols:2", "height:rows,width:cols", "stacked"),
        slow(SIZES, True, "frames:2,rows:2", "time:frames,height:rows", "placement"),
        slow(SIZES, False, "frames:2,rows:3,cores:2", "time:frames,height:rows,batch:cores", "stacked"),
        slow(ODD, True, "frames:2", "time:frames", "stacked"),
        slow(ODD, False, "frames:2", "time:frames", "placement"),
        slow(ODD, False, "frames:5,cols:3", "time:frames,width:cols", "stacked"),  # the last stage has 4 frames
    ],
)
def test_values_and_gradients_do_not_depend_on_the_layout(sizes, causal, mesh_shape, layout, mesh_impl):
    settings = (("causal", causal),)
    got, _ = compute(sizes, settings, mesh_shape=mesh_shape, layout=layout, mesh_impl=mesh_impl)
    assert_equal(got, whole(sizes, settings))


@pytest.mark.slow
@pytest.mark.parametrize(("gather_below", "changes"), [(1, []), (2, ["r2plus1d/stage1/block0_gather"])])
def test_stages_with_small_slices_are_gathered(gather_below, changes):
    # 8 frames, and 4 in the last stage.
    settings = (("gather_below", gather_below),)
    got, program = compute(settings=settings, mesh_shape="frames:4", layout="time:frames")
    assert [change.name for change in program.changes] == changes
    assert_equal(got, whole(SIZES))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("time_stride", "mesh_shape", "layout"),
    [slow(1, "", ""), slow(2, "", ""), (2, "frames:3,rows:2", "time:frames,height:rows")],
    ids=str,
)
def test_causal_features_do_not_depend_on_later_frames(time_stride, mesh_shape, layout):
    rng = np.random.default_rng(1)
    clip = batch()["image"]

    def compute_features(causal):
        network = R2Plus1D(**SMALL | {"time_stride": time_stride, "causal": causal})
        inputs = make_task().inputs(2, SIZES, tf.float64, labels=False)
        program = mi.Program(lambda image: network.features(image, False), inputs, mesh_shape=mesh_shape, layout=layout)
        return lambda clip: np.array(program(image=clip))

    features = compute_features(causal=True)
    before = features(clip)
    assert before.shape == (2, 8 // time_stride, 3, 3, 4)
    for frame in (1, 4, 5, 7):
        changed = clip.copy()
        changed[:, frame:] += rng.normal(size=changed[:, frame:].shape)
        present = -(-frame // time_stride)  # the first feature whose last frame is changed
        after = features(changed)
        np.testing.assert_array_equal(after[:, :present], before[:, :present])
        assert all(np.abs(after[:, t] - before[:, t]).max() > 1e-3 for t in range(present, before.shape[1]))
    if not layout:  # without causal padding, they do depend on later frames
        centered = compute_features(causal=False)
        assert np.abs(centered(changed)[:, present - 1] - centered(clip)[:, present - 1]).max() > 1e-3


def count_weights(network, channels=3):
    """Returns the number of trained weights, without creating them."""
    with tf.Graph().as_default():
        graph = mi.mtf.Graph()
        sizes = dict.fromkeys(("batch", *DIMS), 8) | {"channels": channels}
        shape = mi.mtf.Shape([mi.mtf.Dimension(name, size) for name, size in sizes.items()])
        clip = mi.mtf.zeros(mi.mtf.Mesh(graph, "mesh"), shape)
        network(clip, is_training=True)
        return sum(variable.shape.size for variable in graph.trainable_variables)


def published_weights(stem_middle, shared_middle, classes=400):
    """Returns the number of weights of R(2+1)D-18, added up from the table of the paper."""

    def unit(channels, middle, filters, pixels):  # two kernels, each with a scale and an offset for each filter
        return (channels * pixels + 2) * middle + (3 * middle + 2) * filters

    def middle(channels, filters):  # t = 3 and d = 3
        return (3 * 9 * channels * filters) // (9 * channels + 3 * filters)

    total, channels = unit(3, stem_middle, 64, 49), 64
    for filters in (64, 128, 256, 512):
        first, later = middle(channels, filters), middle(filters, filters)
        second = first if shared_middle else later
        shortcut = 0 if channels == filters else (channels + 2) * filters
        total += unit(channels, first, filters, 9) + unit(filters, second, filters, 9) + shortcut
        total += 2 * unit(filters, later, filters, 9)
        channels = filters
    return total + (channels + 1) * classes


def test_the_default_is_r2plus1d_18():
    # The formula of the paper gives 83 channels in the middle of the stem: floor(3 49 3 64 / (49 3 + 3 64)).
    assert count_weights(R2Plus1D()) == published_weights(83, shared_middle=False) == 33_383_797


def test_the_network_of_torchvision_has_the_published_number_of_weights():
    # torchvision.models.video.R2Plus1D_18_Weights.KINETICS400_V1.meta["num_params"]
    network = R2Plus1D(stem_middle=45, middle_per_block=True)
    assert count_weights(network) == published_weights(45, shared_middle=True) == 31_505_325
