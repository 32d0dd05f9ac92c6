"""Faults of data/: sampling, resampling, windows and augmentation."""

from tests.mutants.mutant import mutants

_SAMPLING = "tests/data/test_sampling.py tests/data/test_resample.py"
_WARP = "tests/data/test_warp.py tests/data/test_augmentation.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/data/intensity.py",
        "tests/data/test_intensities.py tests/test_doctests.py intensity or window",
        ("hu /= np.float32(high - low)", "hu /= np.float32(high + low)"),
        ("np.clip(hu, 0, 1, out=hu)", "np.clip(hu, 0, 2, out=hu)"),
    ),
    *mutants(
        "mtf_imaging/data/sampling/sampling.py",
        _SAMPLING,
        ("math.floor(-self.start / self.step + SLIVER)", "math.floor(-self.start / self.step + 0.5)"),
        ("math.ceil((n - self.start) / self.step - SLIVER)", "math.floor((n - self.start) / self.step - SLIVER)"),
        (
            "return Span(self.start + voxels.start * self.step, size * self.step, size)",
            "return Span(self.start, size * self.step, size)",
        ),
        (
            "return Span(-self.start / self.step, n * self.size / self.length, n)",
            "return Span(self.start / self.step, n * self.size / self.length, n)",
        ),
        ("step = mm / own", "step = own / mm"),
        ("math.floor((g - n / step) / 2 + SLIVER)", "math.floor((g - n / step) + SLIVER)"),
        ("Span(-before * step, g * step, g)", "Span(-before * step + step / 2, g * step, g)"),
        ("tuple(Span(0.0, n, g) for n, g", "tuple(Span(0.5, n, g) for n, g"),
        ("math.ceil(voxels / multiple) * multiple", "math.floor(voxels / multiple) * multiple"),
        ("math.ceil(n * mine / mm - SLIVER)", "math.ceil(n * mm / mine - SLIVER)"),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/warp.py",
        _WARP,
        ("tf.clip_by_value(at + 1.0, 0.0, n + 1.0)", "tf.clip_by_value(at + 1.5, 0.0, n + 1.0)"),
        ("nearest = floor + tf.cast(part + 0.5, tf.int32) - 1", "nearest = floor + tf.cast(part, tf.int32) - 1"),
        ("tf.where(mirrored[axis], n - 1 - nearest, nearest)", "tf.where(mirrored[axis], n - nearest, nearest)"),
        ("index + tf.cast(part + 0.5, tf.int32)) * stride", "index + tf.cast(part + 1.0, tf.int32)) * stride"),
        ("parts[depth] * (second - first)", "(1 - parts[depth]) * (second - first)"),
        ("for step in (0, strides[depth]))", "for step in (strides[depth], 0))"),
        ("return _turn(angles) / factor, moved, bends", "return _turn(angles) * factor, moved, bends"),
        ("np.radians(rotation)", "np.degrees(rotation)"),
        (
            "            [cos, -sin, none],\n            [sin, cos, none],",
            "            [cos, sin, none],\n            [-sin, cos, none],",
        ),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/coordinates.py",
        _WARP,
        ("self.center = (np.array(sizes, np.float32) - 1) / 2", "self.center = np.array(sizes, np.float32) / 2"),
        (
            "along_x = self.from_center[0][:, None] * self.affine[:, 0]",
            "along_x = self.from_center[0][:, None] * self.affine[0]",
        ),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/mirror.py",
        "tests/data/test_augmentation.py mirror or flip or turn or half or left",
        ("< 0.5 if name in flips else never", "< 0.5 if name not in flips else never"),
        (
            "axes = tf.boolean_mask(tf.range(len(AXIS_NAMES)), mirrored)",
            "axes = tf.boolean_mask(tf.range(len(AXIS_NAMES))[::-1], mirrored)",
        ),
        ("turned if name in _TRANSVERSE else never", "turned if name not in _TRANSVERSE else never"),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/smooth.py",
        "tests/data/test_augmentation.py tests/test_doctests.py smooth or spline or bias or field",
        (
            "np.clip((positions + 0.5) / n * points - 0.5, 0, points - 1)",
            "np.clip(positions / n * points, 0, points - 1)",
        ),
        ("at = (positions + 0.5) / n * (points - 3) + 1", "at = positions / n * (points - 3) + 1"),
        ("np.maximum(2 - distance, 0) ** 3 / 6", "np.maximum(2 - distance, 0) ** 3 / 4"),
    ),
]
