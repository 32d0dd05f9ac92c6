"""Faults of what results state: provenance, rules for components, uncertainty, and experiment trackers."""

from tests.mutants.mutant import mutants

MUTANTS = [
    *mutants(
        "mtf_imaging/cli/config/run_config.py",
        "tests/training/test_job.py",
        ("if read_gin_text([], [saved]).bound == read_gin_text([], [text]).bound:", "if False:"),
        ("if read_gin_text([], [saved]).bound == read_gin_text([], [text]).bound:", "if True:"),
    ),
    *mutants(
        "mtf_imaging/files/provenance/provenance.py",
        "tests/files/test_provenance.py",
        (".decode()[:_NOTE_BYTES]", ".decode()"),
        (
            "dataclasses.replace(self, files=files, rules={**self.rules, **rules})",
            "dataclasses.replace(self, files=files)",
        ),
    ),
    *mutants(
        "mtf_imaging/files/provenance/digests.py",
        "tests/files/test_provenance.py tests/test_doctests.py provenance",
        ("rows = sorted(", "rows = list("),
    ),
    *mutants(
        "mtf_imaging/evaluation/mask_rules/rule.py",
        "tests/evaluation/test_mask_rules.py",
        ("else volumes >= self.volume", "else volumes > self.volume"),
        ("is_one_of(labels[region], self.labels)), full=True", "is_one_of(labels[region], self.labels)), full=False"),
        ("return touches if self.kind == INSIDE", "return ~touches if self.kind == INSIDE"),
    ),
    *mutants(
        "mtf_imaging/evaluation/mask_rules/choosing.py",
        "tests/evaluation/test_mask_rules.py",
        ("mean(before.values()) + _GAIN", "mean(before.values()) - _GAIN"),
        ("if not has_fallen and mean(", "if mean("),
        ("for n in numbers if n not in part]", "for n in numbers]"),
    ),
    *mutants(
        "mtf_imaging/evaluation/averaging/uncertainty.py",
        "tests/evaluation/test_maps.py",
        ("terms = terms + entr(np.clip(1 - values, 0, 1))", "terms = 2 * terms"),
        ("0, information)\n", "0, 2 * information)\n"),
        ("entropy(plane[..., :-1], has_regions)", "entropy(plane, has_regions)"),
    ),
    *mutants(
        "mtf_imaging/training/observers/tracking/tracker.py",
        "tests/training/test_tracking.py",
        ("if row.step > last[row.group]]", "if True]"),
        ("or step == self._num_steps - 1", ""),
        ("                self._send([row", "                0 and self._send([row"),
    ),
]
