"""A U-Net for livers and their tumors in plain Keras: what a user would write without this package.

    python benchmarks/learning/keras_unet.py --train FOLDER --test FOLDER --output FOLDER --steps 300 [--patches]

It does not use this package. The network is the one in the job `unet3d_real_ct`, with instance norms, and has 350,827
weights. Cases are read with nibabel, reoriented to RAS, and not resampled. Training takes whole volumes, padded to
multiples of 8, or two patches of 64 x 64 x 32 voxels per step, one of which has a labeled voxel in its center, as in
nnU-Net. The program writes the probabilities of the test cases.
"""

import argparse
import itertools
import time
from pathlib import Path

import nibabel
import numpy as np
import tensorflow as tf
from tensorflow import keras

LOW, HIGH = -160.0, 240.0  # HU
LEVELS, FILTERS, CLASSES = 4, 8, 3
PATCH = (64, 64, 32)
RATE, POWER = 3e-3, 0.9
PARTS = {"kernel": "filter", "bias": "bias", "gamma": "scale", "beta": "offset"}  # in mtf_imaging


def network(pool=keras.layers.MaxPooling3D, biases="zeros"):
    """Returns a U-Net: [batch, x, y, z, 1] -> logits [batch, x, y, z, classes].

    Args:
      pool: halves sizes.
      biases: initializer of the biases of the classes.
    """
    image = keras.Input((None, None, None, 1))
    x, skips = image, []
    for level in range(LEVELS):
        if level:
            skips.append(x)
            x = pool(2, name=f"pool{level}")(x)
        x = _block(x, f"down{level}", FILTERS * 2**level)
    for level in reversed(range(LEVELS - 1)):
        x = keras.layers.Conv3DTranspose(FILTERS * 2**level, 2, 2, name=f"grow{level}")(x)
        x = _block(keras.layers.Concatenate()([x, skips.pop()]), f"up{level}", FILTERS * 2**level)
    return keras.Model(image, keras.layers.Conv3D(CLASSES, 1, bias_initializer=biases, name="classes")(x))


def _block(x, name, filters):
    for i in range(2):
        x = keras.layers.Conv3D(
            filters, 3, padding="same", use_bias=False, kernel_initializer="he_normal", name=f"{name}_conv{i}"
        )(x)
        x = keras.layers.GroupNormalization(groups=-1, epsilon=1e-6, name=f"{name}_norm{i}")(x)
        x = keras.layers.LeakyReLU(negative_slope=0.1)(x)
    return x


def variables(model):
    """Returns the weights of the network by their names in mtf_imaging: down0_conv0 is unet3d/down0/conv0/filter."""
    every = ((layer.name.replace("_", "/"), weight) for layer in model.layers for weight in layer.weights)
    return {f"unet3d/{layer}/{PARTS[weight.name]}": weight for layer, weight in every}


def loss(labels, logits, smooth=1.0):
    """Returns the cross entropy plus the mean Dice loss of liver and lesion."""
    entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    p, t = tf.nn.softmax(logits)[..., 1:], tf.one_hot(labels, CLASSES, dtype=logits.dtype)[..., 1:]
    axes = [0, 1, 2, 3]
    dice = (2 * tf.reduce_sum(p * t, axes) + smooth) / (tf.reduce_sum(p, axes) + tf.reduce_sum(t, axes) + smooth)
    return entropy + 1 - tf.reduce_mean(dice)


def read(folder):
    """Returns (CT in 0..1 [x, y, z], labels, file) of each case, in RAS."""
    cases = []
    for path in sorted(Path(folder).glob("volume-*.nii*")):
        image = nibabel.load(path)
        values = (np.asarray(nibabel.as_closest_canonical(image).dataobj, np.float32) - LOW) / (HIGH - LOW)
        mask = nibabel.load(path.with_name(path.name.replace("volume", "segmentation")))
        labels = np.asarray(nibabel.as_closest_canonical(mask).dataobj).astype(np.int32)
        cases.append((np.clip(values, 0, 1), labels, image))
    return cases


def padded(array, sizes, value=0):
    """Pads an array at its ends to at least `sizes`."""
    return np.pad(array, [(0, max(0, m - n)) for n, m in zip(array.shape, sizes)], constant_values=value)


def volumes(cases, rng):
    """Yields batches of one whole volume, (image [1, x, y, z, 1], labels [1, x, y, z]); all cases once per epoch."""
    multiple = [max(-(-case[0].shape[axis] // 8) * 8 for case in cases) for axis in range(3)]
    while True:
        for index in rng.permutation(len(cases)):
            image, labels, _ = cases[index]
            yield augmented(padded(image, multiple), rng)[None, ..., None], padded(labels, multiple)[None]


def patches(cases, rng):
    """Yields batches of two patches of random cases; the second one has a voxel of a random label in its center."""
    while True:
        batch = []
        for is_centered in (False, True):
            image, labels, _ = cases[rng.integers(len(cases))]
            image, labels = padded(image, PATCH), padded(labels, PATCH)
            start = [rng.integers(n - size + 1) for n, size in zip(image.shape, PATCH)]
            if is_centered:
                voxels = np.argwhere(labels == rng.choice(np.unique(labels[labels > 0])))
                center = voxels[rng.integers(len(voxels))]
                start = [np.clip(c - s // 2, 0, n - s) for c, s, n in zip(center, PATCH, image.shape)]
            box = tuple(slice(at, at + size) for at, size in zip(start, PATCH))
            batch.append((augmented(image[box], rng)[..., None], labels[box]))
        yield tuple(np.stack(arrays) for arrays in zip(*batch))


def augmented(image, rng):
    """Changes the contrast and brightness of an image."""
    return ((image - 0.5) * rng.uniform(0.9, 1.1) + 0.5 + rng.uniform(-0.05, 0.05)).astype(np.float32)


def predict(model, image, use_patches):
    """Returns the probabilities of a case, [x, y, z, classes]."""
    shape = image.shape
    image = padded(image, PATCH if use_patches else [-(-n // 8) * 8 for n in shape])
    window = PATCH if use_patches else image.shape
    total, count = np.zeros((*image.shape, CLASSES), np.float32), np.zeros((*image.shape, 1), np.float32)
    starts = [
        np.unique(np.linspace(0, n - size, -(-2 * (n - size) // size) + 1).astype(int))
        for n, size in zip(image.shape, window)
    ]
    for start in itertools.product(*starts):
        box = tuple(slice(at, at + size) for at, size in zip(start, window))
        total[box] += tf.nn.softmax(model(image[box][None, ..., None], training=False)[0])
        count[box] += 1
    return (total / count)[tuple(map(slice, shape))]


def save(values, image, path):
    """Saves RAS values in the orientation of their image file."""
    ras = nibabel.orientations.io_orientation(nibabel.as_closest_canonical(image).affine)
    stored = nibabel.orientations.ornt_transform(ras, nibabel.io_orientation(image.affine))
    nibabel.save(nibabel.Nifti1Image(nibabel.orientations.apply_orientation(values, stored), image.affine), path)


def log_frequencies(cases):
    """Returns the biases with which the network first predicts the frequency of each class."""
    logs = np.log(np.mean([np.bincount(case[1].ravel(), minlength=CLASSES) / case[1].size for case in cases], axis=0))
    return logs - logs.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--train", "--test", "--output"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=RATE, help="first learning rate")
    parser.add_argument("--patches", action="store_true", help="train on patches instead of whole volumes")
    parser.add_argument("--frequencies", action="store_true", help="start with the frequencies of the classes")
    parser.add_argument("--first_weights", type=Path, help="file (.npz) of the first weights; written if it is missing")
    flags = parser.parse_args()
    flags.output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(flags.seed)
    train = read(flags.train)
    model = network(biases=keras.initializers.Constant(log_frequencies(train)) if flags.frequencies else "zeros")
    if flags.first_weights and flags.first_weights.exists():
        first = np.load(flags.first_weights)
        for name, weight in variables(model).items():
            weight.assign(first[name])
    elif flags.first_weights:
        np.savez(flags.first_weights, **{name: weight.numpy() for name, weight in variables(model).items()})
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.PolynomialDecay(flags.rate, flags.steps, 0.0, POWER))

    @tf.function(reduce_retracing=True)
    def step(image, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, model(image, training=True))
        optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables))
        return value

    feed = (patches if flags.patches else volumes)(train, np.random.default_rng(flags.seed))
    for image, labels in itertools.islice(feed, flags.steps):
        step(tf.constant(image), tf.constant(labels))
    print(f"CPU seconds: {time.process_time():.1f}")
    for values, _, image in read(flags.test):
        name = Path(image.get_filename()).name.replace("volume", "segmentation")
        save(predict(model, values, flags.patches), image, flags.output / name)


if __name__ == "__main__":
    main()
