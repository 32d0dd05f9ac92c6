"""The network matches the paper, equals a network in plain TensorFlow, and does not depend on the layout."""

import dataclasses
import functools
import math

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from tests.engine.ops.windows_of_any_size import devices
from tests.models import reference_unet3d
from tests.models.programs import assert_close, numbers, train_program


def batch(sizes, batch_size=2, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, (batch_size, *sizes)).astype(np.int32)
    return {"image": rng.random((batch_size, *sizes, 1)), "labels": labels}


def build_program(task, sizes, mesh_shape="", layout="", **kwargs):
    """Returns a program that computes the loss, the measures and the gradients of all weights.

    The time to build a program for several devices is proportional to their number, so a large mesh uses four of them.
    """
    if kwargs.get("mesh_impl") == "placement" and math.prod(size for _, size in parse_shape(mesh_shape)) > 6:
        kwargs.setdefault("devices", devices(mesh_shape, most=4))

    return train_program(task, sizes, mesh_shape, layout, **kwargs)


@pytest.mark.mostly_slow(fast=0.15)
@pytest.mark.parametrize(
    ("norm", "sizes"),
    [
        *((norm, (8, 4, 4)) for norm in ("batch", "instance", "group", "none")),
        ("batch", (7, 5, 6)),
        ("none", (1, 2, 3)),  # one voxel remains one voxel
    ],
)
def test_values_and_gradients_equal_plain_tensorflow(norm, sizes):
    depth, groups = 3, 2
    network = UNet3D(base_filters=4, depth=depth, norm=norm, norm_groups=groups, dropout_rate=0.0)
    program = build_program(LiverTumorSegmentation(network), sizes)
    inputs = batch(sizes)
    weights = {name: tf.constant(v) for name, v in program.variables.items() if v.trainable}
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = reference_unet3d.logits(tf.constant(inputs["image"]), weights, depth, norm, groups)
        loss, liver, lesion = reference_unet3d.loss(logits, inputs["labels"])
    want = {"loss": loss, "liver": liver, "lesion": lesion, **tape.gradient(loss, weights)}
    assert_close(program(**inputs), numbers(want), 1e-9)


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize(
    ("sizes", "mesh_shape", "layout", "mesh_impl"),
    [
        ((8, 8, 4), "rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores", "stacked"),
        ((8, 8, 4), "planes:2,model:2", "z:planes,channels:model", "stacked"),
        ((8, 8, 4), "rows:2", "x:rows", "placement"),
        ((7, 6, 5), "rows:2,cols:4,cores:3", "x:rows,y:cols,batch:cores", "stacked"),
        ((7, 6, 5), "planes:3,model:3", "z:planes,channels:model", "stacked"),
        ((7, 6, 5), "rows:5", "x:rows", "placement"),  # 4 voxels at the lower level
        pytest.param((7, 6, 5), "rows:3,cols:2", "x:rows,z:cols", "placement", marks=pytest.mark.slow),
    ],
)
def test_values_and_gradients_do_not_depend_on_the_layout(sizes, mesh_shape, layout, mesh_impl):
    task, inputs, want = whole(sizes)
    program = build_program(task, sizes, mesh_shape, layout, mesh_impl=mesh_impl)
    assert_close({name: value.numpy() for name, value in program(**inputs).items()}, want, 1e-9)


@functools.cache
def whole(sizes):
    """Returns a task of a small network with dropout, its inputs, and its values without a layout."""
    # All numbers of filters and channels are even, so `channels` can be split everywhere.
    task = _ManyChannels(UNet3D(base_filters=2, depth=2, convs=1, dropout_rate=0.5), 2)
    inputs = task.batch(sizes)
    return task, inputs, {name: value.numpy() for name, value in build_program(task, sizes)(**inputs).items()}


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["instance", "group"])
@pytest.mark.parametrize(
    ("mesh_shape", "layout"), [("rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores"), ("model:4", "channels:model")]
)
def test_instance_and_group_norm_do_not_depend_on_the_layout(norm, mesh_shape, layout):
    # With 4 channels over 4 processors, a group of 2 channels is in two slices. The lower level is gathered.
    network = UNet3D(base_filters=4, depth=2, convs=1, norm=norm, norm_groups=2, dropout_rate=0.5)
    task, sizes = _ManyChannels(network, 4), (8, 8, 4)
    inputs = task.batch(sizes)
    want = {name: value.numpy() for name, value in build_program(task, sizes)(**inputs).items()}
    task.network = dataclasses.replace(network, gather_below=4, recompute=True)
    got = build_program(task, sizes, mesh_shape, layout)(**inputs)
    assert_close({name: value.numpy() for name, value in got.items()}, want, 1e-9)


class _ManyChannels(LiverTumorSegmentation):
    """A task whose images have several channels, which are powers of the first one."""

    def __init__(self, network, channels):
        super().__init__(network)
        self.channels = channels

    def inputs(self, *args, **kwargs):
        inputs = super().inputs(*args, **kwargs)
        shape, dtype = inputs["image"]
        return {**inputs, "image": (shape.replace("channels:1", f"channels:{self.channels}"), dtype)}

    def batch(self, sizes):
        inputs = batch(sizes)
        return {**inputs, "image": np.concatenate([inputs["image"] ** (i + 1) for i in range(self.channels)], axis=-1)}


def test_the_network_of_the_paper_has_5_6_million_weights():
    task = LiverTumorSegmentation(UNet3D())
    program = mi.Program(task.predict, task.inputs(1, (8, 8, 8), labels=False))
    filters = {name: v for name, v in program.variables.items() if name.endswith("filter")}
    assert sum(v.shape.num_elements() for v in filters.values()) == 5_598_144
    assert len(filters) == 18
    assert filters["unet3d/down3/conv1/filter"].shape == [3, 3, 3, 256, 256]
    # Only convolutions without a norm have a bias.
    biases = {name.split("/")[1] for name in program.variables if name.endswith("bias")}
    assert biases == {"grow2", "grow1", "grow0", "classes"}
    # He-normal weights have a variance of 2 / fan, also in transposed convolutions, whose windows do not overlap.
    for name, fan in {"down2/conv1": 27 * 128, "grow2": 256}.items():
        np.testing.assert_allclose(np.std(filters[f"unet3d/{name}/filter"]), np.sqrt(2 / fan), rtol=0.02)


def test_prediction_uses_moving_statistics_and_no_dropout():
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, dropout_rate=0.5))
    program = mi.Program(task.predict, task.inputs(1, (4, 4, 4), labels=False))
    image = np.random.default_rng(0).random((1, 4, 4, 4, 1))
    first, second = program(image=image).numpy(), program(image=image).numpy()
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first.sum(-1), 1, rtol=1e-6)
    moved = program.variables["unet3d/down0/norm0/moving_mean"]
    moved.assign(moved + 1)
    assert np.abs(program(image=image) - first).max() > 1e-3


@pytest.mark.parametrize("labels", [True, False], ids=["loss", "predict"])
@pytest.mark.parametrize("supervised", [0, 1])
def test_a_network_with_the_wrong_number_of_classes_is_refused(labels, supervised):
    task = LiverTumorSegmentation(UNet3D(classes=2, base_filters=2, depth=3, deep_supervision=supervised))
    text = r"LiverTumorSegmentation\.network: the network has 2 classes, but this task needs 3. Fix: "
    with pytest.raises(mi.ConfigError, match=text):
        mi.Program(task.loss if labels else task.predict, task.inputs(1, (8, 4, 4), labels=labels))


@pytest.mark.parametrize("arguments", [{"base_filters": 12}, {"base_filters": 8, "max_filters": 12}], ids=str)
def test_groups_that_do_not_divide_the_channels_are_refused(arguments):
    task = LiverTumorSegmentation(UNet3D(depth=2, norm="group", **arguments))
    with pytest.raises(mi.MtfImagingError, match=r"12.*8|8.*12"):
        trace_only(task.loss, task.inputs(1, (8, 4, 4)))


def test_gin_names():
    gin.parse_config("unet3d.UNet3D.base_filters = 5\nunet3d.LiverTumorSegmentation.network = @unet3d.UNet3D()")
    assert LiverTumorSegmentation().network.base_filters == 5
