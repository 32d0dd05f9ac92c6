"""Faults of evaluation/: overlaps, lesions, surfaces and official scores."""

from tests.mutants.mutant import mutants

_METRICS = "tests/evaluation/test_metrics.py tests/evaluation/test_scoring.py tests/evaluation/test_scoring_any.py"
_OFFICIAL = "tests/evaluation/test_official.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/evaluation/scoring/overlap.py",
        _METRICS,
        ("return self.prediction + self.reference - self.intersection", "return self.prediction + self.reference"),
        (
            "return 2 * self.intersection / total if total else 1.0",
            "return 2 * self.intersection / total if total else 0.0",
        ),
        ("return self.intersection / self.union if", "return self.intersection / self.reference if"),
        ("return 1.0 - self.jaccard", "return self.jaccard"),
        (
            "return (self.prediction - self.reference) / self.reference",
            "return (self.reference - self.prediction) / self.reference",
        ),
        ("return None if self.prediction else 0.0", "return 0.0"),
        ("(prediction & reference, prediction, reference)", "(prediction & reference, reference, prediction)"),
        (
            "tuple(np.where(excluded, background, labels) for labels in (prediction, reference))",
            "(prediction, np.where(excluded, background, reference))",
        ),
        ("return math.fsum(values) / len(values)", "return math.fsum(values) / max(1, len(values) - 1)"),
    ),
    *mutants(
        "mtf_imaging/evaluation/scoring/lesions.py",
        f"{_METRICS} tests/evaluation/test_score.py",
        ("low <= self.diameter < high", "low < self.diameter <= high"),
        ("self.overlap.intersection > 0 and self.overlap.jaccard > iou", "self.overlap.jaccard >= iou"),
        ("(counts.reference or counts.prediction)", "counts.prediction"),
        ("best = shared.argmax(axis=1)", "best = shared.argmin(axis=1)"),
        ("(6 * volume / np.pi) ** (1 / 3)", "(3 * volume / np.pi) ** (1 / 3)"),
        ("float(2 * (volume / np.pi) ** (1 / 2))", "float((volume / np.pi) ** (1 / 2))"),
    ),
    *mutants(
        "mtf_imaging/evaluation/scoring/surface.py",
        f"{_METRICS} {_OFFICIAL}",
        ("_CONNECTIVITY = 2", "_CONNECTIVITY = 1"),
        ("assd=float(both.mean())", "assd=float((there.mean() + back.mean()) / 2)"),
        ("np.sqrt(np.square(both).mean())", "np.sqrt(both.mean())"),
        ("mssd=float(both.max())", "mssd=float(there.max())"),
        ("float(max(np.percentile(there, 95), np.percentile(back, 95)))", "float(np.percentile(both, 95))"),
        ("both <= tolerance + _ROUNDING_MM", "both < tolerance - _ROUNDING_MM"),
        (
            "(voxels + [at.start for at in box]) * np.asarray(spacing",
            "(voxels + [at.start for at in box]) / np.asarray(spacing",
        ),
        (
            "planes[-2:], slab])",
            "planes[-1:], slab])",
            "",
            "tests/evaluation/test_scoring_slabs.py tests/evaluation/test_metrics.py",
        ),
    ),
    *mutants(
        "mtf_imaging/evaluation/scoring/official.py",
        _OFFICIAL,
        ('return 0.0 if mask == "liver" and not counts.prediction', "return 0.0 if not counts.prediction"),
        ("math.sqrt(mean(error**2 for error in errors))", "mean(abs(error) for error in errors)"),
        ("numbers = np.unique(detection.prediction)[1:]", "numbers = np.unique(detection.prediction)[2:]"),
        (
            "return lesion.reference / liver.reference - predicted",
            "return predicted - lesion.reference / liver.reference",
        ),
    ),
    *mutants(
        "mtf_imaging/evaluation/averaging/flips.py",
        "tests/evaluation/test_flips.py exact or symmetric or real_network",
        ("return np.flip(predict(np.flip(image, subset)), subset)", "return predict(np.flip(image, subset))"),
        ("for number in range(len(axes) + 1) for subset", "for number in range(len(axes)) for subset"),
        ("axes = [axis_names.index(name) for name in flips]", "axes = [2 - axis_names.index(name) for name in flips]"),
    ),
    *mutants(
        "mtf_imaging/evaluation/averaging/averages.py",
        "tests/evaluation/test_flips.py tests/test_doctests.py exact or averaging or modified or wider",
        ("total /= len(runs)", "total /= max(1, len(runs) - 1)"),
        ("np.array(result, np.promote_types(result.dtype, np.float32))", "np.asarray(result)"),
    ),
    *mutants(
        "mtf_imaging/kinds/photos/scoring/confusion.py",
        "tests/kinds/test_photos_scores.py",
        ("return self.counts.sum(axis=1)", "return self.counts.sum(axis=0)"),
        ("self.reference + self.prediction - self.correct", "self.reference + self.prediction"),
        ("_ratio(self.correct, self.reference)", "_ratio(self.correct, self.prediction)"),
        ("np.nansum(self.reference * self.iou)", "np.nansum(self.prediction * self.iou)"),
        ("counted = reference != ignore_label", "counted = prediction != ignore_label"),
        ("values[~np.isnan(values)]", "np.nan_to_num(values)"),
        (
            'pair["reference"].astype(np.int64) * num_classes + pair["prediction"]',
            'pair["prediction"].astype(np.int64) * num_classes + pair["reference"]',
        ),
    ),
    *mutants(
        "mtf_imaging/kinds/photos/scoring/boundary.py",
        "tests/kinds/test_photos_scores.py boundary or shifted or by_hand or missed or ignored",
        ("        is_boundary[upper] |= differs\n", ""),
        ("for axis in range(2):\n        lower", "for axis in range(1):\n        lower"),
        ("2 * precision * recall / (precision + recall)", "(precision + recall) / 2"),
        (
            "recall = _share_near(prediction, reference, pixels), _share_near(reference, prediction, pixels)",
            "recall = _share_near(prediction, reference, pixels), _share_near(prediction, reference, pixels)",
        ),
        ("distances <= pixels + _ROUNDING", "distances < pixels - _ROUNDING"),
        ("if not areas[1][label]:", "if not areas[0][label]:"),
    ),
    *mutants(
        "mtf_imaging/kinds/photos/resize.py",
        "tests/kinds/test_photos_infer.py resizing or scales",
        ("(np.arange(length) + 0.5) * (old / length) - 0.5", "np.arange(length) * (old / length)"),
        ("np.minimum(before + 1, old - 1)", "np.minimum(before, old - 1)"),
    ),
    *mutants(
        "mtf_imaging/kinds/photos/infer.py",
        "tests/kinds/test_photos_infer.py padded or flips or scales or float32",
        ("total /= len(scales)", "total /= 1"),
        ("return probabilities[:height, :width]", "return probabilities[-height:, -width:]"),
    ),
    *mutants(
        "mtf_imaging/evaluation/scoring/components.py",
        "tests/evaluation/test_scoring_slabs.py components or surface",
        ("            self._touching.append(_pairs(self._last, pieces[0])[:2])\n", "            pass\n"),
        ("self._last = pieces[-1].copy()", "self._last = pieces[0].copy()"),
        ("        pieces[inside] += self._count\n", ""),
        ("np.add.at(sizes, numbers, np.concatenate(self._sizes))", "sizes[numbers] = np.concatenate(self._sizes)"),
        ("            first += count\n", ""),
    ),
    *mutants(
        "mtf_imaging/kinds/objects/scoring/coco.py",
        "tests/kinds/test_objects_scores.py",
        ('"bbox": [x0, y0, x1 - x0, y1 - y0]', '"bbox": [y0, x0, y1 - y0, x1 - x0]'),
        ('"iscrowd": int(one.is_crowd)', '"iscrowd": 0'),
        ('"id": len(positions)', '"id": len(positions) - 1'),
        (
            'unused = "bbox" if what == MASKS else "segmentation"',
            'unused = "segmentation" if what == MASKS else "bbox"',
        ),
        ("return None if value < 0", "return None if value <= 0"),
        ("small, medium, large = 1, 2, 3", "small, medium, large = 0, 1, 2"),
    ),
    *mutants(
        "mtf_imaging/kinds/objects/infer.py",
        "tests/kinds/test_objects_infer.py boxes_are or sorted or pasted",
        ('np.argsort(-scores, kind="stable")', 'np.argsort(scores, kind="stable")'),
        ("(scores[order] > 0) & (classes[order] >= 0)", "(classes[order] >= 0)"),
        ("(scores[order] > 0) & (classes[order] >= 0)", "(scores[order] > 0)"),
        ('boxes = arrays["boxes"][order].astype', 'boxes = arrays["boxes"].astype'),
    ),
    *mutants(
        "mtf_imaging/kinds/objects/scoring/detections.py",
        "tests/kinds/test_objects_infer.py tests/kinds/test_objects_scores.py results or by_hand or pixels",
        ("(x0, y0, x1 - x0, y1 - y0)]", "(x0, y0, x1, y1)]"),
    ),
]
