"""Compares the kernels that operations call on their slices with loops over taps in float64, for random small shapes.

TensorFlow's kernels of one dtype can agree with each other and be wrong, so the reference is NumPy. Run
`python -m tests.engine.ops.kernel_scan [CASES]` for more cases than the tests run.
"""

import dataclasses
import gc
import math
import sys

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.ops.conv import grouped
from mtf_imaging.engine.ops.pool import local as local_pool

DTYPES = {"float32": 2**-23, "float64": 2**-52, "bfloat16": 2**-8, "float16": 2**-11}  # spacing of numbers after 1
POOLS = ("max", "mean")
CONVS = ("conv", "grouped", "depthwise")
TOLERANCE = 16  # in units of rounding errors


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The arguments of a kernel: a row of a table."""

    kind: str
    dtype: str
    batch: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    inputs: int
    outputs: int

    def tap_slices(self):
        """Yields (tap, the voxels that it reads in a padded tensor)."""
        for tap in np.ndindex(self.kernel):
            firsts = [t * d for t, d in zip(tap, self.dilations, strict=True)]
            ends = [b + (n - 1) * s + 1 for b, n, s in zip(firsts, self.windows, self.strides, strict=True)]
            along = [slice(*each) for each in zip(firsts, ends, self.strides, strict=True)]
            yield tap, (slice(None), *along)

    @property
    def extents(self):
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def windows(self):
        """The number of windows along each dimension."""
        rows = zip(self.sizes, self.extents, self.strides, strict=True)
        return [-(-n // s) if self.padding == "SAME" else (n - e) // s + 1 for n, e, s in rows]

    @property
    def pads(self):
        """The padding of TensorFlow, (before, after) for each dimension of `x`."""
        rows = zip(self.sizes, self.extents, self.strides, self.windows, strict=True)
        missing = [max(0, (o - 1) * s + e - n) if self.padding == "SAME" else 0 for n, e, s, o in rows]
        return [(0, 0), *((m // 2, m - m // 2) for m in missing), (0, 0)]

    @property
    def groups(self):
        return {"conv": 1, "grouped": 2, "depthwise": self.inputs}.get(self.kind, 1)


def random_shapes(rng):
    """Draws the shapes of one case; at least one window fits."""
    kind = str(rng.choice(CONVS + POOLS, p=[0.5, 0.1, 0.1, 0.15, 0.15]))
    ndims = int(rng.integers(2 if kind in ("grouped", "depthwise") else 1, 4))
    dtype = str(rng.choice(list(DTYPES), p=[0.55, 0.1, 0.2, 0.15]))
    sizes, kernel, strides = (tuple(int(n) for n in rng.integers(1, most, ndims)) for most in (7, 4, 4))
    dilated = kind in CONVS and rng.random() < 0.2
    dilations = tuple(int(d) for d in rng.integers(1, 3, ndims)) if dilated else (1,) * ndims
    padding = "VALID" if kind in POOLS else str(rng.choice(["SAME", "VALID"]))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if padding == "VALID":
        sizes = tuple(max(n, e) for n, e in zip(sizes, extents, strict=True))
    elif any(s > e for s, e in zip(strides, extents, strict=True)):
        padding, sizes = "VALID", tuple(max(n, e) for n, e in zip(sizes, extents, strict=True))
    inputs, outputs = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    if kind == "grouped":
        inputs, outputs = 4, int(rng.choice([2, 4]))
    if kind == "depthwise":
        inputs = max(2, inputs)
        outputs = inputs * int(rng.integers(1, 3))
    return Shapes(kind, dtype, int(rng.integers(1, 3)), sizes, kernel, strides, dilations, padding, inputs, outputs)


def _conv_by_hand(case, x, f, dy):
    """Returns the convolution of `x` with `f`, and the gradients with respect to both."""
    padded = np.pad(x, case.pads)
    y, dx, df = np.zeros(dy.shape), np.zeros(padded.shape), np.zeros(f.shape)
    groups = [
        (slice(g * f.shape[-2], (g + 1) * f.shape[-2]), slice(g * n, (g + 1) * n))
        for n in [case.outputs // case.groups]
        for g in range(case.groups)
    ]
    for tap, voxels in case.tap_slices():
        for ins, outs in groups:
            read, own = padded[voxels][..., ins], f[tap][:, outs]
            y[..., outs] += read @ own
            dx[(*voxels, ins)] += dy[..., outs] @ own.T
            df[tap][:, outs] = np.tensordot(read, dy[..., outs], [range(dy.ndim - 1)] * 2)
    kept = tuple(slice(before, before + n) for (before, _), n in zip(case.pads, x.shape, strict=True))
    return y, dx[kept], df


def _pool_by_hand(case, x, dy):
    """Returns the pool of `x` and its gradient; the first of the largest voxels gets the gradient."""
    taps = [voxels for _, voxels in case.tap_slices()]
    values, dx = np.stack([x[voxels] for voxels in taps]), np.zeros(x.shape)
    if case.kind == "mean":
        for voxels in taps:
            dx[voxels] += dy / len(taps)
        return values.mean(0), dx
    first = values.argmax(0)
    for tap, voxels in enumerate(taps):
        dx[voxels] += np.where(first == tap, dy, 0)
    return values.max(0), dx


def _random(rng, shape, dtype):
    """Returns a tensor and the float64 array of its values."""
    x = tf.cast(tf.constant(rng.standard_normal(shape)), dtype)
    return x, x.numpy().astype(np.float64)


def errors(case, rng):
    """Returns {result: its largest error}, in units of the rounding error of the largest result."""
    x_shape = [case.batch, *case.sizes, case.inputs]
    y_shape = [case.batch, *case.windows, case.inputs if case.kind in POOLS else case.outputs]
    x, x64 = _random(rng, x_shape, case.dtype)
    dy, dy64 = _random(rng, y_shape, case.dtype)
    if case.kind == "max":  # different numbers, because TensorFlow's kernels break ties in different ways
        voxels = np.tile(np.arange(math.prod(case.sizes)), [case.batch, case.inputs, 1]) - 100
        x64 = np.moveaxis(rng.permuted(voxels, axis=-1).reshape([case.batch, case.inputs, *case.sizes]), 1, -1)
        x64 = x64.astype(np.float64)
        x = tf.constant(x64, case.dtype)
    if case.kind in POOLS:
        names, args = ("y", "dx"), (case.kernel, case.strides)
        pool, grad = getattr(local_pool, f"{case.kind}_pool"), getattr(local_pool, f"{case.kind}_pool_grad")
        fns = [lambda: pool(x, *args), lambda: grad(x if case.kind == "max" else x_shape, dy, *args)]
        expected, sizes = _pool_by_hand(case, x64, dy64), _pool_by_hand(case, np.abs(x64), np.abs(dy64))
    else:
        names, args = ("y", "dx", "df"), (case.strides, case.padding, case.dilations)
        f_shape = [*case.kernel, case.inputs // case.groups, case.outputs]
        f, f64 = _random(rng, f_shape, case.dtype)
        fns = [
            lambda: grouped.conv(x, f, *args),
            lambda: grouped.conv_input_grad(x_shape, f, dy, *args),
            lambda: grouped.conv_filter_grad(x, f_shape, dy, *args),
        ]
        expected = _conv_by_hand(case, x64, f64, dy64)
        sizes = _conv_by_hand(case, np.abs(x64), np.abs(f64), np.abs(dy64))
    result = {}
    for name, fn, wanted, size in zip(names, fns, expected, sizes, strict=True):
        garbage = [tf.fill([n], tf.constant(1e30, tf.float32)) for n in (16, 64, 256, 1024)]
        del garbage  # kernels that read memory outside their input find these numbers there
        y = np.asarray(fn(), np.float64)
        assert y.shape == wanted.shape, (case, name, y.shape, wanted.shape)
        error = np.abs(y - wanted).max() / (DTYPES[case.dtype] * max(np.abs(size).max(), 1e-3))
        result[name] = error if math.isfinite(error) else math.inf
    return result


def scan(number, seed=0):
    """Yields (case, {result: error}) for the cases of `number` in which an error exceeds the tolerance."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        case = random_shapes(rng)
        wrong = {name: error for name, error in errors(case, rng).items() if error > TOLERANCE}
        if wrong:
            yield case, wrong
        if i % 10_000 == 0:
            gc.collect()


if __name__ == "__main__":
    found = 0
    for case, wrong in scan(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000):
        print(case, wrong, flush=True)
        found += 1
    print(f"{found} cases are wrong")
    sys.exit(bool(found))
