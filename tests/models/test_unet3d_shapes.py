"""Kernels and pools per axis, residual blocks and capped filters equal plain TensorFlow, under every layout."""

import dataclasses
import functools
import math

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, UNet3D
from tests.models import reference_unet3d
from tests.models.programs import assert_close, numbers
from tests.models.test_losses import tf_loss
from tests.models.test_unet3d import batch, build_program

UNEVEN = (7, 9, 5)
KERNELS = ((3, 3, 1), (3, 3, 3), (1, 3, 3))
POOLS = ((2, 2, 1), (2, 1, 2))
SMALL = UNet3D(base_filters=2, depth=3, norm="instance", dropout_rate=0.0)
NETWORKS = {
    "kernels": dataclasses.replace(SMALL, kernel_sizes=KERNELS),
    "pools": dataclasses.replace(SMALL, pool_sizes=POOLS),
    "residual": dataclasses.replace(SMALL, residual=True, max_filters=4),
    "residual, no norm": dataclasses.replace(SMALL, residual=True, norm="none", pool_sizes=POOLS),
    "all": dataclasses.replace(SMALL, kernel_sizes=KERNELS, pool_sizes=POOLS, residual=True, max_filters=3),
}
ALL = dataclasses.replace(NETWORKS["all"], convs=1, norm="batch", dropout_rate=0.5, deep_supervision=1, recompute=True)
LAYOUTS = {
    "xy": ("rows:2,cols:2", "x:rows,y:cols", "stacked"),
    "z": ("planes:2", "z:planes", "stacked"),
    "xyz": ("rows:3,cols:4,planes:2", "x:rows,y:cols,z:planes", "stacked"),  # slices without voxels
    "xz": ("rows:2,planes:2", "x:rows,z:planes", "placement"),
    "batch and channels": ("cores:2,model:3", "batch:cores,channels:model", "stacked"),
}


def values(network, sizes, *layout, **options):
    mesh_shape, rules, mesh_impl = layout or ("", "", "stacked")
    task = LiverTumorSegmentation(network, dice="classes")
    return numbers(build_program(task, sizes, mesh_shape, rules, mesh_impl=mesh_impl, **options)(**batch(sizes)))


@functools.cache
def whole(network, sizes):
    return values(network, sizes)


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize("name", NETWORKS)
def test_values_and_gradients_equal_plain_tensorflow(name):
    network, given = NETWORKS[name], batch(UNEVEN)
    program = build_program(LiverTumorSegmentation(network, dice="classes"), UNEVEN)
    weights = {key: tf.constant(v) for key, v in program.variables.items() if v.trainable}
    with tf.GradientTape() as tape:
        tape.watch(weights)
        options = {"norm": network.norm, "pools": network.pool_sizes, "residual": network.residual}
        logits = reference_unet3d.logits(tf.constant(given["image"]), weights, network.depth, **options)
        loss = tf_loss(logits, given["labels"], "classes")
    _, liver, lesion = reference_unet3d.loss(logits, given["labels"])
    want = {"loss": loss, "liver": liver, "lesion": lesion, **tape.gradient(loss, weights)}
    assert_close(numbers(program(**given)), numbers(want), 1e-9)


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize(("layout", "sizes"), [*((layout, UNEVEN) for layout in LAYOUTS), ("xy", (8, 8, 4))], ids=str)
def test_values_and_gradients_do_not_depend_on_the_layout(layout, sizes):
    want = whole(dataclasses.replace(ALL, recompute=False), sizes)
    assert any("shortcut" in name for name in want)
    assert_close(values(ALL, sizes, *LAYOUTS[layout]), want, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kernels", "residual, no norm"])
def test_each_setting_is_the_same_under_a_layout(name):
    assert_close(values(NETWORKS[name], UNEVEN, *LAYOUTS["xy"]), whole(NETWORKS[name], UNEVEN), 1e-9)


GATHERED = dataclasses.replace(SMALL, convs=1, pool_sizes=((2, 1, 2), (2, 2, 1)), deep_supervision=1)


@pytest.mark.parametrize(
    ("mesh_shape", "layout", "changes"),
    [
        # x has slices of 2 voxels after the first pool and is gathered; y, also in slices of 2, has no pool there.
        (
            *("rows:4,cols:2", "x:rows,y:cols"),
            ["pool1_gather", "pool2_gather", "grow1_scatter", "grow0_scatter", "labels1_gather"],
        ),
        # z has a single pool, after which its slices are large enough.
        ("planes:2", "z:planes", []),
    ],
)
def test_an_axis_without_a_pool_is_not_gathered(mesh_shape, layout, changes):
    sizes, network = (16, 4, 12), dataclasses.replace(GATHERED, gather_below=3)
    task = LiverTumorSegmentation(network, dice="classes")
    program = build_program(task, sizes, mesh_shape, layout, mesh_impl="stacked")
    assert [change.name.removeprefix("unet3d/") for change in program.changes] == changes
    assert_close(numbers(program(**batch(sizes))), whole(GATHERED, sizes), 1e-9)


def test_logits_of_coarser_levels_have_the_strides_of_the_pools():
    network = dataclasses.replace(SMALL, convs=1, pool_sizes=((1, 2, 1), (2, 2, 2)), deep_supervision=1)
    assert network.level_strides == ((1, 1, 1), (1, 2, 1), (2, 4, 2))
    shapes = {}

    def fn(image):
        shapes.update({level: x.shape.to_integer_list for level, x in enumerate(network(image, is_training=True))})
        return mi.mtf.reduce_sum(image)

    mi.Program(fn, {"image": ("batch:1,x:7,y:6,z:5,channels:1", tf.float32)})
    assert shapes == {0: [1, 7, 6, 5, 3], 1: [1, 7, 3, 5, 3]}


@pytest.mark.slow
def test_the_loss_of_a_coarser_level_equals_plain_tensorflow():
    network = dataclasses.replace(NETWORKS["pools"], deep_supervision=1)
    given = batch(UNEVEN)
    program = build_program(LiverTumorSegmentation(network, dice="classes"), UNEVEN)
    coarse = mi.Program(
        lambda image: network(image, is_training=True),
        {"image": ("batch:2,x:7,y:9,z:5,channels:1", tf.float64)},
        variables=program,
    )
    fine, logits = (tf.constant(x.numpy()) for x in coarse(image=given["image"]))
    labels = given["labels"]
    want = (2 * tf_loss(fine, labels, "classes") + tf_loss(logits, labels[:, ::2, ::2], "classes")) / 3
    got = program(**given)
    assert "unet3d/classes1/filter" in got
    np.testing.assert_allclose(got["loss"], want, rtol=1e-9)


@pytest.mark.slow
def test_2d_images_use_the_sizes_along_x_and_y():
    task = Segmentation(dataclasses.replace(NETWORKS["all"], deep_supervision=1), labels=2)
    flat = build_program(task, (7, 9))
    shapes = {name: v.shape.as_list() for name, v in flat.variables.items() if name.endswith("filter")}
    assert shapes["unet3d/down2/conv0/filter"] == [1, 3, 3, 3]
    assert shapes["unet3d/grow1/filter"] == [2, 1, 3, 3]
    given = batch((7, 9))
    split = build_program(task, (7, 9), "rows:2,cols:3", "x:rows,y:cols", mesh_impl="stacked")
    assert_close(numbers(split(**given)), numbers(flat(**given)), 1e-9)


def _weights(network, channels=1):
    inputs = {"image": (f"batch:1,x:8,y:4,z:4,channels:{channels}", tf.float32)}
    program = mi.Program(lambda image: network(image, is_training=False), inputs)
    return {name: math.prod(v.shape) for name, v in program.variables.items() if v.trainable}


def test_numbers_of_weights_equal_counts_by_hand():
    network = UNet3D(2, base_filters=4, depth=3, kernel_sizes=KERNELS, pool_sizes=POOLS, max_filters=6, norm="instance")
    # 4, 6 and 6 filters instead of 4, 8 and 16; 2 numbers for each channel of a norm.
    down = (9 * (1 * 4 + 4 * 4) + 16, 27 * (4 * 6 + 6 * 6) + 24, 9 * (6 * 6 + 6 * 6) + 24)
    grow = 4 * 6 * 6 + 6, 4 * 6 * 4 + 4  # windows of 2 x 1 x 2 and 2 x 2 x 1 voxels, and a bias
    up = 27 * (12 * 6 + 6 * 6) + 24, 9 * (8 * 4 + 4 * 4) + 16
    classes = 4 * 2 + 2
    plain = sum(down) + sum(grow) + sum(up) + classes
    assert sum(_weights(network).values()) == plain == 6160
    # A shortcut with a norm where the channels change: 1 to 4 and 4 to 6, but not 6 to 6.
    residual = _weights(dataclasses.replace(network, residual=True))
    shortcuts = {name: number for name, number in residual.items() if "shortcut" in name}
    assert shortcuts["unet3d/down0/shortcut/filter"] == 4
    assert shortcuts["unet3d/down1/shortcut/filter"] == 24
    assert sum(shortcuts.values()) == 4 + 8 + 24 + 12
    assert sum(residual.values()) == plain + 48


def test_weights_have_the_variance_of_their_windows():
    """He-normal weights have a variance of 2 / fan, also in transposed convolutions, whose windows do not overlap."""
    network = UNet3D(2, base_filters=48, depth=2, kernel_sizes=KERNELS[:2], pool_sizes=((2, 2, 1),))
    inputs = {"image": ("batch:1,x:4,y:4,z:4,channels:1", tf.float32)}
    program = mi.Program(lambda image: network(image, is_training=False), inputs)
    for name, fan in {"down0/conv1": 9 * 48, "down1/conv1": 27 * 96, "grow0": 96}.items():
        np.testing.assert_allclose(np.std(program.variables[f"unet3d/{name}/filter"]), np.sqrt(2 / fan), rtol=0.02)


def test_the_cap_includes_filters_that_double_before_the_pool():
    weights = _weights(UNet3D(2, base_filters=4, depth=2, double_before_pool=True, max_filters=7, norm="none"))
    # 1 -> 4 -> 7 | 7 -> 7 -> 7 | 7 -> 7, concatenated with 7 -> 7 -> 7
    filters = {name.split("unet3d/")[1]: number for name, number in weights.items() if name.endswith("filter")}
    assert filters == {
        "down0/conv0/filter": 27 * 4,
        "down0/conv1/filter": 27 * 4 * 7,
        "down1/conv0/filter": 27 * 7 * 7,
        "down1/conv1/filter": 27 * 7 * 7,
        "grow0/filter": 8 * 7 * 7,
        "up0/conv0/filter": 27 * 14 * 7,
        "up0/conv1/filter": 27 * 7 * 7,
        "classes/filter": 7 * 2,
    }


def test_sizes_of_the_defaults_create_the_same_weights():
    explicit = dataclasses.replace(SMALL, kernel_sizes=((3,) * 3,) * 3, pool_sizes=((2,) * 3,) * 2, max_filters=8)
    assert _weights(explicit) == _weights(SMALL)
    assert SMALL.level_strides == explicit.level_strides == ((1, 1, 1), (2, 2, 2), (4, 4, 4))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"kernel_sizes": ((3, 3, 1),)},
            "UNet3D.kernel_sizes = ((3, 3, 1),): with UNet3D.depth = 4, it must be None, or have 4 tuples of 3 sizes",
        ),
        ({"depth": 1, "kernel_sizes": ((3, 3),)}, "it must be None, or have 1 tuples of 3 sizes, along x, y and z"),
        ({"depth": 2, "pool_sizes": ((2, 2, 1),) * 2}, "with UNet3D.depth = 2, it must be None, or have 1 tuples"),
        ({"depth": 1, "pool_sizes": ((2, 2, 1),)}, "with UNet3D.depth = 1, it must be None, or have 0 tuples"),
    ],
)
def test_invalid_settings(arguments, text):
    with pytest.raises(mi.ConfigError) as error:
        UNet3D(**arguments)
    assert text in str(error.value)


def test_lists_of_gin_become_tuples():
    text = "unet3d.UNet3D.depth = 2\nunet3d.UNet3D.kernel_sizes = [(3, 3, 1), [3, 3, 3]]\n"
    gin.parse_config(text + "unet3d.UNet3D.pool_sizes = [[2, 2, 1]]\nunet3d.UNet3D.max_filters = 320")
    network = UNet3D()
    assert network.kernel_sizes == ((3, 3, 1), (3, 3, 3))
    assert network.level_strides == ((1, 1, 1), (2, 2, 1))
    assert hash(network) == hash(dataclasses.replace(network))
