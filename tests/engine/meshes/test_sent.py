"""Transfers between devices, counted in the graph: devices receive only the data that they need."""

import collections

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.meshes.devices import number_of

mtf = mi.mtf
DEVICES = [f"/device:CPU:{n}" for n in range(4, 8)]  # without CPU:0, which stores whole tensors
HOST = "/device:CPU:0"


def _place(device):
    """Returns the end of a device name, such as "CPU:4"; operations without a device run on the host."""
    return (device or HOST)[-5:]


def _operations(program):
    """Returns the operations that a call runs."""
    found, todo = set(), [tensor.op for tensor in program.function.graph.outputs]
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return found


def sent(program):
    """Returns {(source, target): bytes}.

    Every tensor counts once for each device, other than its own, with operations that read it. Variables are read on
    their own device if the graph does not place the read operation.
    """
    receivers = collections.defaultdict(set)
    for op in _operations(program):
        for tensor in op.inputs:
            is_unplaced_read = tensor.op.type == "ReadVariableOp" and not tensor.op.device
            if tensor.dtype != tf.resource and not is_unplaced_read:
                receivers[tensor.ref()].add(_place(op.device))
    found = collections.Counter()
    for reference, places in receivers.items():
        tensor = reference.deref()
        source = _place(tensor.op.device)
        for place in places - {source}:
            found[source, place] += tensor.shape.num_elements() * tensor.dtype.size
    return found


def _sum_of_squares(image, kernel):
    y = mi.ops.conv3d(image, kernel)
    return y, mtf.reduce_sum(mtf.square(y))


INPUTS = {
    "image": "batch:2,x:16,y:8,z:6,channels:2",
    "kernel": "fx:3,fy:1,fz:1,channels:2,filters:3",
}
IMAGE, KERNEL, RESULT = 4 * 2 * 16 * 8 * 6 * 2, 4 * 3 * 2 * 3, 4 * 2 * 16 * 8 * 6 * 3  # bytes
SMALL = 200  # bytes of indices and other small tensors


@pytest.mark.parametrize(
    ("mesh_shape", "layout", "parts"),
    [
        ("rows:4", "x:rows", 4),
        ("rows:2,cols:2", "x:rows,y:cols", 4),
        ("rows:8", "x:rows", 4),
        ("rows:2,cols:2", "x:cols", 2),  # only one of two devices with equal work does it
        ("rows:2,cols:2", "batch:rows", 2),
    ],
)
def test_each_device_receives_only_its_shard_of_a_whole_tensor(mesh_shape, layout, parts):
    found = sent(mi.Program(_sum_of_squares, INPUTS, mesh_shape, layout, "placement", devices=DEVICES))
    received = [found["CPU:0", _place(device)] for device in DEVICES]
    assert sum(size > 0 for size in received) == parts
    assert max(received) < IMAGE / parts + KERNEL + SMALL
    # Results are sent back once, even if several devices have the same result.
    back = [found[_place(device), "CPU:0"] for device in DEVICES]
    assert RESULT <= sum(back) < RESULT + SMALL
    assert max(back) < RESULT / parts + SMALL


def test_results_are_on_the_host():
    p = mi.Program(_sum_of_squares, INPUTS, "rows:4", "x:rows", "placement", devices=DEVICES)
    image, kernel = np.ones([2, 16, 8, 6, 2], np.float32), np.ones([3, 1, 1, 2, 3], np.float32)
    with tf.device("/device:CPU:3"):
        results = p(image=image, kernel=kernel)
    assert [result.device[-5:] for result in results] == ["CPU:0", "CPU:0"]


def test_only_the_margins_of_a_halo_are_sent():
    devices = DEVICES[:2]
    p = mi.Program(_sum_of_squares, INPUTS, "rows:8", "x:rows", "placement", devices=devices)
    assert p.mesh_impl.grid.stack_size == 4
    found = sent(p)
    margin = IMAGE / 16  # one of 16 voxels along x
    first, last = map(_place, devices)
    assert margin <= found[last, first] < margin + SMALL
    assert margin <= found[first, last] < margin + SMALL


def test_only_the_needed_voxels_of_a_far_halo_are_sent():
    """With slices of two voxels, each device sends three of its eight voxels to the other device in one message."""

    def fn(image, kernel):
        return mi.ops.conv3d(image, kernel, dilations=(3, 1, 1))

    p = mi.Program(fn, INPUTS, "rows:8", "x:rows", "placement", devices=DEVICES[:2])
    found, needed = sent(p), 3 * IMAGE / 16
    first, last = map(_place, DEVICES[:2])
    assert needed <= found[last, first] < needed + SMALL
    assert needed <= found[first, last] < needed + SMALL


def test_an_optimizer_slot_is_on_the_device_of_its_weight():
    def step(image):
        loss, shape = 0, mtf.Shape([image.shape[-1], mtf.Dimension("filters", 64)])
        for name in ("one", "two", "three"):
            weight = mtf.get_variable(image.mesh, name, shape)
            loss += mtf.reduce_mean(mtf.square(mtf.einsum([image, weight], reduced_dims=[image.shape[-1]])))
        variables = image.mesh.graph.trainable_variables
        for variable, dy in zip(variables, mtf.gradients([loss], [v.value for v in variables]), strict=True):
            slot = mtf.get_variable(image.mesh, f"{variable.name}/slot", shape, trainable=False)
            mtf.assign_sub(variable, 0.9 * slot + dy)
            mtf.assign(slot.operation, 0.9 * slot + dy)
        return loss

    p = mi.Program(step, {"image": "x:16,channels:64"}, "rows:4", "x:rows", "placement", devices=DEVICES)
    weight = 4 * 64 * 64
    home = {name: _place(variable.device) for name, variable in p.variables.items()}
    assert len({home[name] for name in ("one", "two", "three")}) == 3, "weights are distributed over the devices"
    assert all(home[name] == home[name.split("/")[0]] for name in home)
    # Each weight is sent to the other three devices, and each of them returns a gradient.
    total = sum(bytes for (source, place), bytes in sent(p).items())
    least = 3 * (3 + 3) * weight
    # Sums are computed on the first device, so sums for weights on other devices are sent again.
    assert least <= total < least + 2 * weight + 0.5 * weight


def test_devices_are_identified_by_their_full_names():
    local = "/job:localhost/replica:0/task:0/device:GPU:1"
    other = "/job:worker/replica:0/task:1/device:GPU:1"
    assert number_of(local, ["CPU:1", "gpu:1"]) == 1
    assert number_of(local, ["/device:GPU:0", "/device:GPU:1"]) == 1
    assert number_of(local, [other, local]) == 1
    assert number_of(other, [local]) == 0
