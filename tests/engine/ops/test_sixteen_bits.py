"""Operations in float16 and bfloat16 on the CPU, where TensorFlow lacks kernels or adds 16-bit numbers."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.ops import partial_sums

mtf = mi.mtf
PRECISION = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 1e-6}
OPS = [
    lambda x: mi.ops.max_pool1d(x, 3, 2),
    lambda x: mi.ops.max_pool2d(x, 3, 1, "SAME"),
    lambda x: mi.ops.max_pool3d(x, 2, 2),
    lambda x: mi.ops.max_pool3d(x, 3, 2, "SAME"),
    lambda x: mi.ops.avg_pool1d(x, 3, 2),
    lambda x: mi.ops.avg_pool2d(x, 3, 1, "SAME"),
    lambda x: mi.ops.avg_pool3d(x, 2, 2),
    lambda x: mi.ops.avg_pool3d(x, 3, 2, "SAME"),
]


def _run(fn, sizes, dtype, layout, **inputs):
    """Returns the values of a function of `x` and its gradient, as float64 arrays."""

    def with_gradient(x):
        y = fn(x)
        return y, mtf.gradients([mtf.reduce_sum(mtf.square(mtf.cast(y, tf.float32)))], [x])[0]

    program = mi.Program(with_gradient, {"x": (sizes, dtype)}, "m:2", layout, "stacked", may_repeat=True)
    return [np.asarray(value, np.float64) for value in program(**inputs)]


@pytest.mark.mostly_slow(fast=0.2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["", "x:m"])
@pytest.mark.parametrize("op", OPS)
def test_pools(op, layout, dtype):
    x = np.random.default_rng(0).integers(-8, 9, [2, 6, 4, 4, 3]) / 4  # exact in both dtypes
    sizes = "batch:2,x:6,y:4,z:4,channels:3"
    expected = _run(op, sizes, "float32", "", x=x)
    for value, wanted in zip(_run(op, sizes, dtype, layout, x=x), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=2 * PRECISION[dtype] * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", [mi.ops.max_pool1d, mi.ops.max_pool2d, mi.ops.max_pool3d])
def test_one_of_equal_voxels_gets_the_gradient(op, dtype):
    """Windows without an overlap need no sums; each window of equal voxels has one voxel with a gradient."""
    spatial = dict(zip("xyz", (4, 2, 2)[: int(op.__name__[-2])], strict=False))
    sizes = ",".join(f"{name}:{size}" for name, size in {"batch": 1, **spatial, "channels": 1}.items())
    _, dx = _run(lambda x: op(x, 2, 2), sizes, dtype, "", x=np.ones([1, *spatial.values(), 1]))
    assert dx.ravel().nonzero()[0].tolist() == [0, dx.size // 2]
    assert dx.max() == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_means_of_large_windows(dtype):
    """In bfloat16, the sum of ones does not exceed 256."""
    y, _ = _run(
        lambda x: mi.ops.avg_pool3d(x, 13, 1), "b:1,x:13,y:13,z:13,c:1", dtype, "", x=np.ones([1, 13, 13, 13, 1])
    )
    assert y.ravel().tolist() == [1]
    _, dx = _run(
        lambda x: mi.ops.avg_pool2d(x, 31, 1, "SAME"), "b:1,x:16,y:16,c:1", dtype, "", x=np.ones([1, 16, 16, 1])
    )
    np.testing.assert_allclose(dx, np.full([1, 16, 16, 1], 2), rtol=4 * PRECISION[dtype])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sums_of_a_product_of_matrices(dtype):
    def squared(x):
        other = mtf.rename_dimension(x, "a", "b")
        return mtf.einsum([x, other], output_shape=mtf.Shape([x.shape.dims[0], other.shape.dims[0]]))

    y, dx = _run(squared, "a:3,s:1024", dtype, "", x=np.ones([3, 1024]))
    assert (y == 1024).all()
    assert (dx == 2 * 3 * 2 * 1024).all()


@pytest.mark.parametrize("layout", ["", "x:m"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_gradient_of_a_bias_is_a_sum_over_the_volume(dtype, layout):
    def fn(x, bias):
        loss = mtf.reduce_sum(mtf.cast(mi.ops.add_bias(x, bias), tf.float32)) / 64
        return mtf.gradients([loss], [bias])[0]

    inputs = {"x": ("b:1,x:40,y:40,z:40,c:2", dtype), "bias": ("c:2", dtype)}
    gradient = mi.Program(fn, inputs, "m:2", layout, may_repeat=True)(x=np.zeros([1, 40, 40, 40, 2]), bias=[0, 0])
    assert gradient.dtype == dtype
    assert np.asarray(gradient, np.float32).tolist() == [1000, 1000]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_max_pool_keeps_no_copy_for_its_gradient(dtype):
    """At the peak, 13 results and a gradient exist. Copies of the input and the result in float32 would add 4."""

    def fn(x):
        y = mi.ops.max_pool3d(x, 3, 1, "SAME")
        for _ in range(12):
            y = mtf.sin(y)
        return mtf.gradients([mtf.reduce_sum(mtf.cast(y, tf.float32))], [x])[0]

    x = tf.zeros([1, 64, 64, 64, 4], dtype)
    program = mi.Program(fn, {"x": ("b:1,x:64,y:64,z:64,c:4", dtype)})
    memory = tf.config.experimental
    try:
        memory.reset_memory_stats("CPU:0")
    except (ValueError, RuntimeError):
        pytest.skip("TensorFlow reports no memory statistics for this CPU")
    before = memory.get_memory_info("CPU:0")["current"]
    program(x=x)
    assert memory.get_memory_info("CPU:0")["peak"] - before < 16 * x.dtype.size * tf.size(x).numpy()


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("processors", "mesh_impl"), [(1, "stacked"), (5, "stacked"), (13, "stacked"), (2, "placement"), (3, "placement")]
)
@pytest.mark.parametrize("name", partial_sums.SUMS)
def test_sums_over_processors_are_rounded_once(name, processors, mesh_impl, dtype):
    partial_sums.check(name, dtype, processors, mesh_impl)


@pytest.mark.parametrize("name", partial_sums.SUMS)
def test_sums_in_float32_are_not_converted(name):
    row = partial_sums.SUMS[name]
    graph = mi.Program(
        row.fn, {"large": row.large, "other": row.other}, f"m:2{row.mesh}", f"s:m{row.layout}"
    ).function.graph
    assert not [op for op in graph.get_operations() if op.type == "Cast" and op.inputs[0].dtype == tf.float32]
