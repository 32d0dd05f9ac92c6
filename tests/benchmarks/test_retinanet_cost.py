"""The table of docs/evidence/detection.md is that of the cost model."""

import sys
from pathlib import Path

import pytest

from benchmarks import retinanet_cost
from mtf_imaging.planner.cost.hardware import find_hardware

PAGE = Path(__file__).parents[2] / "docs/evidence/detection.md"


@pytest.mark.slow
def test_the_page_shows_the_table_of_the_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["retinanet_cost"])
    retinanet_cost.main()
    assert f"\n\n{capsys.readouterr().out}\n" in PAGE.read_text()


@pytest.mark.slow
def test_a_row_for_another_device(monkeypatch, capsys):
    setup = retinanet_cost.Setup(128, 2, "rows:2", "height:rows", "910 ms")
    monkeypatch.setattr(retinanet_cost, "SETUPS", [setup])
    monkeypatch.setattr(sys, "argv", ["retinanet_cost", "--hardware", "h100", "--price_per_hour", "2"])
    retinanet_cost.main()
    head, _, shown = capsys.readouterr().out.splitlines()
    explained = retinanet_cost.explain(setup, find_hardware("h100"), 2.0)
    cells = retinanet_cost.row(setup, explained, published=False)
    assert shown == f"| {' | '.join(cells)} |"
    assert head.count("|") == shown.count("|")
    assert head.endswith("| hours | cost |")
    assert float(cells[-1]) == pytest.approx(float(cells[-2]) * 2 * 2, rel=0.01)
