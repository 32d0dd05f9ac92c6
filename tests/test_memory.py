"""The estimate of device memory, and errors about insufficient memory."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program import memory
from mtf_imaging.errors import OutOfMemoryError

SHAPES = {"image": "batch:2,x:8", "weights": ("x:8,filters:3", tf.float64)}


def product(image, weights):
    return mi.mtf.reduce_sum(mi.mtf.cast(image, tf.float64) * weights, reduced_dim=weights.shape.dims[1])


@pytest.mark.parametrize(
    ("mesh", "layout", "impl", "slice_shape", "slice_bytes", "device_bytes", "total_bytes"),
    [
        # image 64 bytes, weights 192, image as float64 128, their product [batch, x, filters] 384, its sum 128
        ("rows:4", "", "stacked", (2, 8, 3), 384, 384, 896),
        ("rows:4", "x:rows", "stacked", (2, 2, 3), 96, 384, 896),  # four slices on one device equal the whole tensor
        ("rows:4", "x:rows", "placement", (2, 2, 3), 96, 96, 224),
        # Slices of 2, 2, 2, 2, 0 and 0 voxels are stored as 2 each, on two devices.
        ("rows:6", "x:rows", "placement", (2, 2, 3), 96, 288, 672),
        # Twelve processors with half a batch each; the weights are stored once.
        ("rows:6,cols:2", "batch:cols", "stacked", (1, 8, 3), 192, 2304, 12 * (32 + 64 + 192 + 64) + 192),
    ],
)
def test_the_demand_counts_the_slices_on_a_device(
    mesh, layout, impl, slice_shape, slice_bytes, device_bytes, total_bytes
):
    cpus = [device.name for device in tf.config.list_logical_devices("CPU")]
    program = mi.Program(product, SHAPES, mesh, layout, mesh_impl=impl, devices=cpus[:4])
    demand = program._demand
    assert (demand.slice_shape, demand.slice_bytes, demand.device_bytes) == (slice_shape, slice_bytes, device_bytes)
    assert (demand.shape, demand.num_tensors, demand.total_bytes) == ("batch:2,x:8,filters:3", 5, total_bytes)


def _refuse(shape, dtype):
    """Raises the error of TensorFlow immediately; TensorFlow itself waits 10 seconds for free memory."""
    raise tf.errors.ResourceExhaustedError(None, None, f"OOM when allocating tensor with shape{shape}")


@pytest.mark.parametrize("initializer", [_refuse, pytest.param(None, marks=pytest.mark.slow)], ids=["fast", "real"])
def test_the_error_about_a_too_large_variable_names_its_size(initializer):
    def fn(image):
        shape = mi.mtf.Shape([mi.mtf.Dimension("a", 2**50)])
        large = mi.mtf.get_variable(image.mesh, "large", shape, initializer=initializer)
        return mi.mtf.reduce_sum(image) + mi.mtf.reduce_sum(large)

    with pytest.raises(OutOfMemoryError) as error:
        mi.Program(fn, {"image": "x:4"})
    lines = str(error.value).splitlines()
    assert lines[0].startswith("out of memory: OOM when allocating tensor with shape[1125899906842624]")
    assert "'large:0' [a:1125899906842624], has slices of [1125899906842624], 4,096.0 TiB each" in lines[1]
    assert lines[2:] == [
        "  Fix: do one of the following:",
        "  - more processors: use a larger mesh_shape on more devices, or a layout that splits more dimensions",
        "  - processors in turns, of which a device keeps one at a time, such as mesh_shape='slabs:8', "
        "layout='x:slabs' and sequential='slabs'",
        "  - less work at once: use a smaller batch_size or more micro_batches",
        "  - smaller tensors: use a lower resolution, or halve the bytes with dtype='bfloat16'",
    ]
    settings = "mesh_shape", "layout", "sequential", "batch_size", "micro_batches", "resolution", "dtype"
    assert error.value.settings == settings


@pytest.mark.parametrize(
    ("mesh", "layout", "sequential", "devices", "in_turns"),
    [
        # The image and its square have 2 KiB together.
        ("", "", "", 1, "mesh_shape='slabs:4', layout='x:slabs' and sequential='slabs'"),
        ("rows:2", "x:rows", "", 2, "mesh_shape='rows:2,slabs:2', layout='x:rows,y:slabs' and sequential='slabs'"),
        ("rows:2", "x:rows", "", 1, "sequential='rows'"),
        ("rows:2,slabs:4", "y:rows,x:slabs", "slabs", 1, "mesh_shape='rows:2,slabs:8'"),
    ],
)
def test_the_error_names_turns_that_fit(monkeypatch, mesh, layout, sequential, devices, in_turns):
    monkeypatch.setattr(memory, "device_memory", lambda device: 600)
    cpus = [device.name for device in tf.config.list_logical_devices("CPU")][:devices]
    square, shapes = lambda image: mi.mtf.reduce_sum(mi.mtf.square(image)), {"image": "batch:1,x:16,y:4,channels:4"}
    program = mi.Program(
        square, shapes, mesh, layout, "auto" if sequential else "placement", cpus, sequential=sequential
    )

    def fail(*_):
        raise MemoryError("no memory")

    program.function = fail
    with pytest.raises(OutOfMemoryError) as error:
        program(image=np.zeros((1, 16, 4, 4)))
    way = "processors in turns, of which a device keeps one at a time, such as"
    assert f"\n  - {way} {in_turns}\n" in str(error.value)


def test_the_error_about_an_array_in_the_function_has_no_sizes():
    with pytest.raises(
        OutOfMemoryError, match=r"^out of memory: Unable to allocate 4\.00 PiB .*\n  Fix: do one of the following:"
    ):
        mi.Program(lambda image: image * float(np.zeros(2**50, np.float32)[0]), {"image": "x:4"})


def test_other_errors_of_a_call_are_not_converted():
    def fn(image):
        check = tf.debugging.assert_less
        return mi.mtf.cwise(lambda x: tf.identity(x) if check(x, 1.0) is None else x, [image])

    program = mi.Program(fn, {"image": "x:4"})
    program(image=np.zeros(4))
    with pytest.raises(tf.errors.InvalidArgumentError):
        program(image=np.full(4, 2.0))


@pytest.mark.slow  # TensorFlow waits 10 seconds for free memory before it raises an error
def test_a_program_runs_again_after_a_call_with_too_little_memory():
    """Limits the address space of a real process to 128 MiB more than it already uses."""
    script = """
        import resource, sys
        import numpy as np
        import mtf_imaging as mi
        from mtf_imaging.errors import OutOfMemoryError

        mtf = mi.mtf

        def fn(image, weights):
            return mtf.reduce_sum(image * weights)

        small = mi.Program(fn, {"image": "x:4", "weights": "y:4"}, "rows:2", "x:rows")
        small(image=np.ones(4), weights=np.ones(4))  # starts the threads, which also need memory
        program = mi.Program(fn, {"image": "x:8192", "weights": "y:8192"}, "rows:2", "x:rows")
        inputs = {"image": np.ones(8192), "weights": np.ones(8192)}
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, hard))
        try:
            program(**inputs)
        except OutOfMemoryError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        assert float(program(**inputs)) == 2.0**26
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("out of memory: OOM when allocating tensor with shape[2,4096,8192]")
    assert "[x:8192,y:8192], has slices of [4096, 8192], 128.0 MiB each, 256.0 MiB per device" in second
