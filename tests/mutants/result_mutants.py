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
        "mtf_imaging/files/provenance/content.py",
        "tests/files/test_content.py",
        (
            "text = value if isinstance(value, str | bytes) else repr(value)",
            'text = f"{value:.9g}" if type(value) is float else str(value)',
        ),
        ("hashlib.sha256(own.data).digest()", "repr(own).encode()"),
        ("zip(code.co_freevars, value.__closure__ or (), strict=True)", "()"),
        ("read = {name: value.__globals__[name] for", "read = {name: None for"),
        ("[one.co_code, one.co_exceptiontable, names, counts]", "[names, counts]"),
        ("state = [value.__defaults__, value.__kwdefaults__, cells", "state = [value.__kwdefaults__, cells"),
        ("[value.__qualname__, value.__bases__, own]", "[value.__qualname__, value.__bases__]"),
        ('("set", *sorted(', '("set", *('),
        ("if not _is_cached(type(value), name)", ""),
    ),
    *mutants(
        "mtf_imaging/data/listing/image_files.py",
        "tests/jobs/test_verifying.py image",
        ("return sorted({path, read_itk_header(path).data})", "return [path]"),
        ("    if is_itk(path):", '    if path.suffix == ".mhd":'),
    ),
    *mutants(
        "mtf_imaging/jobs/verifying.py",
        "tests/jobs/test_verifying.py changed_or_missing or other_runs or predictions",
        ("if self._digest(path) == item.sha256:", "if True:"),
        (
            "            found = [path for path in found if item.run in (path.parent.name, path.parent.parent.name)]",
            "            pass",
        ),
        ("folders = [item.folder] if item.folder else self._folders", "folders = self._folders"),
    ),
    *mutants(
        "mtf_imaging/cli/commands/verify.py",
        "tests/jobs/test_verifying.py exits",
        ("sum(one.status != OK for one in every)", "0"),
    ),
    *mutants(
        "mtf_imaging/jobs/runs/inference.py",
        "tests/jobs/test_identity.py meanwhile",
        ("trained_run(run, own.checkpoint, path))", "trained_run(run, own.checkpoint))"),
    ),
    *mutants(
        "mtf_imaging/training/checkpoints/checkpoints.py",
        "tests/jobs/test_identity.py damaged",
        ("if what is not Restored.EVERYTHING or not older:", "if not older:"),
    ),
    *mutants(
        "mtf_imaging/jobs/predicting.py",
        "tests/jobs/test_identity.py meanwhile or other_code",
        ("if network is not None and restored != runs:", "if False:"),
        ("identity(value, name) for name", "name for name"),
    ),
    *mutants(
        "mtf_imaging/kinds/prediction_record.py",
        "tests/kinds/test_prediction_record.py image",
        ('if entry.get("input") != now:', "if False:"),
    ),
    *mutants(
        "mtf_imaging/evaluation/cleanup/rule_text.py",
        "tests/evaluation/test_mask_rules.py",
        ("full=neighbors == 26", "full=False"),
        ("full=neighbors == 26", "full=True", "", "tests/evaluation/test_cleanup.py"),
        ('"labels": [*self.labels]', '"labels": [*self.labels[:1]]'),
    ),
    *mutants(
        "mtf_imaging/evaluation/cleanup/choosing.py",
        "tests/evaluation/test_mask_rules.py",
        ("mean(before.values()) + _GAIN", "mean(before.values()) - _GAIN"),
        ("if not has_fallen and mean(", "if mean("),
        ("for n in numbers if n not in part]", "for n in numbers]"),
    ),
    *mutants(
        "mtf_imaging/inference/uncertainty.py",
        "tests/evaluation/test_maps.py",
        ("terms = terms + scipy.special.entr(np.clip(1 - values, 0, 1))", "terms = 2 * terms"),
        ("0, information)\n", "0, 2 * information)\n"),
        ("probabilities(plane[..., :-1])", "probabilities(plane)"),
    ),
    *mutants(
        "mtf_imaging/training/observers/tracking/tracker.py",
        "tests/training/test_tracking.py",
        ("if row.step > last[row.group]]", "if True]"),
        ("or step == self._num_steps - 1", ""),
        ("                self._send([row", "                0 and self._send([row"),
    ),
]
