"""The benchmark of predictions: the parts of the time, and a complete run."""

import time

import pytest

from benchmarks import prediction_speed


def _work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_part_within_another_one_interrupts_it_and_the_first_case_does_not_count():
    parts = prediction_speed.Parts()
    network = parts.timed(_work, "network")

    def write():
        _work(0.02)
        network(0.04)

    write = parts.timed(write, "writing")
    for _ in range(3):
        network(0.06)
        parts.end_case()
        write()
    parts.end_case()
    result = parts.result()
    assert result["writing"] == pytest.approx(0.02, abs=0.01)
    assert result["network"] == pytest.approx(0.08, abs=0.02)  # 3 times 0.04 and 2 times 0.06 for 3 cases
    assert result["elapsed"] > 0.09


@pytest.mark.slow
def test_a_complete_run(capsys):
    words = ["--shape", "20", "20", "16", "--resolution", "16", "--cases", "2", "--rounds", "1"]
    prediction_speed.main([*words, "--rows", "whole,plain whole"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[0] for row in rows] == ["whole", "plain whole"]
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        total = float(cells["processor seconds a case"])
        assert sum(float(cells[part].split()[0]) for part in prediction_speed.PARTS) == pytest.approx(total, abs=0.03)
