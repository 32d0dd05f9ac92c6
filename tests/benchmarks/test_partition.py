"""The benchmark of layouts: its command line, the summary of measurements, and complete runs."""

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import performance_picture
from benchmarks.partition import __main__ as command
from benchmarks.partition import plot, summary, table
from benchmarks.partition.compare import unequal
from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import Step
from benchmarks.partition.plan import comparisons
from benchmarks.partition.process import Process, WorkerError
from tests import waiting


def run(*words):
    return command.main([str(word) for word in words])


@pytest.mark.parametrize(
    ("word", "contender"),
    [
        ("tf", Contender("tf")),
        ("2x2", Contender("stacked", (2, 2))),
        ("stacked:16", Contender("stacked", (16,))),
        ("placement:2x2x2", Contender("placement", (2, 2, 2))),
        ("2x2@127", Contender("stacked", (2, 2), (127, 127, 127))),
        ("placement:2@127x64x5", Contender("placement", (2,), (127, 64, 5))),
    ],
)
def test_a_contender_is_read_as_it_is_written(word, contender):
    assert Contender.parse(word) == contender == Contender.parse(str(contender))


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--contenders=2x2,2xb"], "'2xb' is not a mesh of one to three positive integers, such as 2x2"),
        (["--contenders=tf:2x2"], "'tf' takes no mesh; write 'tf'"),
        (["--contenders=stacked"], "'' is not a mesh"),
        (["--contenders=nobody:2"], "'nobody' is not a kind of contender; choose from tf, stacked"),
        (["--contenders=0x2"], "'0x2' is not a mesh"),
        (["--contenders=2x2@12x13"], "'12x13' is not a volume of one or three positive integers"),
        (["--contenders=2x2@x"], "'x' is not a volume"),
        (["--networks=N3"], "'N3' is not known; choose from N1, N2"),
        (["--resolution=64,64"], "'64,64' has 2 numbers; give one or three"),
        (["--resolution=64,x,64"], "'x' is not a positive integer"),
        (["--python=torch=nowhere"], "'torch=nowhere' is not KIND=PATH"),
        (["--show=nowhere.json"], "No such file or directory: 'nowhere.json'"),
        (["--rounds=0"], "'0' is not a positive integer"),
    ],
)
def test_invalid_arguments_are_refused(words, fault, capsys):
    with pytest.raises(SystemExit) as end:
        run(*words)
    assert end.value.code == 2
    assert fault in capsys.readouterr().err


def test_a_contender_may_have_a_volume_of_its_own():
    step = Step("N1", (16, 16, 16))
    assert Contender.parse("2@9x8x7").step(step) == dataclasses.replace(step, sizes=(9, 8, 7))
    assert Contender.parse("2").step(step) is step


def test_the_mesh_and_the_layout_of_a_contender():
    contender = Contender.parse("4x1x2")
    assert contender.processors == 8
    assert contender.mesh_shape == "rows:4,cols:1,planes:2"
    assert contender.layout == "x:rows,y:cols,z:planes"


def row(name, kind, steps, peak=200, **fields):
    return {
        "contender": name,
        "kind": kind,
        "error": None,
        "steps_s": steps,
        "base_bytes": 100,
        "peak_bytes": peak,
        **fields,
    }


def test_ratios_are_of_rounds_that_both_took():
    drift = np.linspace(1, 5, 21)  # of the machine, the same for both
    rows = [row("tf", "tf", list(drift)), row("2x2", "stacked", list(1.5 * drift), peak=250), row("4", "stacked", [3])]
    step = Step("N1", (10, 10, 5))
    summary.summarize(step, rows, matrix_product_rate=step.flops)
    reference, slower, short = rows
    assert reference["ratio"] == 1
    assert reference["quartiles_s"] == [2, 3, 4]
    assert reference["ns_a_voxel"] == pytest.approx(3e9 / 500)
    assert reference["flop_rate"] == pytest.approx(step.flops / 3)
    assert slower["flop_rate_ratio"] == pytest.approx(1 / 4.5)
    assert slower["ratio"] == pytest.approx(1.5)
    assert slower["ratio_interval"] == pytest.approx([1.5, 1.5])  # the drift is not noise
    assert (slower["memory_ratio"], slower["over_import_ratio"]) == (1.25, 1.5)
    assert "ratio" not in short


def test_the_operations_of_a_step_are_those_of_its_convolutions():
    step = Step("N1", (4, 4, 4), base_filters=2, depth=2, convs=1)
    fine = 2 * 27 * 1 * 2 + 3 * 27 * 4 * 2 + 3 * 2 * 3  # down0 without the gradient of the image, up0 and classes
    coarse = 3 * 27 * 2 * 4 + 3 * 8 * 2 * 4  # down1 and grow0
    assert step.flops == 2 * (64 * fine + 8 * coarse)


def test_the_memory_of_the_computing_process_counts():
    others = {"others_base_bytes": {"a": 100, "b": 100}, "others_bytes": {"a": 130, "b": 140}}
    rows = [row("tf", "tf", [1.0]), row("collective:3", "collective", [1.0], **others)]
    summary.summarize(Step("N1", (10, 10, 5)), rows)
    assert (rows[1]["memory_bytes"], rows[1]["over_import_bytes"]) == (140, 40)
    assert rows[1]["over_import_ratio"] == 0.4


def test_different_losses_are_faults_only_if_results_must_be_equal():
    rows = [row("2x2", "stacked", [1.0], loss_differs=[1e-6, 2e-4]), row("x", "nohalo", [1.0], loss_differs=[0.1, 0.1])]
    (fault,) = unequal(Step("N1", (8, 8, 8)), rows)
    assert "2x2: the first two losses differ from those of tf by 2.0e-04" in fault
    assert not unequal(Step("N1", (8, 8, 8), dtype="bfloat16"), rows)


def process(folder, script):
    """Returns the process of a contender that runs a shell script instead."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Process(Contender("tf"), Step("N1", (8, 8, 8)), str(path))


def test_a_process_answers_and_its_last_words_are_told(tmp_path):
    asked = process(
        tmp_path, """read word; echo "{\\"said\\": \\"$word\\"}"; read word; echo noise >&2; echo why >&2"""
    )
    assert asked.ask("load", 60.0) == {"said": "load"}
    with pytest.raises(WorkerError, match=r"^build: why$"):
        asked.ask("build", 60.0)


def test_an_exception_is_told_from_its_first_line_on(tmp_path):
    lines = [
        "noise",
        "Traceback (most recent call last):",
        '  File "a.py"',
        "    code",
        "LayoutError: 2 faults:",
        "  one",
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    asked = process(tmp_path, f"read word; cat {tmp_path}/log >&2")
    with pytest.raises(WorkerError, match=r"^load: LayoutError: 2 faults: one$"):
        asked.ask("load", 60.0)


@pytest.mark.parametrize("script", ["exec sleep 600", "sleep 600 & exec sleep 600", "printf '{'; exec sleep 600"])
def test_a_process_that_takes_too_long_is_ended(tmp_path, script):
    asked = process(tmp_path, script)
    begin = time.monotonic()
    with pytest.raises(WorkerError, match=r"^build: not done after 0\.2 s"):
        asked.ask("build", 0.2)
    assert time.monotonic() - begin < waiting.PATIENCE


TINY = ["--resolution=16", "--base_filters=2", "--depth=2", "--convs=1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "contenders"),
    [
        ("N1", "2x2,nohalo:2x2,upstream:2,16x16"),
        ("N2", "placement:2"),
    ],
)
def test_a_run_compares_equal_networks_and_writes_its_results(network, contenders, tmp_path, capsys):
    words = [f"--networks={network}", f"--contenders={contenders}", *TINY, "--rounds=3", f"--output_dir={tmp_path}"]
    assert run(*words) == 0
    result = json.loads((tmp_path / "partition.json").read_text())
    (comparison,) = result["comparisons"]
    rows = {row["contender"]: row for row in comparison["rows"]}
    assert len(rows) == len(contenders.split(",")) + 1
    for name, row in rows.items():
        assert row["error"] is None, name
        assert len(row["steps_s"]) == 3
        assert row["nodes"] > 100
        assert row["memory_bytes"] > row["over_import_bytes"] > 0
        is_wrong = row["kind"] == "nohalo"  # it omits the halos
        assert (max(row["loss_differs"]) > 1e-5) == is_wrong, name
    assert (tmp_path / "partition.png").stat().st_size > 1000
    text = (tmp_path / "partition.md").read_text()
    assert text == table.markdown(result)
    assert text in capsys.readouterr().out


@pytest.mark.slow
def test_processes_report_their_peak_memory(tmp_path):
    words = ["--networks=N1", "--contenders=collective:2", *TINY, "--rounds=1", f"--output_dir={tmp_path}"]
    assert run(*words) == 0
    (comparison,) = json.loads((tmp_path / "partition.json").read_text())["comparisons"]
    row = comparison["rows"][-1]
    assert row["contender"] == "collective:2"
    assert max(row["loss_differs"]) < 1e-5
    assert row["others_bytes"] == {"process 1": row["memory_bytes"]}
    assert row["memory_bytes"] > row["over_import_bytes"] > 0


def test_weak_scaling_has_one_cube_per_processor():
    parse = command._parser().parse_args
    plans = list(comparisons(parse(["--networks=N1", "--weak=16"])))
    assert [plan.step.sizes for plan in plans][:3] == [(16, 16, 16), (32, 16, 16), (32, 32, 16)]
    assert list(map(str, plans[1].contenders)) == ["tf", "stacked:2x1"]
    assert list(map(str, plans[4].contenders)) == ["tf", "stacked:4x4"]


def test_the_number_of_contenders_in_memory_is_limited():
    words = ["--networks=N1,N2", "--contenders=2x2,tf,4x4,2x2,16x16,collective:2x2", "--together=2"]
    plans = list(comparisons(command._parser().parse_args(words)))
    first = [["tf", "stacked:2x2", "stacked:4x4"], ["tf", "stacked:16x16", "collective:2x2"]]
    assert [list(map(str, plan.contenders)) for plan in plans] == first * 2
    assert [plan.step.network for plan in plans] == ["N1", "N1", "N2", "N2"]


def test_groups_of_one_step_are_one_table():
    step = {"step": {"sizes": [8, 8, 8]}, "title": "N1"}
    names = [["tf", "2x2"], ["tf", "4x4"]]
    result = {"comparisons": [{**step, "rows": [row(name, name, [1.0]) for name in group]} for group in names]}
    assert [name for name, _ in table.groups(result)["N1"]] == ["tf", "2x2", "4x4"]


def test_a_result_can_be_shown_again(tmp_path, capsys):
    rows = [row("tf", "tf", [1.0, 2.0]), row("2x2", "stacked", [2.0, 2.0], error="step: not done after 2 s")]
    summary.summarize(Step("N1", (10, 10, 5)), rows)
    result = {
        "command": "python -m benchmarks.partition",
        "began": "2026-01-01 00:00+00:00",
        "machine": {"processor": "a processor", "cores": 2, "memory_gib": 4, "gpus": ["a GPU"], "system": "Linux"},
        "versions": {"tensorflow": "2"},
        "comparisons": [{"title": "N1, small", "step": {"sizes": [8, 8, 8]}, "rows": rows, "unequal": []}],
    }
    (tmp_path / "old.json").write_text(json.dumps(result))
    assert run("--show", tmp_path / "old.json", "--output_dir", tmp_path) == 0
    out = capsys.readouterr().out
    assert "a processor, 2 cores, 4 GiB, a GPU; Linux; tensorflow 2; 2026" in out
    assert "- 2x2: step: not done after 2 s" in out
    assert (tmp_path / "partition.png").is_file()


def test_the_picture_shows_every_row_of_the_tables_in_words():
    bars = performance_picture.read_bars(Path("docs/evidence/performance.md").read_text())
    assert [title.split(",")[0] for title in bars] == ["N1", "N2", "N2", "N2"]
    assert all(bar.interval[0] <= bar.time <= bar.interval[1] and bar.memory for rows in bars.values() for bar in rows)
    assert [plot.describe(bar.contender) for bar in next(iter(bars.values()))] == [
        "not split",
        "2 x 2",
        "2 x 2 x 2",
        "16 x 16",
        "2 x 2, one device each",
    ]
    assert plot.describe("127 x 127 x 127, stacked:2x2@127") == "2 x 2, 127 x 127 x 127 voxels"
    assert plot.describe("collective:4x4") == "4 x 4, in 16 processes"
