"""Faults of data/: sampling, resampling, windows and augmentation."""

from tests.mutants.mutant import mutants

_SAMPLING = "tests/data/test_sampling.py tests/data/test_resample.py"
_WARP = "tests/data/test_warp.py tests/data/test_augmentation.py"
_PATCHES = "tests/data/test_patches.py"
_SMALL = "tests/data/test_small_faults.py sampled_labels or normal_values"

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
        ("tf.clip_by_value(at + 1.0, first, end + 1.0)", "tf.clip_by_value(at + 1.5, first, end + 1.0)"),
        (
            "nearest = floor + tf.cast(part + 0.5, tf.int32) - 1",
            "nearest = floor + tf.cast(part, tf.int32) - 1",
            "",
            _SMALL,
        ),
        (
            "tf.where(mirrored[axis], n - 1 - nearest, nearest)",
            "tf.where(mirrored[axis], n - nearest, nearest)",
            "",
            _SMALL,
        ),
        ("index + tf.cast(part + 0.5, tf.int32)) * stride", "index + tf.cast(part + 1.0, tf.int32)) * stride"),
        ("parts[depth] * (second - first)", "(1 - parts[depth]) * (second - first)"),
        ("for step in (0, strides[depth]))", "for step in (strides[depth], 0))"),
        ('draws.uniform("warp/zoom", -1.0, 1.0)', 'draws.uniform("warp/zoom", 0.0, 1.0)'),
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
    *mutants(
        "mtf_imaging/data/sampling/interpolation.py",
        "tests/data/test_resample.py tests/data/test_sampling.py linear or nearest or beyond or ramp or triangle",
        ("(np.arange(span.size) + 0.5) * span.length / span.size", "np.arange(span.size) * span.length / span.size"),
        (
            "np.clip(centers(span), 0, n - 1).astype(np.int64)",
            "np.clip(np.rint(centers(span)), 0, n - 1).astype(np.int64)",
        ),
        ("columns + 0.5 - middles[:, None]", "columns - middles[:, None]"),
        ("radius = max(1.0, span.step)", "radius = 1.0"),
        ("    values *= (columns >= 0) & (columns < n)\n", "    columns = np.clip(columns, 0, n - 1)\n"),
        ("middles = np.clip(centers(span), 0, n)", "middles = centers(span)"),
        ("along[inside.stop :] = value", "along[inside.stop + 1 :] = value"),
        ("along[: inside.start] = value", "pass"),
        (
            "key=lambda axis: spans[axis].size / shape[axis])",
            "key=lambda axis: shape[axis] / spans[axis].size)",
            "",
            "tests/data/test_resample.py tests/data/test_small_faults.py",
        ),
    ),
    *mutants(
        "mtf_imaging/data/sampling/regions.py",
        "tests/data/test_resample_region.py tests/test_doctests.py regions or region or read_once or beyond",
        ("slice(max(at - thickness, start), at) for at", "slice(at - thickness, at) for at"),
        ("slice(at, min(at + thickness, stop)) for at", "slice(at, at + thickness) for at"),
        ("slice(at.start - o.start, at.stop - o.start)", "slice(at.start - o.start, at.stop - o.stop)"),
        ("max(start, min(first.stop, second.stop))", "max(start, max(first.stop, second.stop))"),
    ),
    *mutants(
        "mtf_imaging/data/sampling/label_region.py",
        "tests/data/test_label_region.py",
        ("int(columns.max()) + 1)", "int(columns.max()))"),
        (
            "    labels[inside] = description.to_labels(probabilities)[inside]",
            "    labels[:] = description.to_labels(probabilities)",
            "",
            _SAMPLING,
        ),
        ("rows[:, source[axis].start : source[axis].stop]", "rows[:, : source[axis].stop - source[axis].start]"),
    ),
    *mutants(
        "mtf_imaging/data/images/orientation.py",
        "tests/data/test_orientation.py",
        (
            "np.average(rows, weights=bone) - np.average(rows, weights=body) >",
            "np.average(rows, weights=body) - np.average(rows, weights=bone) >",
        ),
        ("> _CLEARLY * depth)", "> 0)"),
        ("axis=0) for z in range(hu.shape[2]))", "axis=1) for z in range(hu.shape[2]))"),
    ),
    *mutants(
        "mtf_imaging/data/images/geometry.py",
        "tests/data/test_nifti.py tests/data/test_small_faults.py orient or geometry or region or stored or canonical",
        (
            "stored.append(at if direction > 0 else slice(size - at.stop, size - at.start))",
            "stored.append(at)",
        ),
        (
            "region[int(axis)] = at if direction > 0 else slice(length - at.stop, length - at.start)",
            "region[int(axis)] = at",
        ),
        (
            "orientations.ornt_transform(_RAS, self._orientation())",
            "orientations.ornt_transform(self._orientation(), _RAS)",
        ),
        ("return PlaneOrder(int(axis), bool(direction > 0))", "return PlaneOrder(int(axis), True)"),
        (
            "            shape[int(axis)] = size\n        return tuple(shape)",
            "            shape[2 - int(axis)] = size\n        return tuple(shape)",
        ),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/regions.py",
        "tests/data/test_augmentation_regions.py make_up or mirrored or own_voxels or larger_source or refused",
        ("- tf.reverse(bounds, [1])", "- bounds"),
        ("first = bounds_of(region)[:, 0] - start", "first = bounds_of(region)[:, 0]"),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/moves.py",
        "tests/data/test_augmentation_regions.py make_up or mirrored or own_voxels or labels_of_the_whole",
        ("            source = mirror_bounds(source, self.mirrored, self.sizes)\n", ""),
        (
            "tf.where(mirrored[axis], n - 1 - at, at)",
            "tf.where(mirrored[axis], n - at - 1, n - at - 1)",
            "",
            _SMALL,
        ),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/corruption.py",
        "tests/data/test_augmentation.py corruption",
        ("sampled_labels == 0", "sampled_labels > 0"),
        ("blank = (labels == 0) & (pattern(region) <= level)", "blank = pattern(region) <= level"),
        ("(pattern(region) <= level)", "(pattern(region) > level)"),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/intensity.py",
        "tests/data/test_augmentation.py darkened or gamma",
        ('draws.normal("class_shift/lesion", sd, -shift)', 'draws.normal("class_shift/lesion", sd, shift)'),
        ("tf.where(labels == _LESION, of_lesions, of_others)", "tf.where(labels == _LESION, of_others, of_lesions)"),
        (
            'draws.uniform("gamma", -widest, widest,',
            'draws.uniform("gamma", 0.0, widest,',
            "",
            "tests/data/test_augmentation.py tests/data/test_small_faults.py gamma",
        ),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/noise.py",
        "tests/data/test_augmentation.py tests/data/test_small_faults.py noise",
        ('draws.uniform(f"multiscale_noise/sd{name}", 0.0, largest)', "largest"),
        (
            'draws.chance("multiscale_noise", probability), noisy, lambda: image)',
            'draws.chance("multiscale_noise", probability), lambda: image, noisy)',
        ),
        ('if channel else f"{scale}"', 'if False else f"{scale}"'),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/normals.py",
        _SMALL,
        (
            "group, skipped = first // _GROUP, first % _GROUP",
            "group, skipped = first // _GROUP, 0 * first",
        ),
        ("run((number * rows + y.start) * row,", "run(number * rows * row,"),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/draws.py",
        "tests/data/test_augmentation.py draw or sample or numbers",
        (
            "tf.stack([tf.cast(seed, tf.int64), tf.cast(sample, tf.int64)])",
            "tf.stack([tf.cast(seed, tf.int64), tf.cast(seed, tf.int64)])",
        ),
        ("return self.uniform(name) < probability", "return self.uniform(name) > probability"),
    ),
    *mutants(
        "mtf_imaging/data/pixels/crop_axis.py",
        "tests/kinds/test_photos_batches.py scaled_photo or follow or places or keep",
        ("+ np.float32(0.5)) * ratio", "+ np.float32(0.0)) * ratio"),
        ("int(place * (scaled - count + 1))", "int(place * (scaled - count))"),
        ("count = min(scaled, size)", "count = size"),
    ),
    *mutants(
        "mtf_imaging/kinds/photos/augmentation.py",
        "tests/kinds/test_photos_batches.py evenly or flips",
        ("self.scale_step + 1e-6) + 1", "self.scale_step + 1e-6)"),
        ('draws.chance("flip", 0.5 if self.flip else 0.0)', 'draws.chance("flip", 0.0 if self.flip else 0.5)'),
        ('draws.uniform("scale") * len(scales)', 'draws.uniform("scale") * (len(scales) - 1)'),
    ),
    *mutants(
        "mtf_imaging/kinds/photos/reading/native.py",
        "tests/kinds/test_photos_native.py tests/test_doctests.py native or padding or padded or crop",
        ("-(-length // multiple) * multiple", "length // multiple * multiple"),
        ("padded[:] = description.padding", "padded[:] = 0"),
    ),
    *mutants(
        "mtf_imaging/kinds/objects/reading/masks.py",
        "tests/kinds/test_objects_masks.py",
        ("(np.arange(size) + 0.5) * ((high - low) / size) - 0.5", "np.arange(size) * ((high - low) / size)"),
        ("(inside + 0.5 - low) * (count / (high - low)) - 0.5", "(inside - low) * (count / (high - low))"),
        ("reshape(width, height).T", "reshape(height, width)"),
        ("np.arange(len(runs)) % 2 == 1", "np.arange(len(runs)) % 2 == 0"),
        ("interpolate(probabilities, *around) >= threshold", "interpolate(probabilities, *around) > threshold"),
        ("runs[-2] if len(runs) > 2 else 0", "runs[-2] if len(runs) > 1 else 0"),
    ),
    *mutants(
        "mtf_imaging/kinds/objects/reading/interpolation.py",
        "tests/kinds/test_objects_masks.py",
        ("np.minimum(before + 1, length - 1)", "np.minimum(before, length - 1)"),
        ("inside = np.clip(positions, 0, length - 1)", "inside = np.clip(positions, 0, length)"),
    ),
    *mutants(
        "mtf_imaging/kinds/objects/reading/native.py",
        "tests/kinds/test_objects_batches.py tests/kinds/test_objects_infer.py fit or boxes_are or pasted",
        ("return min(size[0] / height, size[1] / width)", "return max(size[0] / height, size[1] / width)"),
        ("boxes / np.array([*scale, *scale])", "boxes * np.array([*scale, *scale])"),
        ("np.array([height, width, height, width])", "np.array([width, height, width, height])"),
    ),
    *mutants(
        "mtf_imaging/kinds/prediction_record.py",
        "tests/kinds/test_prediction_record.py",
        ("complete = complete and found == entry", "complete = found == entry"),
        ("if present and not self._overwrite:", "if not present and not self._overwrite:"),
        ("if found is not None and found != entry", "if found is None and found != entry"),
        ("if number < len(lines) - 1 or number == 0:", "if number < len(lines) - 2:"),
        ("self._entries |= {self._name(path): {} for path in existing}", "pass"),
        ("self._append({self._name(path): {} for path in outputs})", "pass"),
    ),
    *mutants(
        "mtf_imaging/data/records/patches.py",
        _PATCHES,
        ("if draws[0] < self._patches.centered:", "if draws[0] > self._patches.centered:"),
        (
            "center - np.array(self._patches.sizes) // 2, 0, free",
            "center - np.array(self._patches.sizes) // 2, 1, free",
        ),
        ("np.floor(draws[4:] * (free + 1))", "np.floor(draws[4:] * free)"),
        ("weights = np.array([*self._weights.values()]) * has_label", "weights = blocks.counts.sum(axis=0)"),
        ("_choose(blocks.counts[:, column], draws[1])", "_choose(blocks.counts.sum(axis=1), draws[1])"),
        ("int(draws[2] * len(inside))", "int(draws[0] * len(inside))"),
        ("int(at) + along.start", "int(at)"),
        ('Draws(self._seed, sample).seed("patch")', 'Draws(self._seed, tf.zeros([], tf.int64)).seed("patch")'),
    ),
    *mutants(
        "mtf_imaging/data/records/samples.py",
        _PATCHES,
        ("tf.gather(self._grids, case) - corner], 1)", "tf.gather(self._grids, case)], 1)"),
        ('around["within"] = tf.stack([-corner,', 'around["within"] = tf.stack([tf.zeros_like(corner),'),
        (
            "label_bounds = whole if self._corners is None else _both(bounds, whole)",
            "label_bounds = _both(bounds, bounds)",
        ),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/recipe.py",
        _PATCHES,
        ("tf.slice(stored, source[:, 0] - start,", "tf.slice(stored, source[:, 0],"),
        ("tf.slice(stored, -start, sizes)", "stored"),
    ),
    *mutants(
        "mtf_imaging/data/augmentation/moves.py",
        _PATCHES,
        ("            within = mirror_bounds(within, self.mirrored, self.sizes)\n", "            pass\n"),
    ),
]
