"""The benchmark of waiting for data on small records: it measures a row for each state of the page cache."""

import re
import sys

import pytest

from benchmarks import input_wait


@pytest.mark.slow
def test_a_row_for_each_cache(tmp_path, monkeypatch, capsys):
    options = {"size": 16, "batch_sizes": 1, "augmentations": "flips", "steps": 1}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["input_wait.py", *words, "--records", str(tmp_path)])
    input_wait.main()
    title, head, *rows = capsys.readouterr().out.splitlines()[-4:]
    assert title == "float32, 16^3"
    assert head.split() == ["batch", "augmentation", "cache", "data", "alone", "step", "waits", "share"]
    assert [row.split()[:3] for row in rows] == [["1", "flips", "cold"], ["1", "flips", "warm"]]
    assert all(re.search(r" \d+\.\d\d%$", row) for row in rows)
