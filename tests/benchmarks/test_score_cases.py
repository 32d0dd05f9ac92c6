"""The benchmark of scores on a small case: a row is measured, and the case has a liver and lesions in both masks."""

import sys

import numpy as np
import pytest

from benchmarks import score_cases


def test_a_case_has_livers_and_lesions():
    reference, prediction, ct = score_cases.make_case((200, 160, 130), 3, seed=0)
    assert {*np.unique(reference)} == {*np.unique(prediction)} == {0, 1, 2}
    assert reference.shape == prediction.shape == ct.shape
    means = [ct[reference == label].mean() for label in range(3)]
    assert means == pytest.approx([-50, 110, 60], abs=2)


@pytest.mark.slow
def test_a_row_is_measured(monkeypatch, capsys):
    words = ["--shape", "200", "160", "130", "--lesions", "3", "--workers", "1"]
    monkeypatch.setattr(sys, "argv", ["score_cases", *words])
    score_cases.main()
    header, row = capsys.readouterr().out.splitlines()[-2:]
    assert header.split()[-2:] == ["over", "import"]
    workers, seconds, _, peak, over = map(float, row.split())
    assert workers == 1
    assert seconds > 0
    assert 0 < over < peak < 1
