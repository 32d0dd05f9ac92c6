"""A small task for the tests of frozen and averaged weights: two dense layers, each with a batch norm."""

import numpy as np
import tensorflow as tf

import mtf_imaging as mi

EPSILON, MOMENTUM, SIZE = 1e-3, 0.75, 6


class TwoLayers:
    """`loss = mean (norm(relu(norm(image first)) second) - target)^2`."""

    def inputs(self, batch_size, sizes, *, dtype, labels):
        inputs = {"image": (f"batch:{batch_size},x:{SIZE},channels:4", dtype)}
        return {**inputs, "target": (f"batch:{batch_size}", dtype)} if labels else inputs

    def loss(self, image, target):
        values = self._values(image, True)
        return mi.mtf.reduce_mean(mi.mtf.square(values - target)), {}

    def predict(self, image):
        return self._values(image, False)

    def _values(self, x, is_training):
        for name in ("first", "second"):
            out = mi.mtf.Dimension("channels", 4)
            kernel = mi.mtf.get_variable(
                x.mesh,
                f"{name}/kernel",
                mi.mtf.Shape([mi.mtf.Dimension("channels_in", 4), out]),
                dtype=x.dtype,
                initializer=tf.compat.v1.random_normal_initializer(),
            )
            x = mi.mtf.rename_dimension(x, "channels", "channels_in")
            x = mi.mtf.einsum([x, kernel], output_shape=mi.mtf.Shape([*x.shape.dims[:-1], out]))
            x = mi.ops.batch_norm(x, is_training, MOMENTUM, EPSILON, name=f"{name}_norm")
            x = mi.mtf.relu(x)
        return mi.mtf.reduce_mean(x, output_shape=x.shape.dims[:1])


def batches(number, batch_size=4, start=0):
    for step in range(start, start + number):
        rng = np.random.default_rng(step)
        yield {"image": rng.normal(size=(batch_size, SIZE, 4)), "target": rng.normal(size=batch_size)}


def compute(step, batch, count):
    """Computes a step of a `BuiltStep` with a number of micro-batches."""
    if count == 1:
        return step(**batch)
    split = {name: np.split(value, count) for name, value in batch.items()}
    return step(parts=[{name: value[i] for name, value in split.items()} for i in range(count)])


def values(program):
    return {name: variable.numpy() for name, variable in program.variables.items()}


def weights(values):
    """Returns the names of the weights among the variables of a program."""
    return {name for name in values if name.rpartition("/")[2] in ("kernel", "scale", "offset")}
