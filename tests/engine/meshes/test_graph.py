"""Lowered graphs: their size does not grow with a stacked mesh, and split tensors are never gathered."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import mtf_imaging as mi
from mtf_imaging.engine.meshes.grid import ShardGrid

mtf = mi.mtf


def _network(image, kernel, late):
    """A small network with all operations that exchange halos; returns the loss and gradients."""
    x = mi.ops.leaky_relu(mi.ops.conv3d(image, kernel))
    x = mtf.rename_dimension(x, "filters", "channels")
    x = mi.ops.batch_norm(x, True)
    y = mi.ops.max_pool3d(x, 2, 2)
    y = mi.ops.conv3d_transpose(y, late, 2)
    y = mtf.rename_dimension(y, "filters", "channels")
    y = mi.ops.avg_pool3d(mtf.concat([x, y], "channels"), 3, 1, "SAME")
    loss = mtf.reduce_mean(mtf.square(y))
    return _descend(loss), *mtf.gradients([loss], [kernel, late])


def _descend(loss):
    """Returns the loss, and subtracts the gradients from the variables."""
    variables = loss.mesh.graph.trainable_variables
    gradients = mtf.gradients([loss], [variable.value for variable in variables])
    loss.mesh.gradients.update(gradients)
    for variable, gradient in zip(variables, gradients, strict=True):
        mtf.assign_sub(variable, 0.1 * gradient)
    return loss


def _program(mesh_shape, layout, mesh_impl="stacked", x=64, y=64):
    inputs = {
        "image": f"batch:1,x:{x},y:{y},z:6,channels:2",
        "kernel": "fx:3,fy:3,fz:3,channels:2,filters:2",
        "late": "fx:2,fy:2,fz:2,filters:2,channels:2",
    }
    return mi.Program(_network, inputs, mesh_shape, layout, mesh_impl)


def test_a_stacked_graph_does_not_grow_with_the_mesh():
    small, large = _program("rows:2,cols:2", "x:rows,y:cols"), _program("rows:16,cols:16", "x:rows,y:cols")
    assert abs(large.num_nodes - small.num_nodes) < 0.01 * small.num_nodes


def test_a_stacked_mesh_never_rebuilds_split_dimensions():
    # No other dimension has size 52 or 44: not slices (26, 22), widened slices, or their products.
    p = _program("rows:2,cols:2", "x:rows,y:cols", x=52, y=44)
    wide = {52, 44, 54, 46, 53, 45}
    whole = {
        op.type
        for op in p.function.graph.get_operations()
        for output in op.outputs
        if output.shape.rank and wide & set(output.shape.as_list())
    }
    # Only the inputs are whole tensors; one reshape cuts each of them.
    assert "Placeholder" in whole, "the search finds whole tensors"
    assert whole <= {"Placeholder", "Identity"}


@pytest.mark.parametrize(
    ("mesh_impl", "copies"),
    [("stacked", ["PadV2", "GatherV2"]), ("placement", ["ConcatV2"] * 8 + ["PadV2"] * 4)],
)
def test_the_exchange_copies_each_slice_once_per_dimension(mesh_impl, copies):
    """Slices on one device need one gather of all slices.

    Slices on several devices need a concatenation along each of the two split dimensions, and a pad along the third.
    """

    def fn(image, kernel):
        return mtf.reduce_sum(mi.ops.conv3d(image, kernel))

    inputs = {"image": "batch:1,x:32,y:32,z:6,channels:2", "kernel": "fx:3,fy:3,fz:3,channels:2,filters:2"}
    p = mi.Program(fn, inputs, "rows:2,cols:2", "x:rows,y:cols", mesh_impl)
    slice_voxels = 16 * 16 * 6 * 2
    actual = [
        op.type
        for op in p.function.graph.get_operations()
        if op.type in ("Pad", "PadV2", "ConcatV2", "GatherV2") and np.prod(op.outputs[0].shape) > slice_voxels
    ]
    assert actual == copies


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize("dims", [2, 3])
def test_a_convolution_its_bias_and_its_activation_are_one_kernel_per_device(mesh_impl, dims):
    sizes, kernel = list(zip("xyz", [8, 8, 4]))[:dims], [(f"f{axis}", 3) for axis in "xyz"[:dims]]

    def fn(image, kernel, bias):
        y = mtf.rename_dimension(getattr(mi.ops, f"conv{dims}d")(image, kernel), "filters", "channels")
        y = mi.ops.leaky_relu(mi.ops.add_bias(y, bias), 0.1)
        return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel, bias])

    shapes = {
        "image": [("batch", 1), *sizes, ("channels", 2)],
        "kernel": [*kernel, ("channels", 2), ("filters", 2)],
        "bias": [("channels", 2)],
    }
    inputs = {name: ",".join(f"{dim}:{n}" for dim, n in shape) for name, shape in shapes.items()}
    p = mi.Program(fn, inputs, "rows:2,cols:2", "x:rows,y:cols", mesh_impl)
    images = {name: tf.ones([n for _, n in shape]) for name, shape in shapes.items()}
    assert fused_kernels(p, images) == [(f"_FusedConv{dims}D", ("BiasAdd", "LeakyRelu"))] * len(p.mesh_impl.devices)


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_an_adjoint_filter_waits_for_the_gradient(mesh_impl):
    """Otherwise TensorFlow would compute all adjoint filters at the start of a step and keep them."""

    def fn(image, kernel):
        return mtf.gradients([mtf.reduce_sum(mtf.square(mi.ops.conv2d(image, kernel)))], [image])[0]

    inputs = {"image": "batch:1,x:8,y:8,channels:2", "kernel": "fx:3,fy:3,channels:2,filters:3"}
    p = mi.Program(fn, inputs, "rows:2,cols:2", "x:rows,y:cols", mesh_impl)
    reversals = [op for op in p.function.graph.get_operations() if op.type == "ReverseV2"]
    assert len(reversals) == len(p.mesh_impl.devices)
    assert all(op.control_inputs for op in reversals)


def test_the_number_of_edges_is_linear_in_the_number_of_variables():
    operations = _program("rows:2,cols:2", "x:rows,y:cols").function.graph.get_operations()
    assigned = [op for op in operations if op.type.startswith("Assign")]
    assert len(assigned) > 4
    assert max(len(op.control_inputs) for op in assigned) <= 2


def test_an_assignment_has_no_nodes_of_its_own():
    operations = _program("rows:2,cols:2", "x:rows,y:cols").function.graph.get_operations()
    assert not [op.name for op in operations if op.type == "NoOp" and "assign" in op.name]


def test_dropouts_of_one_shape_share_positions():
    def nodes(number):
        def fn(image):
            for _ in range(number):
                image = mi.ops.dropout(image, 0.5)
            return image

        return mi.Program(fn, {"image": "x:8,y:8,channels:2"}, "rows:2,cols:2", "x:rows,y:cols").num_nodes

    none, one, two = nodes(0), nodes(1), nodes(2)
    assert two - one < 0.6 * (one - none)


def fused_kernels(program, values):
    """Calls a program and returns the kernels that TensorFlow fused, as (type, fused operations)."""
    context.enable_run_metadata()
    try:
        program(**values)
        metadata = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    graphs = [graph.post_optimization_graph for graph in metadata.function_graphs]
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [node for graph in graphs for function in graph.library.function for node in function.node_def]
    return [
        (node.op, tuple(name.decode() for name in node.attr["fused_ops"].list.s))
        for node in nodes
        if node.op.startswith("_Fused")
    ]


def test_placement_puts_every_slice_on_its_own_device():
    p = _program("rows:2,cols:2", "x:rows,y:cols", "placement")
    assert len(p.mesh_impl.devices) == 4
    devices = {op.device for op in p.function.graph.get_operations() if op.type == "Conv3D"}
    assert len(devices) == 4


@pytest.mark.parametrize(
    ("mesh", "devices", "shards"),
    [
        ((2, 2), 1, (1, 1)),
        ((2, 2), 4, (2, 2)),
        ((4, 4), 8, (4, 2)),
        ((3, 2), 4, (1, 2)),
        ((16, 16, 2), 8, (8, 1, 1)),
        ((), 8, ()),
    ],
)
def test_shards_divide_the_mesh_equally(mesh, devices, shards):
    grid = ShardGrid.make(mesh, devices)
    assert grid.shards == shards
    processors = [at for shard in grid.shard_coordinates() for at in grid.processor_coordinates(shard)]
    assert len(processors) == len(set(processors)) == np.prod(mesh, dtype=int)


def test_a_device_may_hold_several_processors():
    image = np.random.default_rng(0).standard_normal([1, 16, 16, 6, 2]).astype(np.float32)
    kernel = np.ones([3, 3, 3, 2, 2], np.float32)
    inputs = {"image": "batch:1,x:16,y:16,z:6,channels:2", "kernel": "fx:3,fy:3,fz:3,channels:2,filters:2"}
    p = mi.Program(
        lambda image, kernel: mi.ops.conv3d(image, kernel), inputs, "rows:4,cols:4", "x:rows,y:cols", "placement"
    )
    assert (len(p.mesh_impl.devices), p.mesh_impl.grid.stack_size) == (8, 2)
    np.testing.assert_allclose(p(image=image, kernel=kernel), tf.nn.conv3d(image, kernel, [1] * 5, "SAME"), atol=1e-4)


def test_unknown_mesh_implementation():
    with pytest.raises(mi.NotSupportedError, match=r"'stack' is unknown\. Fix: choose one of auto, stacked, placement"):
        mi.Program(lambda image: image, {"image": "x:4"}, mesh_impl="stack")


def _nodes(x, dilation):
    """Returns the number of nodes of a dilated convolution over 16 slices on 4 devices, with gradients."""

    def step(image, kernel):
        y = mi.ops.conv3d(image, kernel, dilations=(dilation, 1, 1))
        return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])

    inputs = {"image": f"batch:1,x:{x},y:4,z:4,channels:2", "kernel": "kx:3,ky:1,kz:1,channels:2,filters:2"}
    devices = [f"/device:CPU:{number}" for number in range(4)]
    return mi.Program(step, inputs, "rows:16", "x:rows", "placement", devices=devices).num_nodes


def test_a_graph_does_not_grow_with_the_reach_of_a_halo():
    """The halo reaches 15 slices of one voxel on either side, or one voxel of the next slice."""
    assert _nodes(16, 15) < 1.2 * _nodes(32, 1)


def test_a_gradient_is_summed_by_the_device_that_keeps_its_weight():
    """No device sums all gradients, and no sum is sent to another device."""
    image = "batch:1,x:16,y:8,z:4,channels:2"

    def step(image):
        for number in range(4):
            shape = [*(mtf.Dimension(f"f{name}", 3) for name in "xyz"), image.shape.dims[-1], mtf.Dimension("out", 2)]
            kernel = mtf.get_variable(image.mesh, f"kernel{number}", shape)
            bias = mtf.get_variable(image.mesh, f"bias{number}", shape[-1:])
            image = mi.ops.add_bias(mi.ops.conv3d(image, kernel), bias)
            image = mtf.rename_dimension(image, "out", "channels")
        return _descend(mtf.reduce_mean(mtf.square(image)))

    p = mi.Program(step, {"image": image}, "rows:4", "x:rows", "placement")
    homes = {name: variable.device for name, variable in p.variables.items()}
    assert len(set(homes.values())) == 4
    sums = [op for op in p.function.graph.get_operations() if op.type == "AddN" and len(op.inputs) == 4]
    # The graph has a sum on each device, but only the sum at the home of the weight leads to an assignment.
    for rank, name in ((6, "kernel"), (2, "bias")):
        used = {op.device for op in sums if op.outputs[0].shape.rank == rank and _reaches_an_assignment(op)}
        expected = {device for key, device in homes.items() if key.startswith(name)}
        assert {device[-5:] for device in used} == {device[-5:] for device in expected}


def _reaches_an_assignment(op):
    seen, todo = set(), [op]
    while todo:
        op = todo.pop()
        if op.type == "AssignSubVariableOp" or op.type == "AssignVariableOp":
            return True
        seen.add(op)
        todo += [user for output in op.outputs for user in output.consumers() if user not in seen]
    return False
