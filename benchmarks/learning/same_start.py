"""Compares the losses of our training and the Keras program with the same weights and batches, in float64.

    python -m benchmarks.learning.same_start --steps 50    # 2 minutes on 2 cores

The Keras network gets our initial weights. Both train with Adam on the same small volumes; ours runs whole and split
over 2 x 2 processors. The command prints the largest relative difference between losses, and fails if it exceeds the
limit.
"""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras

import mtf_imaging as mi
from benchmarks.learning import keras_unet
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import TrainingStep

SIZES, VOLUMES = (24, 16, 16), 3
RATE, BETA1, BETA2 = 2**-8, 1 - 2**-3, 1 - 2**-10  # exact in float32, in which Keras stores them
EPSILON = 1e-30  # too small to matter, because the programs add it at different places
SMOOTH = 0.1  # epsilon of our Dice loss
LIMIT = 1e-12
SPLIT = mi.Layout.parse("rows:2,cols:2", "x:rows,y:cols")


def make_batches(number, seed=0):
    """Returns batches of one volume, (image [1, x, y, z, 1], labels [1, x, y, z]); the volumes take turns."""
    rng = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*(np.arange(n) for n in SIZES), indexing="ij")
    volumes = []
    for _ in range(VOLUMES):
        at = rng.uniform(0.35, 0.65, 3) * SIZES
        distance = np.sqrt((x - at[0]) ** 2 + (y - at[1]) ** 2 + (z - at[2]) ** 2)
        labels = (distance < 6).astype(np.int32) + (distance < 2)
        image = 0.4 + 0.15 * (labels > 0) - 0.1 * (labels == 2) + rng.normal(0, 0.05, SIZES)
        volumes.append((image[None, ..., None], labels[None]))
    return [volumes[step % VOLUMES] for step in range(number)]


def our_losses(batches, layout=""):
    """Returns the losses of our training, and its initial weights {name: array}."""
    network = UNet3D(base_filters=keras_unet.FILTERS, depth=keras_unet.LEVELS, norm="instance", dropout_rate=0.0)
    task = LiverTumorSegmentation(network, class_weights=(1, 1, 1), dice_weight=0.5, dice="classes")
    step = TrainingStep(task, Adam(RATE, BETA1, BETA2, EPSILON), SIZES, dtype="float64").build(mi.Layout.of(layout))
    weights = {name: value.numpy() for name, value in step.program.variables.items() if value.trainable}
    return [float(step(image=image, labels=labels)["loss"]) for image, labels in batches], weights


def keras_losses(batches, weights):
    """Returns the losses of the Keras network with these initial weights."""
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")  # layer dtype; otherwise, an earlier layer determines it
    model = keras_unet.network(pool=_MaxPool)
    for name, weight in keras_unet.variables(model).items():
        weight.assign(weights[name])
    optimizer = keras.optimizers.Adam(RATE, BETA1, BETA2, EPSILON)

    @tf.function
    def step(image, labels):
        with tf.GradientTape() as tape:
            loss = 0.5 * keras_unet.loss(labels, model(image, training=True), SMOOTH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return [float(step(tf.constant(image), tf.constant(labels))) for image, labels in batches]


class _MaxPool(keras.layers.Layer):
    """Halves sizes with a max pool, which TensorFlow lacks in float64 on CPUs."""

    def __init__(self, size, name):
        super().__init__(name=name)
        self._size = size

    def call(self, x):
        for axis in (1, 2, 3):  # one at a time, because TensorFlow has no gradient for tensors of 8 dimensions
            shape = tf.shape(x)
            pairs = tf.concat([shape[:axis], [shape[axis] // self._size, self._size], shape[axis + 1 :]], 0)
            channels = x.shape[-1]
            x = tf.reduce_max(tf.reshape(x, pairs), axis + 1)
            x = tf.ensure_shape(x, [None] * 4 + [channels])
        return x


def compare(steps):
    """Returns the largest relative differences from the Keras losses: of our training whole, and split."""
    batches = make_batches(steps)
    whole, weights = our_losses(batches)
    split, _ = our_losses(batches, SPLIT)
    other = np.array(keras_losses(batches, weights))
    return tuple(float(np.max(np.abs(np.array(ours) - other) / other)) for ours in (whole, split))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    steps = parser.parse_args().steps
    whole, split = compare(steps)
    print(f"largest relative difference of the losses of {steps} steps: {whole:.1e} whole, {split:.1e} split 2 x 2")
    if max(whole, split) > LIMIT:
        raise SystemExit(f"The losses differ by more than {LIMIT:g}.")


if __name__ == "__main__":
    main()
