"""The benchmark of predictions: the parts of the time, and a complete run."""

import concurrent.futures
import time

import pytest

from benchmarks import prediction_speed


def _work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_parts_exclude_those_within_them_and_the_first_case_does_not_count():
    parts = prediction_speed.Parts()
    resample = parts.timed(_work, "resampling")

    def write():
        _work(0.02)
        resample(0.04)

    write = parts.timed(write, "writing")
    for number in range(4):
        parts.begin_case()
        _work(0.06 if number else 0.5)  # the network
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            thread.submit(write).result()
    result = parts.result()
    assert result["writing"] == pytest.approx(0.02, abs=0.01)
    assert result["resampling"] == pytest.approx(0.04, abs=0.01)
    assert result["network"] == pytest.approx(0.06, abs=0.02)
    assert result["elapsed"] > 0.11


@pytest.mark.slow
def test_a_complete_run(capsys):
    words = ["--shape", "20", "20", "16", "--resolution", "16", "--cases", "3", "--rounds", "1"]
    prediction_speed.main([*words, "--rows", "whole,plain whole"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[0] for row in rows] == ["whole", "plain whole"]
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        total = float(cells["processor seconds"])
        assert sum(float(cells[part].split()[0]) for part in prediction_speed.PARTS) == pytest.approx(total, abs=0.03)
