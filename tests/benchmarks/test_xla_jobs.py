"""The losses of shipped jobs, compiled by XLA; the benchmark compares all jobs."""

import pytest

from benchmarks import xla_jobs


@pytest.mark.slow
def test_jobs_that_xla_compiles_have_the_same_losses(capsys):
    xla_jobs.main(["classify_4way", "unet3d_lits_1gpu"])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["`classify_4way`", "2"], ["`unet3d_lits_1gpu`", "2"]]
    assert all(float(row[2]) < 1e-5 for row in rows)
