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
]
