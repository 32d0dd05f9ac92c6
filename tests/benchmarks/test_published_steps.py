"""The tables of docs/evidence/published_steps.md are those of the cost model."""

import sys
from pathlib import Path

import pytest

from benchmarks import published_steps

PAGE = Path(__file__).parents[2] / "docs/evidence/published_steps.md"


def printed(monkeypatch, capsys, *flags):
    monkeypatch.setattr(sys, "argv", ["published_steps", *flags])
    published_steps.main()
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("model", ["retinanet", "unet3d", "mask_rcnn"])
def test_the_page_shows_the_tables_of_the_program(model, monkeypatch, capsys):
    assert f"\n\n{printed(monkeypatch, capsys, '--model', model)}\n" in PAGE.read_text()


@pytest.mark.slow
def test_a_schedule_costs_its_hours_on_all_cores(monkeypatch, capsys):
    monkeypatch.setattr(published_steps, "MASK_RCNN", published_steps.Setup((128, 128), 2, "cores:2", "batch:cores"))
    monkeypatch.setattr(published_steps, "SCHEDULES", {"12": 1, "24": 2})
    flags = ("--model", "mask_rcnn", "--on_demand", "3", "--preemptible", "1")
    rows = [line.split(" | ") for line in printed(monkeypatch, capsys, *flags).splitlines()[2:]]
    for short, long in (rows[:2], rows[2:]):
        assert float(long[4]) == pytest.approx(2 * float(short[4]), rel=0.01)
        for row in (short, long):
            assert float(row[5]) == pytest.approx(float(row[4]) * 2 * 3, rel=0.01)
            assert float(row[6]) == pytest.approx(float(row[4]) * 2 * 1, rel=0.02)
