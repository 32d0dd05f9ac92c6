"""The estimated size of a step's graph, compared with real graphs, and the warning about placement."""

import json

import pytest

from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.explaining import explain
from mtf_imaging.jobs.steps.costs import explain_step
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.planner.cost.start_up import num_nodes
from mtf_imaging.planner.render.as_json import as_dict
from mtf_imaging.planner.render.text import text
from mtf_imaging.training.optimizers import SGD, Adafactor, Adam
from mtf_imaging.training.step import TrainingStep

GRID = Layout.parse("rows:2,cols:2", "x:rows,y:cols")


def step_of(optimizer=None, size=16, **network):
    network = {"base_filters": 2, "depth": 2, "dropout_rate": 0.0} | network
    return TrainingStep(LiverTumorSegmentation(UNet3D(**network)), optimizer or SGD(), (size,) * 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "network", "layout", "devices"),
    [
        (SGD, {}, Layout(), 1),
        (SGD, {"dropout_rate": 0.5, "depth": 3}, GRID, 1),
        (Adam, {"norm": "instance"}, GRID, 2),
        (Adafactor, {}, GRID, 4),
    ],
)
def test_the_estimate_is_near_the_size_of_the_graph(optimizer, network, layout, devices):
    step, names = step_of(optimizer(), **network), [f"CPU:{n}" for n in range(devices)]
    plan = make_plan(step.trace(layout, names), layout, devices)
    mesh_impl = "placement" if devices > 1 else "stacked"
    actual = step.build(layout, mesh_impl, names).program.num_nodes
    assert num_nodes(plan, mesh_impl, devices) == pytest.approx(actual, rel=0.3)


def explained_for(mesh_shape, layout, **options):
    return explain_step(step_of(size=64, base_filters=4), Layout.parse(mesh_shape, layout), **options)


def test_only_the_graph_of_placement_grows_with_the_devices():
    few = explained_for("rows:2", "x:rows").start_ups
    many = explained_for("rows:16", "x:rows").start_ups
    assert few.keys() == {"stacked", "placement", "collective"}
    assert 6.5 < many["placement"].nodes / few["placement"].nodes < 8
    for name in ("stacked", "collective"):
        assert many[name].nodes == few[name].nodes
    assert few["collective"].nodes < few["placement"].nodes
    assert many["collective"].host_memory == 16 * many["collective"].process_memory
    assert explained_for("rows:16", "x:rows", num_hosts=2).start_ups["collective"].host_memory == (
        8 * many["collective"].process_memory
    )


def test_a_process_holds_the_batch_and_the_variables():
    small, large = (explain_step(step_of(size=size), GRID).start_ups["stacked"] for size in (16, 32))
    voxels = 32**3 - 16**3
    assert large.process_memory - small.process_memory == voxels * (4 + 4), "an image and its labels"
    plan = explain_step(step_of(Adam()), GRID).plan
    assert plan.variables > 3 * sum(op.nbytes for op in plan.ops if op.kind == "Variable" and "fx:3" in op.whole) / 4


def test_a_warning_where_placement_would_not_start_in_reasonable_time():
    large = explained_for("rows:32,cols:32", "x:rows,y:cols")
    assert large.start_ups["placement"].seconds > 600
    assert not large.start_ups["collective"].takes_too_long
    (notice,) = [line for line in text(large).splitlines() if "notice: placement" in line]
    assert notice.endswith("Fix: use mesh_impl collective.")
    assert "notice: placement" not in text(explained_for("rows:32,cols:32", "x:rows,y:cols", mesh_impl="collective"))
    assert "notice: placement" not in text(explained_for("rows:2", "x:rows"))


def test_the_text_shows_hosts_and_start_up():
    shown = text(explained_for("rows:4", "x:rows", num_hosts=2)).splitlines()
    at = next(n for n, line in enumerate(shown) if line.startswith("start-up"))
    assert shown[at].split()[2:] == ["stacked", "placement", "collective"]
    assert [line.split("  ")[1] for line in shown[at + 1 : at + 5]] == [
        "nodes per process",
        "time to start",
        "memory per process",
        "memory per host",
    ]
    assert len({len(line) for line in shown[at : at + 5]}) == 1, "aligned"
    (between,) = [line for line in shown if "between 2 hosts of 2 devices: " in line]
    assert between
    assert "  transport: ring; sums travel around a ring" in shown


def test_the_json_has_the_same_facts():
    found = json.loads(json.dumps(as_dict(explained_for("rows:4", "x:rows", num_hosts=2))))
    assert found["interconnect"].keys() == {
        "mesh_impl",
        "num_hosts",
        "devices_a_host",
        "transport",
        "bytes_within_hosts",
        "bytes_between_hosts",
    }
    assert found["interconnect"]["mesh_impl"] == "collective", "auto on several hosts"
    assert found["interconnect"]["bytes_between_hosts"] > 0
    assert found["start_up"].keys() == {"stacked", "placement", "collective"}
    assert found["start_up"]["placement"]["nodes"] > found["start_up"]["collective"]["nodes"]
    assert sum(op["memory_bytes_a_device"] for op in found["operations"]) > 0


def test_explain_takes_hosts_and_a_mesh_implementation():
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2))
    options = {"task": task, "resolution": 16, "layout": GRID}
    assert explain(**options).plan.interconnect.mesh_impl == "placement"
    assert explain(**options, mesh_impl="stacked").plan.devices == 1
    assert explain(**options, num_hosts=2).plan.interconnect.devices_per_host == 2
    with pytest.raises(ConfigError, match="num_hosts is 3, which does not divide the 4 devices"):
        explain(**options, num_hosts=3)
