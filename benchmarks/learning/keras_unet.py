"""A U-Net for livers and their tumors in plain Keras: what a user would write without this package.

    python benchmarks/learning/keras_unet.py --train FOLDER --test FOLDER --output FOLDER --steps 300 [--patches]

It does not use this package. The network is the one in the job `unet3d_real_ct`, with batch norms, and has 350,827
weights. Cases are read with nibabel, reoriented to RAS, and not resampled. Training takes whole
volumes, padded to multiples of 8, or patches of 64 x 64 x 32 voxels, every third of which has a labeled voxel in its
center, as in nnU-Net. The program writes segmentations of the test cases, and, at each snapshot, a row of
`snapshots.csv`: step, CPU seconds of the training so far, and the mean Dice of liver and lesion.
"""

import argparse
import csv
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


def network(pool=keras.layers.MaxPooling3D):
    """Returns a U-Net: [batch, x, y, z, 1] -> logits [batch, x, y, z, classes]. `pool` halves sizes."""
    image = keras.Input((None, None, None, 1))
    x, skips = image, []
    for level in range(LEVELS):
        if level:
            skips.append(x)
            x = pool(2, name=f"pool{level}")(x)
        x = _block(x, f"down{level}", FILTERS * 2**level)
    for level in reversed(range(LEVELS - 1)):
        x = keras.layers.Conv3DTranspose(FILTERS * 2**level, 2, 2, kernel_initializer="he_normal", name=f"grow{level}")(
            x
        )
        x = _block(keras.layers.Concatenate()([x, skips.pop()]), f"up{level}", FILTERS * 2**level)
    return keras.Model(image, keras.layers.Conv3D(CLASSES, 1, kernel_initializer="he_normal", name="classes")(x))


def _block(x, name, filters):
    for i in range(2):
        x = keras.layers.Conv3D(
            filters, 3, padding="same", use_bias=False, kernel_initializer="he_normal", name=f"{name}_conv{i}"
        )(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-6, name=f"{name}_norm{i}")(x)
        x = keras.layers.LeakyReLU(negative_slope=0.1)(x)
    return x


def loss(labels, logits, smooth=1.0):
    """Returns the cross entropy plus the mean Dice loss of liver and lesion."""
    entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    p, t = tf.nn.softmax(logits)[..., 1:], tf.one_hot(labels, CLASSES, dtype=logits.dtype)[..., 1:]
    axes = [0, 1, 2, 3]
    dice = (2 * tf.reduce_sum(p * t, axes) + smooth) / (tf.reduce_sum(p, axes) + tf.reduce_sum(t, axes) + smooth)
    return entropy + 1 - tf.reduce_mean(dice)


def read(folder):
    """Returns (name, CT in 0..1 [x, y, z], labels or None, file) of each case, in RAS."""
    cases = []
    for path in sorted(Path(folder).glob("volume-*.nii*")):
        image = nibabel.load(path)
        values = (np.asarray(nibabel.as_closest_canonical(image).dataobj, np.float32) - LOW) / (HIGH - LOW)
        (mask,) = Path(folder).glob(path.name.replace("volume", "segmentation").split(".")[0] + ".nii*")
        labels = np.asarray(nibabel.as_closest_canonical(nibabel.load(mask)).dataobj).astype(np.int32)
        cases.append((mask.name, np.clip(values, 0, 1), labels, image))
    return cases


def padded(array, sizes, value=0):
    """Pads an array at its ends to at least `sizes`."""
    return np.pad(array, [(0, max(0, m - n)) for n, m in zip(array.shape, sizes)], constant_values=value)


def batches(cases, patches, rng):
    """Yields (image [1, x, y, z, 1], labels [1, x, y, z]); all cases once per epoch."""
    multiple = [max(-(-case[1].shape[axis] // 8) * 8 for case in cases) for axis in range(3)]
    while True:
        for number, index in enumerate(rng.permutation(len(cases))):
            _, image, labels, _ = cases[index]
            image, labels = (padded(array, PATCH if patches else multiple) for array in (image, labels))
            if patches:
                start = [rng.integers(n - size + 1) for n, size in zip(image.shape, PATCH)]
                if number % 3 == 0 and labels.any():
                    values = np.unique(labels[labels > 0])
                    voxels = np.argwhere(labels == rng.choice(values))
                    center = voxels[rng.integers(len(voxels))]
                    start = [np.clip(c - s // 2, 0, n - s) for c, s, n in zip(center, PATCH, image.shape)]
                box = tuple(slice(at, at + size) for at, size in zip(start, PATCH))
                image, labels = image[box], labels[box]
            image = (image - 0.5) * rng.uniform(0.9, 1.1) + 0.5 + rng.uniform(-0.05, 0.05)
            yield image[None, ..., None].astype(np.float32), labels[None]


def predict(model, image, patches):
    """Returns the labels of a case, [x, y, z]."""
    shape = image.shape
    if not patches:
        image = padded(image, [-(-n // 8) * 8 for n in shape])
        return np.argmax(model(image[None, ..., None], training=False)[0], -1)[tuple(map(slice, shape))]
    image = padded(image, PATCH)
    total = np.zeros((*image.shape, CLASSES), np.float32)
    starts = [
        np.unique(np.linspace(0, n - size, -(-2 * (n - size) // size) + 1).astype(int))
        for n, size in zip(image.shape, PATCH)
    ]
    for start in itertools.product(*starts):
        box = tuple(slice(at, at + size) for at, size in zip(start, PATCH))
        total[box] += tf.nn.softmax(model(image[box][None, ..., None], training=False)[0])
    return np.argmax(total, -1)[tuple(map(slice, shape))]


def save(labels, image, path):
    """Saves RAS labels in the orientation of their image file."""
    ras = nibabel.orientations.io_orientation(nibabel.as_closest_canonical(image).affine)
    stored = nibabel.orientations.ornt_transform(ras, nibabel.io_orientation(image.affine))
    labels = nibabel.orientations.apply_orientation(labels.astype(np.uint8), stored)
    nibabel.save(nibabel.Nifti1Image(labels, image.affine), path)


def dice(labels, reference):
    """Returns the Dice of the liver, which includes its lesions, and of the lesions."""
    pairs = [(labels > 0, reference > 0), (labels == 2, reference == 2)]
    return [2 * (a & b).sum() / (a.sum() + b.sum()) if (a | b).any() else 1.0 for a, b in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--train", "--test", "--output"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--snapshots", type=int, default=0, help="number of times to score the test cases")
    parser.add_argument("--patches", action="store_true", help="train on patches instead of whole volumes")
    flags = parser.parse_args()
    flags.output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(flags.seed)
    train, test = read(flags.train), read(flags.test)
    model = network()
    rate = keras.optimizers.schedules.PolynomialDecay(RATE, flags.steps, 0.0, POWER)
    optimizer = keras.optimizers.Adam(rate)

    @tf.function(reduce_retracing=True)
    def step(image, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, model(image, training=True))
        optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables))
        return value

    scored, rows = 0.0, []
    feed = batches(train, flags.patches, np.random.default_rng(flags.seed))
    for number, (image, labels) in zip(range(1, flags.steps + 1), feed):
        step(tf.constant(image), tf.constant(labels))
        if flags.snapshots and number % max(1, flags.steps // flags.snapshots) == 0:
            before = time.process_time()
            scores = [dice(predict(model, case[1], flags.patches), case[2]) for case in test]
            rows.append([number, round(before - scored, 1), *np.mean(scores, axis=0).round(4)])
            scored += time.process_time() - before
    print(f"CPU seconds: {time.process_time() - scored:.1f}")
    with open(flags.output / "snapshots.csv", "w", newline="") as file:
        csv.writer(file).writerows([["step", "cpu_seconds", "liver", "lesion"], *rows])
    for name, values, _, image in test if flags.snapshots else []:
        save(predict(model, values, flags.patches), image, flags.output / name)


if __name__ == "__main__":
    main()
