"""GPU behavior that can be tested without a GPU: chosen devices, memory growth, and available kernels."""

import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import mtf_imaging as mi
from mtf_imaging.engine.meshes import make_mesh_impl
from mtf_imaging.engine.meshes.devices import grow_memory

GPUS = [tf.config.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(2)]


@pytest.fixture
def two_gpus(monkeypatch):
    """Simulates two GPUs and returns {GPU: memory growth}."""
    growth = dict.fromkeys(GPUS)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: GPUS if kind == "GPU" else [])
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: None)
    monkeypatch.setattr(tf.config.experimental, "get_memory_growth", growth.get)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", growth.__setitem__)
    return growth


def test_gpu_memory_is_allocated_on_demand(two_gpus):
    grow_memory()
    assert two_gpus == dict.fromkeys(GPUS, True)


def test_a_program_allocates_gpu_memory_on_demand(two_gpus):
    mi.Program(lambda x: x, {"x": "x:4"})
    assert two_gpus == dict.fromkeys(GPUS, True)


def test_the_configuration_of_a_process_is_not_changed(two_gpus, monkeypatch):
    two_gpus[GPUS[1]] = False
    grow_memory()
    assert two_gpus == {GPUS[0]: None, GPUS[1]: False}
    two_gpus[GPUS[1]] = None
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: ["a part of it"])
    grow_memory()
    assert two_gpus == dict.fromkeys(GPUS)


def test_gpus_in_use_are_not_configured(two_gpus, monkeypatch):
    def too_late(gpu, enable):
        raise RuntimeError("Physical devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", too_late)
    grow_memory()


@pytest.mark.parametrize(
    ("number", "mesh_shape", "shards"),
    [
        (1, "rows:2,cols:2", [0]),  # stacked
        (2, "rows:2,cols:2", [0, 1]),
        (4, "rows:2,cols:2", [0, 1, 2, 3]),
        (8, "rows:16,cols:16,cores:2", [0, 1, 2, 3, 4, 5, 6, 7]),
        (3, "rows:2,cols:2", [0]),  # no equal shards: stacked on one device
        (2, "", [0]),
    ],
)
def test_one_gpu_is_used_by_a_stack_and_several_by_placement(monkeypatch, number, mesh_shape, shards):
    def devices(kind):
        return [types.SimpleNamespace(name=f"/device:{kind}:{n}") for n in range(number if kind == "GPU" else 1)]

    monkeypatch.setattr(tf.config, "list_logical_devices", devices)
    mesh = make_mesh_impl("auto", mi.Layout.parse(mesh_shape))
    assert mesh.devices == [f"/device:GPU:{n}" for n in shards]
    assert mesh.host == "/device:CPU:0"


@pytest.mark.parametrize("devices", [["/device:GPU:0"], ["/device:GPU:0", "/device:GPU:1"]])
def test_the_host_runs_operations_without_a_gpu_kernel(devices):
    assert tf.config.get_soft_device_placement()
    p = mi.Program(
        lambda image: mi.ops.avg_pool3d(image, 3, 1, "SAME"),
        {"image": "batch:1,x:8,y:4,z:4,channels:2"},
        "rows:2",
        "x:rows",
        "placement",
        devices,
    )
    assert {op.device for op in p.function.graph.get_operations()} >= set(devices)
    image = np.random.default_rng(0).random([1, 8, 4, 4, 2], np.float32)
    np.testing.assert_allclose(p(image=image), tf.nn.avg_pool3d(image, 3, 1, "SAME"), rtol=1e-6)


def without_gpu_kernel(program):
    """Returns the operations of a program without a GPU kernel, as (type, dtypes of the inputs)."""

    def fits(kernel, op):
        for rule in kernel.constraint:
            value, allowed = op.get_attr(rule.name), rule.allowed_values.list
            values = {getattr(v, "as_datatype_enum", v) for v in (value if isinstance(value, list) else [value])}
            if not values <= {*allowed.type, *allowed.s}:
                return False
        return kernel.device_type in ("GPU", "DEFAULT")  # DEFAULT kernels run on any device, with data on the host

    return {
        (op.type, *(tensor.dtype.name for tensor in op.inputs))
        for op in program.function.graph.get_operations()
        if not any(fits(kernel, op) for kernel in kernels.get_registered_kernels_for_op(op.type).kernel)
    }


has_gpu_kernels = pytest.mark.skipif(
    all(kernel.device_type == "CPU" for kernel in kernels.get_registered_kernels_for_op("Conv3D").kernel),
    reason="this build of TensorFlow has no kernels for GPUs",
)


@has_gpu_kernels
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_operation_has_gpu_kernels(dtype):
    def fn(x, x2, kernel, late, kernel2):
        mesh, shape = x.mesh, x.shape
        results = [
            mi.ops.conv3d(x, kernel, dilations=2),
            mi.ops.conv3d(x, kernel, strides=2),
            mi.ops.conv3d_transpose(x, late, 2),
            mi.ops.max_pool3d(x, 3, 2, "SAME"),
            mi.ops.avg_pool3d(x, 3, 2, "SAME"),
            mi.ops.conv2d(x2, kernel2),
            mi.ops.max_pool2d(x2, 2, 2),
            mi.ops.avg_pool2d(x2, 3, 1, "SAME"),
            mi.ops.softmax(x, shape[-1]),
            mi.mtf.random_uniform(mesh, shape, dtype=x.dtype),
            mi.mtf.random_normal(mesh, shape, dtype=x.dtype),
        ]
        loss = mi.mtf.add_n([mi.mtf.reduce_sum(mi.mtf.square(y)) for y in results])
        return results, mi.mtf.gradients([loss], [x, x2, kernel, late, kernel2])

    shapes = {
        "x": "batch:2,x:16,y:16,z:8,channels:2",
        "x2": "batch:2,x:16,y:16,channels:2",
        "kernel": "fx:3,fy:3,fz:3,channels:2,filters:2",
        "late": "fx:2,fy:2,fz:2,filters:2,channels:2",
        "kernel2": "fx:3,fy:3,channels:2,filters:2",
    }
    inputs = {name: (shape, dtype) for name, shape in shapes.items()}
    assert without_gpu_kernel(mi.Program(fn, inputs, "rows:2,cols:2", "x:rows,y:cols", "stacked")) == set()


@has_gpu_kernels
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("rule", ["x:rows", "channels:rows"])
def test_tails_are_filled_by_gpu_kernels(dtype, rule):
    def fn(x):
        return mi.mtf.reduce_sum(x, output_shape=x.shape - x.shape.dims[-1] - x.shape.dims[0])

    p = mi.Program(fn, {"x": ("x:5,y:6,channels:7", dtype)}, "rows:2", rule, "stacked")
    types = {op.type for op in p.function.graph.get_operations()}
    assert types & {"TensorScatterUpdate", "SelectV2"}
    assert without_gpu_kernel(p) == set()


@has_gpu_kernels
def test_the_search_finds_operations_without_a_gpu_kernel():
    def fn(logits, labels):
        return mi.ops.sparse_softmax_cross_entropy(logits, labels, logits.shape[-1])

    p = mi.Program(fn, {"logits": ("x:4,classes:3", "float64"), "labels": ("x:4", "int32")})
    assert without_gpu_kernel(p) == {("SparseSoftmaxCrossEntropyWithLogits", "float64", "int32")}
