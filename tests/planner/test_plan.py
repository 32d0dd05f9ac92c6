"""The cost model of `explain`, compared with hand-computed and measured numbers."""

import math

import pytest

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.program.program import Program
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.jobs.steps.costs import explain_step
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.cost.hardware import find_hardware
from mtf_imaging.planner.cost.interconnect import Interconnect
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.planner.cost.step_time import step_time, traffic_totals
from mtf_imaging.planner.cost.uneven import LIMIT, growing_halos
from mtf_imaging.planner.render.text import text
from mtf_imaging.training.gradients import FORWARD
from mtf_imaging.training.optimizers import SGD, Adafactor, Adam
from mtf_imaging.training.step import TracedStep, TrainingStep, training_step
from mtf_imaging.training.task import task_inputs

MIB = 2**20


def plan_of(size, mesh_shape="", layout="", *, devices=None, num_hosts=1, mesh_impl="placement", step=None, **network):
    """Returns the plan of a step of a U-Net in bfloat16 with Adafactor; `step` replaces arguments of `TrainingStep`."""
    names, split = [f"device:{n}" for n in range(devices or 512)], Layout.parse(mesh_shape, layout)
    task = LiverTumorSegmentation(UNet3D(**network))
    options = {"task": task, "optimizer": Adafactor(), "sizes": (size,) * 3, "dtype": "bfloat16"} | (step or {})
    return make_plan(
        TrainingStep(**options).trace(split, names), split, devices, num_hosts=num_hosts, mesh_impl=mesh_impl
    )


def convolutions(plan):
    """Returns the 3 x 3 x 3 convolutions of the forward pass."""
    convs = [op for op in plan.ops if op.phase == "forward" and op.kind == "conv3d"]
    return [op for op in convs if any(map(sum, op.halo.values()))]


@pytest.mark.parametrize(
    ("size", "mesh_shape", "layout", "mib"),
    [(512, "rows:16,cols:16", "x:rows,y:cols", 64.4), (128, "rows:8", "x:rows", 30.4)],
)
def test_halos_of_the_papers_network(size, mesh_shape, layout, mib):
    """The expected bytes send the inputs of all convolutions forward and backward; the plan may send less backward."""
    plan = plan_of(size, mesh_shape, layout)
    of_inputs = sum(op.sent(plan.interior, plan.grid.mesh) for op in convolutions(plan))
    assert 2 * of_inputs / MIB == pytest.approx(mib, abs=0.05)
    sent = plan.sent(plan.interior) / MIB
    assert 0.9 * mib < sent < mib
    assert plan.sent(plan.border) == plan.sent(plan.interior) / 2, "a corner has half the neighbors"
    assert len(convolutions(plan)) == 14


def test_a_step_computes_each_convolution_three_times():
    channels = [(1, 4), (4, 4), (4, 8), (8, 8), (12 - 4, 4), (4, 4)]  # up0: 4 from the skip and 4 upsampled
    by_hand = sum(2 * 27 * i * o * (32**3 if o == 4 else 16**3) for i, o in channels)
    by_hand += 2 * 8 * 8 * 4 * 16**3 + 2 * 4 * 3 * 32**3  # transposed convolution, classes
    plan = plan_of(32, base_filters=4, depth=2, dropout_rate=0.0)
    flops = {
        phase: plan.total(lambda op: op.flops if op.kind.startswith("conv") else 0, phase)
        for phase in ("forward", "backward")
    }
    assert flops["forward"] == by_hand
    assert flops["backward"] == 2 * by_hand - 2 * 27 * 4 * 32**3, "the gradient of the image is not computed"


def test_a_layout_splits_work_and_memory():
    options = {"base_filters": 4, "depth": 3, "step": {"dtype": "float32"}}
    whole, split = plan_of(64, **options), plan_of(64, "rows:2,cols:2", "x:rows,y:cols", **options)
    convs = [plan.total(lambda op: op.flops if op.kind.startswith("conv") else 0) for plan in (whole, split)]
    assert convs[0] == 4 * convs[1]
    assert whole.peak.nbytes / 4 < split.peak.nbytes < whole.peak.nbytes / 4 * 1.2, "halos take memory, too"
    assert (whole.sent(whole.interior), whole.count(("sum",))) == (0, 0)
    together = plan_of(64, "rows:2,cols:2", "x:rows,y:cols", devices=1, **options)
    assert (together.devices, together.grid.stack_size) == (1, 4)
    assert 3.9 * split.peak.nbytes < together.peak.nbytes <= 4 * split.peak.nbytes, "a device keeps its weights once"


def test_recomputation_and_micro_batches_need_less_memory():
    whole = plan_of(64, step={"batch_size": 2}, base_filters=4)
    assert plan_of(64, step={"batch_size": 2}, base_filters=4, recompute=True).peak.nbytes < 0.75 * whole.peak.nbytes
    parts = plan_of(64, step={"batch_size": 2, "micro_batches": 2}, base_filters=4)
    assert parts.peak.nbytes < 0.6 * whole.peak.nbytes
    assert (parts.parts, parts.forward_passes) == (2, 2), "the loss has sums over the batch"
    plain = LiverTumorSegmentation(UNet3D(base_filters=4), dice_over="case", dice="classes", dice_weight=0.0)
    assert plan_of(64, step={"batch_size": 2, "micro_batches": 2, "task": plain}).parts == 2


def test_every_micro_batch_exchanges():
    options = {"mesh_shape": "rows:2", "layout": "x:rows", "base_filters": 4, "depth": 2}
    once, twice = (plan_of(32, step={"batch_size": 4, "micro_batches": parts}, **options) for parts in (1, 2))
    assert twice.count(phase="backward") == 2 * once.count(phase="backward")
    assert twice.sent((1,), "backward") == once.sent((1,), "backward")
    assert twice.sent((1,), "forward") == 2 * once.sent((1,), "forward"), "an extra forward pass"


def test_each_operation_takes_as_long_as_its_arithmetic_or_its_memory():
    plan, h200 = plan_of(128, "rows:8", "x:rows"), find_hardware("h200")
    time = step_time(plan, h200, "bfloat16")
    bounds = [(op.flops / (989e12 * 0.3), op.memory_traffic / (4.8e12 * 0.75)) for op in plan.ops]
    assert time.compute == pytest.approx(sum(arithmetic for arithmetic, memory in bounds if arithmetic > memory))
    copies = sum(op.halo_copies for op in plan.ops) / (4.8e12 * 0.75)
    assert copies > 0
    by_memory = sum(memory for arithmetic, memory in bounds if arithmetic <= memory)
    assert time.memory == pytest.approx(copies + by_memory)
    assert time.compute + time.memory > plan.total(lambda op: op.flops) / (989e12 * 0.3)
    slow = step_time(plan, h200, "float32")
    assert slow.compute > time.compute
    assert slow.memory < time.memory, "more operations are limited by arithmetic"


def test_the_links_of_placement():
    """The first device adds up the values of 8 devices; only other sums than gradients travel back."""
    plan, h200 = plan_of(128, "rows:8", "x:rows"), find_hardware("h200")
    time = step_time(plan, h200, "bfloat16")
    sums = [(op, e) for op in plan.ops for e in op.exchanges if e.kind == "sum"]
    gradients = [e for op, e in sums if op.is_gradient]
    assert len(gradients) == 2 * (14 + 3 + 1), "filters and biases of all convolutions"
    direct = sum(7 * e.nbytes * (1 if op.is_gradient else 2) for op, e in sums)
    assert time.links == pytest.approx((plan.sent(plan.interior) + direct + plan.weights_sent) / 450e9)
    assert time.latency == pytest.approx((plan.count() + len(sums)) * 20e-6)
    assert time.network == 0
    assert time.exchange_share == (time.links + time.network + time.latency) / time.total


def test_the_links_of_the_collective_mesh():
    """Halos of both directions are one exchange, gradients are 5 sums, and each process has all variables."""
    options = {"mesh_shape": "rows:8", "layout": "x:rows", "mesh_impl": "collective"}
    plan, h200 = plan_of(128, **options), find_hardware("h200")
    whole = plan_of(128, mesh_impl="stacked", devices=1)
    assert (plan.weights, plan.state, plan.weights_sent, plan.state_sent) == (whole.weights, whole.state, 0, 0)
    time = step_time(plan, h200, "bfloat16")
    sums = [(op, e) for op in plan.ops for e in op.exchanges if e.kind == "sum"]
    gradients = [op for op, _ in sums if op.is_gradient]
    assert time.latency == pytest.approx((plan.count() / 2 + len(sums) - len(gradients) + 5) * 20e-6)
    ring = sum(e.nbytes * 2 * 7 / 8 for _, e in sums)
    assert plan.sent(plan.interior) + ring <= time.links * 450e9 < 1.1 * (plan.sent(plan.interior) + ring)


def test_two_hosts_share_the_halos_at_their_border():
    options = {"mesh_shape": "rows:4", "layout": "x:rows", "mesh_impl": "collective", "base_filters": 4, "depth": 2}
    one, two = plan_of(32, **options), plan_of(32, num_hosts=2, **options)
    sums = sum(2 * 3 / 4 * e.nbytes for op in one.ops for e in op.exchanges if e.kind == "sum")
    halos = sum(e.nbytes for op in one.ops for e in op.exchanges if e.kind == "halo") / 2  # one of two directions
    assert traffic_totals(one) == (pytest.approx(2 * halos + sums), 0)
    assert traffic_totals(two) == (pytest.approx(halos + sums), pytest.approx(halos + sums))
    hardware = find_hardware("h100")
    times = [step_time(plan, hardware, "bfloat16") for plan in (one, two)]
    assert (times[0].network, times[1].links) == (0, 0), "the network is always the slowest link"
    assert times[1].network == pytest.approx((halos + sums) / 25e9)
    assert times[1].latency == pytest.approx(times[0].latency * 50 / 20)


def test_elementwise_operations_read_and_write_every_tensor():
    """Each is 16^3 voxels of 4 channels in float32, with Adam for 1 variable of each kind."""
    plan = plan_of(16, base_filters=4, depth=2, dropout_rate=0.0, step={"dtype": "float32"})
    one = 16**3 * 4 * 4
    traffic = {(op.kind, op.phase): op.memory_traffic for op in reversed(plan.ops) if "channels:4" in op.whole}
    traffic |= {(op.kind, op.phase): op.memory_traffic for op in reversed(plan.ops) if "filters:4" in op.whole}
    assert traffic["leaky_relu", "forward"] == 2 * one
    relu = max(op.memory_traffic for op in plan.ops if op.kind == "leaky_relu_dx")
    assert relu == 3 * one
    statistics = 4 * 4 * 4  # scale, offset, mean and variance
    norm = max(op.memory_traffic for op in plan.ops if op.kind == "batch_norm" and op.phase == "forward")
    assert norm == 2 * (2 * one + statistics)
    assert {op.memory_traffic for op in plan.ops if op.kind in ("ReshapeOperation", "StopGradient")} == {0}


def test_several_slices_on_one_device_share_what_is_not_split():
    options = {"base_filters": 4, "depth": 2, "step": {"dtype": "float32"}}
    whole = plan_of(32, devices=1, **options)
    together = plan_of(32, "rows:4", "x:rows", devices=1, **options)
    assert {op.slices for op in together.ops if op.phase == "update"} == {1}
    updates = [plan.total(lambda op: op.memory_traffic, "update") for plan in (whole, together)]
    assert updates[0] == updates[1]
    forward = [plan.total(lambda op: op.memory_traffic, "forward") for plan in (whole, together)]
    assert forward[1] == pytest.approx(forward[0], rel=0.01)
    assert whole.total(lambda op: op.halo_copies) == 0
    # The widened input of up0/conv0, 8 channels, and its copy for the gradient.
    assert together.total(lambda op: op.halo_copies) > 2 * 2 * 32**3 * 8 * 4


def test_processors_of_one_device_send_nothing_over_links():
    options = {"base_filters": 4, "depth": 2}
    plan = plan_of(32, "rows:4,cols:2", "x:rows,y:cols", devices=1, **options)
    time = step_time(plan, find_hardware("h200"), "bfloat16")
    assert (time.links, time.latency) == (0, 0)
    assert plan.sent(plan.interior), "the processors exchange"
    # With 4 devices, each has 1 of 4 rows and both cols, so it sends the halos of two processors along x.
    plan = plan_of(32, "rows:4,cols:2", "x:rows,y:cols", devices=4, **options)
    assert plan.grid.shards == (4, 1)
    halos = [e for op in plan.ops for e in op.exchanges if e.kind == "halo"]
    assert {axis for e in halos if plan.interconnect.load([e]).within for axis in e.axes} == {0}
    assert all(plan.interconnect.load([e]).within == 2 * e.nbytes for e in halos if e.axes == (0,))
    # With 2 devices, each shard has 2 x 2 processors, and only the two at its face send.
    plan = plan_of(32, "rows:4,cols:2", "x:rows,y:cols", devices=2, **options)
    assert plan.grid.shards == (2, 1)
    assert all(plan.interconnect.load([e]).within == 2 * e.nbytes for e in halos if e.axes == (0,))


def test_a_device_sends_each_voxel_to_another_device_once():
    """Slices of 1 voxel, 2 per device, need 3 voxels before: 2 from one device and 1 from the device before it."""
    connected = Interconnect(ShardGrid.make((8,), 4))
    halo = [Exchange("halo", (0,), 100, distance) for distance in (1, 2, 3)]
    assert [connected.load([exchange]) for exchange in halo] == [(100, 0, 1), (100, 0, 0), (100, 0, 1)]


def test_weights_are_counted_on_the_fullest_device():
    one = plan_of(32, base_filters=4, depth=2, devices=1)
    spread = plan_of(32, "rows:4", "x:rows", base_filters=4, depth=2, devices=4)
    assert one.weights / 4 <= spread.weights < one.weights
    assert one.state / 4 <= spread.state < one.state
    assert one.memory == one.weights + one.state + one.peak.nbytes


OPTIMIZERS = {
    "SGD": lambda: SGD(momentum=0.0),
    "momentum": SGD,
    "Adam": Adam,
    "Adafactor": Adafactor,
    "factored": lambda: Adafactor(min_dim_size_to_factor=2, beta1=0.9),
}


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizer_state_is_not_sent_with_the_weights(optimizer):
    """If a weight is not split, only the device that keeps it computes its update."""
    options, step = {"base_filters": 4, "depth": 2}, {"optimizer": OPTIMIZERS[optimizer]()}
    plan = plan_of(32, "rows:2", "x:rows", step=step, **options)
    weights = plan_of(32, base_filters=4, depth=2, devices=1).weights
    assert (plan.weights_sent, plan.state_sent) == (weights, 0)
    parts = plan_of(32, "rows:2", "x:rows", step={**step, "batch_size": 2, "micro_batches": 2}, **options)
    assert (parts.weights_sent, parts.state_sent) == (4 * weights, 0), "2 micro-batches with 2 forward passes each"
    assert plan_of(32, devices=1, step=step, **options).weights_sent == 0, "one device has all of them"


@pytest.mark.parametrize(("optimizer", "slots"), [("SGD", 0), ("momentum", 1), ("Adam", 2)])
def test_the_slots_of_a_split_weight_are_split(optimizer, slots):
    task = LiverTumorSegmentation(UNet3D(base_filters=6, depth=2))
    options = {"step": {"task": task, "optimizer": OPTIMIZERS[optimizer]()}}
    plan = plan_of(30, "m:3", "filters:m", **options)
    split = sum(math.prod(op.slice) * 4 for op in plan.ops if op.kind == "Variable" and "filters:" in op.whole)
    assert plan.state_sent == split * slots // (1 + slots)
    assert plan.weights_sent < plan_of(30, "rows:3", "x:rows", **options).weights_sent


def test_uneven_slices_are_planned_with_their_stored_size():
    options = {"base_filters": 4, "depth": 2, "step": {"dtype": "float32"}}
    even, uneven = plan_of(24, "rows:3", "x:rows", **options), plan_of(20, "rows:3", "x:rows", **options)
    assert even.wasted == 0
    assert even.uneven_splits == ()
    assert [str(split) for split in uneven.uneven_splits] == [
        "x: 20 over rows:3 -> slices of 7, last 6",
        "x: 10 over rows:3 -> slices of 4, last 2",
    ]
    (stem, *_) = convolutions(uneven)
    assert stem.slice == (1, 7, 20, 20, 4)
    assert stem.flops * 3 * 20 == stem.useful_flops * 3 * 21
    assert 1 - 20 / 21 < uneven.wasted < 1 - 10 / 12, "x is 20 at the first level and 10 at the second"
    assert plan_of(20, **options).wasted == 0


def test_a_pool_of_uneven_slices_keeps_a_copy_with_its_lowest_values():
    """The copy is as large as the slices that it pools, and exists until the backward pass."""

    def peak_of(size):
        def fn(image):
            y = mi.ops.max_pool2d(image * 2, 2, 2)
            return mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y))], [image])

        traced = trace_only(fn, {"image": f"batch:1,x:{size},y:8,channels:1"})
        phases = dict.fromkeys(traced.needed, FORWARD)
        return make_plan(TracedStep(traced, phases, 1, 1), Layout.parse("rows:2", "x:rows")).peak.nbytes

    assert peak_of(16) + 8 * 8 * 4 == peak_of(14 + 1)


def test_halos_that_grow_with_the_number_of_the_slice():
    """Of 33 voxels, slices have 3; of their 17 windows with stride 2, slices have 2 windows, which are 4 voxels."""

    def growing(size, stride=2, mesh="rows:16", turns=""):
        def fn(image, kernel):
            return mi.ops.conv2d(image, kernel, stride, name="stem")

        inputs = {"image": f"batch:1,x:{size},y:8,channels:1", "kernel": "fx:3,fy:3,channels:1,out:1"}
        return growing_halos(trace_only(fn, inputs).needed, Layout.parse(mesh, "x:rows", turns), {"x": size})

    (halo,) = growing(33)
    assert (halo.halo, halo.split.size, halo.better) == (9, 3, (32, 61))
    assert str(halo) == (
        "conv2d 'stem' splits x over rows:16: 33 voxels into slices of 3, and with stride 2 its 17 outputs into slices "
        "of 2. 3 is not 2 x 2, so halos grow along rows, up to 9 voxels"
    )
    assert growing(32) == growing(33, stride=1) == growing(33, mesh="rows:1") == growing(33, turns="rows") == ()


@pytest.mark.parametrize(("size", "batch", "better"), [(36, 1, {"x": 38}), (32, 5, {"batch": 4}), (32, 4, {})])
def test_a_wasteful_layout_is_told_the_nearest_size(size, batch, better):
    step = TrainingStep(
        LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1)), Adam(), (size, 8, 8), batch, 1, "float32"
    )
    explained = explain_step(step, Layout.parse("rows:16,cores:4", "x:rows,batch:cores" if batch > 1 else "x:rows"))
    assert explained.unevenness.better == better
    assert (explained.plan.wasted > LIMIT) == bool(better)
    notice = "notice: more than 25% of the work is wasted. Fix: use "
    assert (notice + "".join(f"{dim}:{n}" for dim, n in better.items()) in text(explained)) == bool(better)


def _sent_from_home(program):
    """Returns the names of variables that a device other than their own reads in the executed graph."""
    graph = program.function.graph
    owners = {id(variable.handle): variable for variable in graph.variables}
    captured = {id(inner): owners[id(outer)] for outer, inner in graph.captures if id(outer) in owners}
    run, todo = set(), [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    while todo:
        op = todo.pop()
        if op not in run:
            run.add(op)
            todo += [x.op for x in op.inputs] + list(op.control_inputs)
    names = set()
    for op in run:
        if op.type != "ReadVariableOp":
            continue
        variable, todo = captured[id(op.inputs[0])], [op]
        while todo:
            readers = {reader for y in todo.pop().outputs for reader in y.consumers()} & run
            if any(reader.device and not variable.device.endswith(reader.device) for reader in readers):
                names.add(variable.name.removesuffix(":0"))
            todo += [reader for reader in readers if reader.type in ("Identity", "Cast", "ExpandDims", "Slice")]
    return names


@pytest.mark.slow
def test_the_lowered_graph_sends_weights_but_no_slots():
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2))
    inputs = task_inputs(task, 1, (8,) * 3)
    program = Program(training_step(task, Adam()), inputs, "rows:2", "x:rows", mesh_impl="placement")
    weights = {name for name, variable in program.variables.items() if variable.trainable}
    assert _sent_from_home(program) - {"step"} == weights
