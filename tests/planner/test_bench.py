"""The bench: the answers and failures of worker processes, comparisons and tables."""

import functools
import json
import math
import pickle
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.errors import MtfImagingError
from mtf_imaging.planner.bench import worker
from mtf_imaging.planner.bench.compare import Row, measure, unequal
from mtf_imaging.planner.bench.machine import Convolution, Kernels, Machine
from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.bench.process import Process
from mtf_imaging.planner.bench.subject import Setup, random_batch
from mtf_imaging.planner.bench.table import as_dict, text
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.planner.cost.recipe import Recipe
from mtf_imaging.training.gradients import FORWARD
from mtf_imaging.training.step import TracedStep
from tests.planner import bench_workers

SIZES = {"fx": 3, "fy": 3, "fz": 3, "channels": 1, "out": 1}
KERNEL = mi.mtf.Shape([mi.mtf.Dimension(*dim) for dim in SIZES.items()])
SPLIT = Setup("2x2", Layout.parse("rows:2,cols:2", "x:rows,y:cols"))


HARDWARE = Hardware("this machine", 2**30, 1e9, 1e9, 1e9, 1e-6, share=1.0)


def plan_of(shape):
    def step(image):
        return mi.mtf.reduce_sum(mi.ops.conv3d(image, mi.mtf.get_variable(image.mesh, "w", KERNEL)))

    traced = trace_only(step, {"image": shape})
    phases = dict.fromkeys(traced.needed, FORWARD)
    return make_plan(TracedStep(traced, phases, 1, 1), SPLIT.layout, devices=1)


@pytest.fixture(scope="module")
def plan():
    return plan_of("batch:1,x:8,y:8,z:4,channels:1")


def measured(*workers, rounds=2):
    """Measures one setup for each worker function and returns the rows."""
    rows = [Row(Setup(serve.__name__)) for serve in workers]
    processes = iter([functools.partial(Process, dict, serve) for serve in workers])
    measure(rows, lambda: next(processes)(), rounds, 0, say=lambda text: None, done=lambda: None)
    return rows


@pytest.mark.slow
def test_a_dead_worker_becomes_an_error_and_the_others_continue(plan):
    workers = (bench_workers.killed, bench_workers.failing, bench_workers.short_of_memory, bench_workers.good)
    killed, failing, short, good = measured(*workers)
    assert killed.error == (
        "its process was ended by SIGKILL, usually because the system ran out of memory. Fix: measure fewer setups at "
        "a time, because all of them stay in memory, or lower the resolution"
    )
    assert failing.error == "KeyError: 'bug'"
    assert short.error.startswith("out of memory")
    assert (good.error, good.steps, good.ratios, good.seconds) == (None, [0.25, 0.25], [1.0, 1.0], 0.25)
    good.plan = plan
    shown = text(Bench([killed, failing, short, good], HARDWARE, "float32", 1, 1))
    assert "\nfailing: not measured: KeyError: 'bug'\n" in shown
    assert "\nshort_of_memory: not measured: out of memory: so it is. ...\n" in shown


@pytest.mark.slow
def test_a_wrong_result_is_caught():
    rows = measured(bench_workers.good, bench_workers.wrong, rounds=1)
    (difference,) = unequal(rows, "float32")
    assert difference == (
        "the first loss is 2.1 under wrong and 2 under good: the relative difference is 5.0e-02, above the tolerance "
        "1e-05 of float32"
    )
    assert as_dict(Bench(rows, HARDWARE, "float32", 1, 1, (difference,)))["equal"] is False


@pytest.mark.parametrize(
    ("dtype", "off", "caught"),
    [
        ("float32", (9e-6, 1e-2), 0),
        ("float32", (2e-5, 3e-2), 2),
        ("float64", (2e-9, 0), 1),
        ("bfloat16", (1e-2, 5e-2), 0),
        ("bfloat16", (3e-2, 0), 1),
        ("float32", (math.nan, 0), 1),
        ("float32", (0, math.inf), 1),
    ],
)
def test_tolerances_depend_on_the_dtype(dtype, off, caught):
    rows = [Row(SPLIT, loss=2.0, gradient_norm=5.0), Row(SPLIT), Row(SPLIT, loss=2 + 2 * off[0])]
    rows[2].gradient_norm = 5 + 5 * off[1]
    assert len(unequal(rows, dtype)) == caught


def test_the_table_compares_the_model_with_the_measurements(plan):
    row = Row(
        SPLIT, plan=plan, build=1.5, devices=["/device:CPU:0"], held=108, moved=plan.moved, peak=4000, tensors=2000
    )
    row.loss, row.gradient_norm, row.steps, row.ratios = 2.0, 5.0, [0.3, 0.2, 0.4], [1.0, 1.1, 0.9]
    bench = Bench([row], HARDWARE, "float32", 1, 1)
    (found,) = json.loads(json.dumps(as_dict(bench)))["setups"]
    assert (found["step_seconds"], found["ratio"], found["memory_bytes"]) == (0.3, 1.0, 4000)
    assert found["modelled"]["moved_bytes"] == found["moved_bytes"] > 0
    assert found["modelled"]["memory_bytes"] == plan.peak.nbytes  # the weights exist before the step
    errors = {"step": found["modelled"]["seconds"] / 0.3}
    errors |= {"tensors": plan.peak.nbytes / 2000, "memory": plan.peak.nbytes / 4000}
    assert found["modelled_by_measured"] == errors
    shown = text(bench)
    said = ", ".join(f"{what} {error:.2f}" for what, error in errors.items())
    assert f"model / measured, mean of all setups: {said}" in shown
    assert "all processors share it, so the model counts no traffic over links" in shown


def test_the_table_marks_uneven_slices(plan):
    rows = [Row(SPLIT, plan=plan_of("batch:1,x:7,y:8,z:4,channels:1"), build=1.0, devices=["/device:CPU:0"])]
    rows.append(Row(Setup("even", SPLIT.layout), plan=plan, build=1.0, devices=["/device:CPU:0"]))
    for row in rows:
        row.loss, row.gradient_norm, row.steps, row.ratios = 2.0, 5.0, [0.3], [1.0]
    shown = text(Bench(rows, HARDWARE, "float32", 1, 1)).splitlines()
    assert [line.split("  ")[0] for line in shown[5:7]] == ["2x2 *", "even"]
    (note,) = [line for line in shown if line.startswith("* 2x2 has uneven slices, which waste ")]
    assert note.endswith(f" {rows[0].plan.wasted:.1%} of the work: x: 7 over rows:2 -> slices of 4, last 3")
    assert rows[0].plan.wasted == pytest.approx(1 / 8, abs=0.02)


@pytest.mark.parametrize(
    ("names", "devices"),
    [
        (["/device:CPU:0"], 1),
        (["/device:CPU:0", "/device:CPU:1"], 1),  # logical devices of one machine
        (["/device:GPU:0", "/device:GPU:1"], 2),
    ],
)
def test_the_training_follows_from_the_measured_step(plan, names, devices):
    row = Row(SPLIT, plan=plan, build=1.0, devices=names, steps=[0.3, 0.2, 0.4], ratios=[1.0, 1.0, 1.0])
    row.loss, row.gradient_norm = 2.0, 5.0
    bench = Bench([row, Row(SPLIT, error="illegal")], HARDWARE, "float32", 6, 1, recipe=Recipe(36_000, 2.0))
    found, failed = json.loads(json.dumps(as_dict(bench)))["setups"]
    assert found["recipe"] == {
        "step_time": "measured",
        "steps_per_second": pytest.approx(1 / 0.3),
        "images_per_second": pytest.approx(20),
        "devices": devices,
        "num_steps": 36_000,
        "hours": pytest.approx(3),
        "device_hours": pytest.approx(3 * devices),
        "price_per_hour": 2.0,
        "cost": pytest.approx(6 * devices),
        "cost_per_1000_steps": pytest.approx(devices / 6),
    }
    assert failed["recipe"] is None
    assert "\nhours: 36,000 steps of the measured time, without start-up, " in text(bench)


def test_random_batches_are_the_same_for_all():
    inputs = {"image": ("batch:2,x:4,channels:1", tf.bfloat16), "labels": ("batch:2,x:4", tf.int32)}
    batch, again = random_batch(inputs, seed=3), random_batch(inputs, seed=3)
    assert batch["image"].shape == (2, 4, 1)
    assert batch["image"].dtype == tf.bfloat16.as_numpy_dtype
    assert set(np.unique(batch["labels"])) <= {0, 1}
    assert batch["labels"].dtype == np.int32
    assert all((batch[name] == again[name]).all() for name in batch)
    assert (random_batch(inputs, seed=4)["image"] != batch["image"]).any()


class _Broken:
    def build(self):
        raise ValueError("Graph execution error:\n\nDetected at node Conv3D\n<stack traces gone>\nno primitive\n[[x]]")

    def first(self):
        raise MtfImagingError("so it is.\n  Fix: none")


def test_a_worker_reports_errors_and_continues(monkeypatch, tmp_path):
    (tmp_path / "log").touch()
    monkeypatch.setattr(worker, "Answers", lambda subject: subject)
    monkeypatch.setattr(worker, "prepare", lambda log: None)
    words = iter([("build", ()), ("first", ())])
    said = []
    connection = mock.Mock(send=said.append, recv=mock.Mock(side_effect=[*words, EOFError]))
    worker.serve(connection, str(tmp_path / "log"), pickle.dumps((None, _Broken())))
    assert said == [{"error": "ValueError: no primitive"}, {"error": "so it is.\n  Fix: none"}]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "groups"), [([3, 3, 1, 4], 4), ([3, 3, 3, 2, 4], 2)])
def test_the_speed_of_a_grouped_convolution_can_be_measured(kernel, groups):
    image = [1, *[8] * (len(kernel) - 2), kernel[-2] * groups]
    shapes = Convolution(tuple(image), tuple(kernel), (1,) * (len(kernel) - 2))
    machine = Machine(Kernels({shapes: 1}, 2**20), "float32")
    machine.sample()
    hardware = machine.hardware()
    assert min(hardware.flops, hardware.achieved_bandwidth, hardware.link) > 0
