"""Compares an imported network with the same network in `mi.layers`: `python -m benchmarks.imported`.

The network is a 3D U-Net of 53 layers. The command prints the seconds to import the Keras model, the seconds to build
each program, and the seconds of a training step. The two programs take one step each in turn, so other load on the
machine affects both alike.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import mtf_imaging as mi

_LEVELS = 4


def _keras_unet(filters):
    layers = keras.layers

    def block(x, filters):
        for _ in range(2):
            x = layers.Conv3D(filters, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization(momentum=0.9, epsilon=1e-6)(x))
        return x

    x, skips = keras.Input((None, None, None, 1)), []
    image = x
    for level in range(_LEVELS - 1):
        skips.append(block(x, filters * 2**level))
        x = layers.MaxPool3D()(skips[-1])
    x = block(x, filters * 2 ** (_LEVELS - 1))
    for level in reversed(range(_LEVELS - 1)):
        x = block(layers.Concatenate()([layers.UpSampling3D()(x), skips[level]]), filters * 2**level)
    return keras.Model(image, layers.Conv3D(2, 1)(x))


def _unet(image, filters):
    """The same network in `mi.layers`."""

    def block(x, filters):
        for _ in range(2):
            x = mi.layers.Conv(filters, use_bias=False)(x)
            x = mi.ops.relu(mi.layers.Norm("batch", is_training=True)(x))
        return x

    x, skips = image, []
    for level in range(_LEVELS - 1):
        skips.append(block(x, filters * 2**level))
        x = mi.ops.max_pool3d(skips[-1], 2, 2)
    x = block(x, filters * 2 ** (_LEVELS - 1))
    for level in reversed(range(_LEVELS - 1)):
        x = block(mi.layers.concat([mi.layers.UpSample()(x), skips[level]]), filters * 2**level)
    return mi.layers.Conv(2, 1)(x)


def _program(network, size, layout):
    """Returns a program that takes a training step, and the seconds to build it."""

    def step(image):
        loss = mi.mtf.reduce_mean(mi.mtf.square(network(image)))
        weights = [variable.outputs[0] for variable in loss.graph.trainable_variables]
        for weight, gradient in zip(weights, mi.mtf.gradients([loss], weights), strict=True):
            mi.mtf.assign(weight, weight - 1e-3 * gradient)
        return loss

    began = time.perf_counter()
    shape = f"batch:1,x:{size},y:{size},z:{size},channels:1"
    program = mi.Program(step, {"image": shape}, layout=layout)
    return program, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=64, help="voxels along each axis (%(default)s)")
    parser.add_argument("--filters", type=int, default=16, help="filters of the first level (%(default)s)")
    parser.add_argument("--mesh_shape", default="", help="mesh (one processor)")
    parser.add_argument("--layout", default="", help="layout (none)")
    parser.add_argument("--rounds", type=int, default=15, help="timed steps of each program (%(default)s)")
    flags = parser.parse_args()
    layout = mi.Layout.parse(flags.mesh_shape, flags.layout)
    model = _keras_unet(flags.filters)
    began = time.perf_counter()
    network = mi.networks.load(model)
    network.inputs(x=flags.size, y=flags.size, z=flags.size)
    print(f"import of {len(model.layers)} layers: {time.perf_counter() - began:.2f} s")
    programs, seconds, losses = {}, {}, {}
    for name, function in {
        "mi.layers": lambda image: _unet(image, flags.filters),
        "imported": lambda image: network(training=True, image=image),
    }.items():
        programs[name], building = _program(function, flags.size, layout)
        seconds[name] = []
        print(f"{name}: {building:.2f} s to build the program")
    ours, theirs = ([v for v in programs[name].variables.values() if v.trainable] for name in ("mi.layers", "imported"))
    for mine, other in zip(ours, theirs, strict=True):
        mine.assign(np.reshape(other.numpy(), mine.shape))
    image = np.random.default_rng(0).standard_normal([1, *[flags.size] * 3, 1]).astype(np.float32)
    for number in range(1 + flags.rounds):  # the first round warms up
        for name, program in programs.items():
            began = time.perf_counter()
            losses[name] = program(image=image).numpy()
            seconds[name] += [time.perf_counter() - began] * (number > 0)
    np.testing.assert_allclose(losses["imported"], losses["mi.layers"], rtol=1e-3)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = sorted(a / b for a, b in zip(seconds["imported"], seconds["mi.layers"], strict=True))
    print(f"a step: {medians['mi.layers']:.3f} s in mi.layers, {medians['imported']:.3f} s imported")
    print(
        f"ratio of medians {medians['imported'] / medians['mi.layers']:.3f}; of each pair of steps "
        f"{ratios[0]:.3f} to {ratios[-1]:.3f}, half of them {ratios[len(ratios) // 4]:.3f} to "
        f"{ratios[-1 - len(ratios) // 4]:.3f}"
    )


if __name__ == "__main__":
    main()
