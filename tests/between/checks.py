"""Functions that all processes of a group call, and the test itself: there with another mesh implementation.

All processes build and call the same programs in the same order. Comparisons come after all calls, so that a failed
assertion in one process does not leave the others waiting.
"""

import itertools
import zlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.records import stored
from mtf_imaging.data.records.chunks import METADATA, CheckedFolder
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes import collectives, moving, runtime
from mtf_imaging.engine.meshes import group as groups
from mtf_imaging.engine.meshes.transport import Message
from mtf_imaging.inference.averages import ensemble, flipped
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.frozen import Frozen
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD, Adam
from mtf_imaging.training.prediction import NetworkBuilder
from mtf_imaging.training.step import training_step
from tests.engine import harness
from tests.engine.meshes import processors
from tests.engine.ops import (
    differentiated,
    padded,
    partial_sums,
    sampled_boxes,
    test_ops_equal_whole,
    test_recompute,
    test_reshard,
    test_second_derivatives,
    test_top_k,
)
from tests.engine.upstream import even, uneven
from tests.jobs import together
from tests.models import test_unet3d

mtf = mi.mtf
CASES = {case.name: case for case in [*test_ops_equal_whole.CASES, *padded.CASES, *padded.MORE, *sampled_boxes.CASES]}
ROWS = {str(row): row for row in differentiated.ROWS}


def count_exchanges():
    """Returns how many instance keys this process has reserved; `Numbers` says why all processes need equal counts."""
    return runtime.current()._numbers._next_key


def numpy(results):
    """Converts tensors to arrays of types that can be sent to another process."""
    return tf.nest.map_structure(
        lambda x: (tf.cast(x, tf.float32) if x.dtype == tf.bfloat16 else tf.convert_to_tensor(x)).numpy(), results
    )


# Operations, compared with TensorFlow in every process.


def check_operation(name, dtype, mesh_shape, layout, mesh_impl="collective"):
    """Compares an operation and its gradients with TensorFlow."""
    harness.check(CASES[name], dtype, mesh_shape, layout, mesh_impl)


def check_sums(dtype, processors):
    """Compares sums over processors in 16 bits with float64."""
    for name in partial_sums.SUMS:
        partial_sums.check(name, dtype, processors, "collective")


def check_setting(setting, dtype):
    """Compares an operation of any size and its gradients with TensorFlow."""
    harness.check(setting.case(), dtype, *setting.layout, "collective")


def check_resharded(names, mesh_shape, layout):
    """Compares a program with `gather_slices` and `scatter_slices` with TensorFlow."""
    harness.check(test_reshard.case(names), "float64", mesh_shape, layout, "collective")


def check_top_k(k, mesh_shape, layout):
    """Compares the highest scores and their rows with TensorFlow."""
    test_top_k.assert_equal_reference(k, test_top_k.results(k, mesh_shape, layout, "collective"))


def check_second_derivatives(name, mesh_shape, layout):
    """Compares first and second derivatives of an operation with TensorFlow."""
    row = ROWS[name]
    values = test_second_derivatives.derivatives(row, mesh_shape, layout, "collective")
    expected = test_second_derivatives.reference(row)
    worst = [harness.difference(value, wanted) for value, wanted in zip(values, expected, strict=True)]
    assert max(worst) <= 1e-11, f"first and second gradients differ by {worst}"


# Operations of mesh_tensorflow.


def _shift_in_a_loop(a, b):
    return uneven._loop(lambda t: mtf.shift(t, 1, uneven.X, wrap=False) + t, a) * b


UNEVEN = {**uneven.OPS, "shift in a while_loop": _shift_in_a_loop}


def even_upstream(names, mesh_shape, layout, mesh_impl):
    """Returns {name: [value, gradients]} of operations on even slices."""
    fn, (a, b) = even.with_gradients({name: even.OPS[name] for name in names}), even.values()
    specs = {"a": (even.SHAPE, "float64"), "b": (even.SHAPE, "float64")}
    return numpy(mi.Program(fn, specs, mesh_shape, layout, mesh_impl)(a=a, b=b))


def uneven_upstream(names, mesh_shape, layout, mesh_impl):
    """Returns {name: [value, gradients]} of operations on slices of any size."""
    rng = np.random.default_rng(0)
    a, b = (rng.permutation(630).reshape(3, 7, 5, 6) / 630 - 0.5 for _ in range(2))
    fn = even.with_gradients({name: UNEVEN[name] for name in names})
    specs = {"a": (uneven.SHAPE, "float64"), "b": (uneven.SHAPE, "float64")}
    return numpy(mi.Program(fn, specs, mesh_shape, layout, mesh_impl)(a=a, b=b))


def reshaped(before, after, mesh_shape, layout, mesh_impl):
    """Returns the result of a reshape between dimensions, which are pairs (name, size)."""

    def fn(x):
        return mtf.reshape(x * 2, mtf.Shape([mtf.Dimension(*dim) for dim in after])) + 1

    x = np.arange(np.prod([n for _, n in before])).reshape([n for _, n in before])
    specs = {"x": (",".join(f"{name}:{n}" for name, n in before), "int32")}
    return numpy(mi.Program(fn, specs, mesh_shape, layout, mesh_impl)(x=x))


# Programs: inputs, outputs, variables and random numbers.


def copied(dtype, sizes, mesh_shape, layout, mesh_impl):
    """Imports and exports a tensor x, y, by `__call__` and in slices.

    Returns:
      (the region of this process, the copy of the region, the whole copy of a call, the joined copy of `call_slices`),
      where the joined copy was joined twice.
    """
    x = tf.cast(np.arange(np.prod(sizes)).reshape(sizes) % 7, dtype)
    spec = {"x": (f"x:{sizes[0]},y:{sizes[1]}", dtype)}
    program = mi.Program(lambda x: {"x": x, "none": mtf.zeros(x.mesh, [])}, spec, mesh_shape, layout, mesh_impl)
    region = [(part.start, part.stop) for part in program.region("x")]
    whole = program(x=x)["x"]
    slices = program.call_slices(**program.cut(x=x))
    joined, again = program.join(slices)["x"], program.join(slices)["x"]
    np.testing.assert_array_equal(numpy(joined), numpy(again))
    return region, numpy(slices["x"]), numpy(whole), numpy(joined)


def reductions(dtype, mesh_shape, layout, mesh_impl):
    """Returns sums and extreme values of a tensor, along each dimension and along both."""
    values = np.random.default_rng(0).integers(0, 9, (12, 8))  # bfloat16 represents sums up to 256
    x = tf.cast(values % 2 if dtype == "bool" else values, dtype)

    def fn(x):
        reduced = [[dim] for dim in x.shape.dims] + [x.shape.dims]
        kinds = (
            (mtf.reduce_all, mtf.reduce_any) if dtype == "bool" else (mtf.reduce_sum, mtf.reduce_max, mtf.reduce_min)
        )
        return [kind(x, output_shape=x.shape - dims) for kind in kinds for dims in reduced]

    return numpy(mi.Program(fn, {"x": ("x:12,y:8", dtype)}, mesh_shape, layout, mesh_impl)(x=x))


def _counting(x):
    """Counts in a variable that the layout splits, and returns values from before the assignment.

    A norm is called twice, so both calls update its moving statistics.
    """
    for value in (x, x * x):
        mi.ops.batch_norm(value, True, 0.75, name="norm")
    shape, zeros = x.shape, tf.zeros_initializer()
    counter = mtf.get_variable(x.mesh, "counter", shape, dtype=x.dtype, initializer=zeros)
    weights = mtf.get_variable(
        x.mesh, "weights", shape.dims[:1], dtype=x.dtype, initializer=tf.random_normal_initializer()
    )
    mtf.assign_add(counter, x * weights)
    return counter * 2 + weights


def _scaled(x):
    return mtf.get_variable(x.mesh, "weights", x.shape.dims[:1], dtype=x.dtype) * x


def variables(mesh_shape, layout, mesh_impl):
    """Returns outputs and variables of programs that share variables and are called alternately."""
    x, spec = np.arange(35.0).reshape(7, 5), {"x": ("x:7,y:5", "float64")}
    program = mi.Program(_counting, spec, mesh_shape, layout, mesh_impl, seed=3)
    shared = mi.Program(_scaled, spec, mesh_shape, layout, mesh_impl, variables=program)
    other = mi.Program(_counting, spec, mesh_impl=mesh_impl, variables=program)
    separate = mi.Program(_counting, spec, mesh_shape, layout, mesh_impl)
    results = []
    for step in range(3):
        results += [each(x=x + step) for each in (program, shared, other, separate, program, program)]
    values = {name: value for each in (program, separate) for name, value in each.variables.items()}
    assert shared.variables["weights"] is program.variables["weights"]
    return numpy((results, values, program.step))


def random_numbers(mesh_shape, layout, mesh_impl):
    """Returns random numbers and dropout masks of two steps."""

    def fn(x):
        zeros = tf.zeros_initializer()
        mtf.assign_add(mtf.get_variable(x.mesh, "calls", [], initializer=zeros), mtf.ones(x.mesh, []))
        return (
            mtf.random_uniform(x.mesh, x.shape, dtype=x.dtype),
            mtf.random_normal(x.mesh, x.shape, dtype=x.dtype),
            mi.ops.dropout(x, 0.5, name="dropout"),
            mtf.dropout(x, is_training=True, keep_prob=0.5),
            mtf.gradients([mtf.reduce_sum(mi.ops.dropout(x, 0.3) * mi.ops.dropout(x, 0.4))], [x])[0],
        )

    x, spec = np.arange(1.0, 71).reshape(2, 7, 5), {"x": ("batch:2,x:7,y:5", "float64")}
    program = mi.Program(fn, spec, mesh_shape, layout, mesh_impl)
    return numpy([program(x=x), program(x=x)])


def random_numbers_in_loops(mesh_shape, layout, mesh_impl):
    """Returns random numbers of the iterations of nested loops, and sums over processors within them."""

    def fn(x):
        def loop(body):
            start = [mtf.constant(x.mesh, 0, dtype=tf.int32), mtf.zeros_like(x)]
            return mtf.while_loop(lambda i, t: mtf.less(i, 3), lambda i, t: [i + 1, t * 2 + body(t)], start)[1]

        def body(t):
            drawn = mi.ops.dropout(x, 0.5) + mtf.random_normal(x.mesh, x.shape, dtype=x.dtype)
            return drawn * mtf.reduce_mean(drawn) + mtf.shift(t, 1, x.shape.dims[1], wrap=False)

        return loop(body), loop(lambda t: loop(body))

    x, spec = np.arange(1.0, 71).reshape(2, 7, 5), {"x": ("batch:2,x:7,y:5", "float64")}
    return numpy(mi.Program(fn, spec, mesh_shape, layout, mesh_impl)(x=x))


def parts_of_a_batch(mesh_shape, layout, mesh_impl):
    """Returns random numbers and outputs of two micro-batches."""

    def fn(x):
        return x * 2 + mtf.random_uniform(x.mesh, x.shape, dtype=x.dtype), mtf.reduce_sum(x)

    options = {"mesh_impl": mesh_impl, "part_of": ("batch", 2)}
    program = mi.Program(fn, {"x": ("batch:2,x:7", "float64")}, mesh_shape, layout, **options)
    x = np.arange(28.0).reshape(2, 2, 7)
    return numpy([program.call_part(i, x=x[i]) for i in range(2)])


def recomputed(mesh_shape, layout, mesh_impl):
    """Returns values, gradients and variables of a network that recomputes its activations."""
    options = {"mesh_shape": mesh_shape, "layout": layout, "mesh_impl": mesh_impl}
    return test_recompute.results(mi.ops.recompute, mi.ops.recompute, **options)


# Networks.

SIZES = (16, 8, 8)


def _batches(number, batch_size):
    return [test_unet3d.batch(SIZES, batch_size, seed) for seed in range(number)]


def _task(**settings):
    return LiverTumorSegmentation(UNet3D(base_filters=2, depth=3, convs=1, dropout_rate=0.5, **settings))


def gradients(mesh_shape, layout, mesh_impl):
    """Returns the loss, the measures and the gradients of a U-Net."""
    program = test_unet3d.build_program(_task(norm="batch"), SIZES, mesh_shape, layout, mesh_impl=mesh_impl)
    return numpy(program(**test_unet3d.batch(SIZES)))


def trained_in(dtype, steps, mesh_shape, layout, mesh_impl):
    """Returns the losses of a few steps, and the variables and the step number after them."""
    task = _task(norm="batch")
    program = mi.Program(
        training_step(task, SGD(0.1, momentum=0.9)),
        task.inputs(2, SIZES, dtype),
        *(mesh_shape, layout, mesh_impl),
        seed=3,
    )
    rows = [program(**{name: np.asarray(v) for name, v in batch.items()}) for batch in _batches(steps, 2)]
    return numpy((rows, program.variables, program.step))


def trained(mesh_shape, layout, mesh_impl):
    """Returns the results of three steps in float64."""
    return trained_in("float64", 3, mesh_shape, layout, mesh_impl)


def trained_in_micro_batches(count, mesh_shape, layout, mesh_impl):
    """Returns the losses of a few steps of several micro-batches, and the variables and the step number after them."""
    task = _task(norm="group", norm_groups=1)
    inputs = part_inputs(task.inputs(2 * count, SIZES, "float64"), count)
    options = {"layout": Layout.of(layout, mesh_shape), "mesh_impl": mesh_impl, "seed": 3}
    options |= {"frozen": Frozen("unet3d/down0"), "average_decay": 0.25}
    step = MicroBatches(task, SGD(0.1, momentum=0.9), inputs, count, **options)
    rows = []
    for batch in _batches(3, 2 * count):
        split = {name: np.split(value, count) for name, value in batch.items()}
        rows.append(step(parts=[{name: value[i] for name, value in split.items()} for i in range(count)]))
    return numpy((rows, step.program.variables, step.program.step))


def sums_of_a_step(mesh_shape, layout, norm):
    """Returns the number of elements of each sum over processes in the graph of a training step."""
    task = _task(norm=norm, norm_groups=1)
    program = mi.Program(training_step(task, SGD(0.1)), task.inputs(2, SIZES), mesh_shape, layout, "collective")
    ops = [op for op in program.function.graph.get_operations() if op.type == "CollectiveReduceV2"]
    return [op.inputs[0].shape.num_elements() for op in ops]


# The transport.


def unread_messages():
    """Exchanges messages of which only process 0 reads one; returns its value."""
    joined = runtime.current()
    num, own = joined.processes.num, joined.processes.index
    transport, results = joined.transport([num]), []

    @tf.function(autograph=False)
    def call(turn):
        transport.begin(turn)
        ring = [Message(i, (i + 1) % num, (3,), lambda _: tf.fill([3], float(own))) for i in range(num)]
        twice = [*ring, *(Message(i, (i + 1) % num, (2, 2), lambda _: tf.fill([2, 2], -1.0 - own)) for i in range(num))]
        values = [tf.zeros([3])]
        first, second = transport.exchange(ring, values), transport.exchange(twice, values)
        assert [i for i, value in enumerate(first) if value is not None] == [(own - 1) % num]
        (unread,) = transport.reduce([tf.constant([1.0, 2.0])], [0], "SUM")
        (everything,) = transport.gather([tf.fill([1, 2], own)], 0, 1)
        read = [first[num - 1], second[num - 1], second[-1], unread, everything] if own == 0 else []
        with tf.control_dependencies(transport.end()):
            return [tf.identity(value) for value in read] or [tf.constant(0.0)]

    for i in range(4):
        results.append(numpy(call(tf.constant(i % 2))))
    return results


def exchanged(messages, dtype):
    """Sends messages, triples (source, target, shape), twice; returns {number of a message: value} of this process."""
    joined = runtime.current()
    transport = joined.transport([joined.processes.num])

    def message(number, source, target, shape):
        return Message(source, target, shape, lambda _: tf.cast(message_value(number, shape), dtype))

    @tf.function(autograph=False)
    def call(turn):
        transport.begin(turn)
        for _ in range(2):
            values = [tf.zeros([], dtype)]
            results = transport.exchange([message(i, *each) for i, each in enumerate(messages)], values)
        with tf.control_dependencies(transport.end()):
            return {i: tf.identity(value) for i, value in enumerate(results) if value is not None}

    return {i: value.numpy().astype(np.float64) for i, value in call(tf.constant(0)).items()}


def message_value(number, shape):
    """Returns the value of a message."""
    return (np.arange(np.prod(shape)).reshape(shape) + 10 * number) % 100


def collective(name, sizes, *args, mesh=None):
    """Calls a function of `collectives` on distinct slices of all processors.

    Args:
      name: name of the function.
      sizes: sizes of the mesh.
      *args: further arguments of the function.
      mesh: None for a mesh of all processes, or a mesh in this process.

    Returns:
      {coordinates of a processor: its slice} of the processors of this process.
    """
    mesh = mesh or processors.make_collective_mesh(sizes)

    @tf.function(autograph=False)
    def call(turn):
        mesh.transport.begin(turn)
        stacks = processors.laid_out(mesh, processors.numbers(mesh, (24, 12))).tensor_list
        results = getattr(collectives, name)(stacks, mesh.transport, *args)
        with tf.control_dependencies(mesh.transport.end()):
            return [tf.identity(stack) for stack in results]

    slices = {}
    for shard, stack in zip(mesh.transport.coordinates, call(tf.constant(0)), strict=True):
        coordinates = mesh.grid.processor_coordinates(shard)
        values = np.broadcast_to(stack.numpy(), [len(coordinates), *stack.shape[1:]])
        slices |= dict(zip(coordinates, values, strict=True))
    return slices


# Regions of arrays, and slices of predictions.


def moved(sizes, have, want, dtype, message_bytes):
    """Moves regions of an array, whose elements are numbered; returns the region of this process."""
    group = groups.current()
    array = message_value(1, sizes).astype(dtype)
    before, moving._MESSAGE_BYTES = moving._MESSAGE_BYTES, message_bytes
    try:
        return group.move(array[have[group.index]], have, want)
    finally:
        moving._MESSAGE_BYTES = before


def predicted(sizes, flips, mesh_shape, layout):
    """Predicts an image by slices and as a whole, with flips, by an ensemble of two networks.

    Returns:
      (the region of this process, its probabilities by slices, the whole probabilities, the regions of all processes).
    """
    task = _task(norm="batch")
    settings = NetworkBuilder(task=task, dtype="float64", layout=Layout.of(layout, mesh_shape))
    networks = []
    for seed in range(2):
        inputs = task.inputs(1, sizes, dtype="float64", labels=False)
        networks.append(settings.network_of(mi.Program(task.predict, inputs, seed=seed), sizes))
    network = ensemble([flipped(each, ["xyz".index(axis) for axis in flips]) for each in networks])
    image = np.random.default_rng(0).random((*sizes, 1))
    whole, slices = network(image), network.slices(sizes)
    own = slices.group.index
    return own, slices.predict_image(image[slices.inputs[own]]), whole, slices.outputs


# Training on records, of which each process reads its region.

_JOB = LiverTumorSegmentation(UNet3D(base_filters=2, depth=1, convs=1, norm="group", norm_groups=1, dropout_rate=0.3))
_MOVED = Augmentation(flips=("x", "y", "z"), rotation=10, zoom=0.1, elastic=0.02, lesions=0.5, noise=0.05)


def trained_on_records(folder, options, steps, mesh_shape, layout, mesh_impl):
    """Returns losses.csv of a training on records, without times, and its final weights.

    Args:
      folder: folder of the records.
      options: arguments of `jobs.train`.
      steps: numbers of steps, after each of which the training starts again.
      mesh_shape, layout, mesh_impl: the layout, and where it runs.
    """
    # The folder of the run is the same in all processes, and a new one for each test.
    name = f"{Path(folder).name} {options} {steps} {mesh_shape} {layout}"
    model_dir = Path(folder).parent / f"{mesh_impl}-{zlib.crc32(name.encode()):x}"
    shared = {"task": _JOB, "optimizer": Adam(0.01), "dtype": "float64", "progress": False, "checkpoint_every": 2}
    data = mi.jobs.TrainingData(folder, Records(augmentation=_MOVED))
    where = {"layout": Layout.of(layout, mesh_shape), "devices": mi.jobs.Devices(mesh_impl=mesh_impl)}
    for num_steps in steps:
        mi.jobs.train(**shared | options, **where, data=data, model_dir=model_dir, num_steps=num_steps)
    return together.losses(model_dir), together.weights(model_dir)


def chunks_read_by_training(folder, augmentation, options, mesh_shape, layout, mesh_impl):
    """Returns the sorted paths of the chunks that this process reads for each sample, in a training of one step."""
    opened = []

    class Watched(CheckedFolder):
        def __init__(self, *args):
            super().__init__(*args)
            self.chunks = []
            opened.append(self.chunks)

        def read(self, name, *limit):
            if not name.endswith(METADATA):
                self.chunks.append(name)
            return super().read(name, *limit)

    model_dir = Path(folder).parent / f"chunks-{mesh_impl}-{zlib.crc32(f'{options} {mesh_shape} {layout}'.encode()):x}"
    data = mi.jobs.TrainingData(folder, Records(augmentation=augmentation))
    shared = {"task": _JOB, "optimizer": Adam(0.01), "progress": False, "num_steps": 1, "model_dir": model_dir}
    shared["class_frequencies"] = None  # process 0 would count the labels of whole cases first
    where = {"layout": Layout.of(layout, mesh_shape), "devices": mi.jobs.Devices(mesh_impl=mesh_impl)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "CheckedFolder", Watched)
        # One process counts the labels of whole cases first.
        patch.setattr("mtf_imaging.jobs.training.warn_of_labels", lambda *_: None)
        mi.jobs.train(**shared, **options, **where, data=data)
    return [sorted(chunks) for chunks in opened]


class _OwnVolumes:
    """A data set that reads regions, and whose whole batches must not be read."""

    title = ""

    def sizes(self, data_dir):
        return (8, 9, 6)

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        raise AssertionError("training reads whole batches")

    def region_batches(self, data_dir, *, batch_size, sizes, seed, start_step, regions):
        for first in itertools.count(start_step * batch_size, batch_size):
            numbers = range(first, first + batch_size)
            draws = [np.random.default_rng([seed, number]).integers(0, 3, sizes) for number in numbers]
            labels = np.stack(draws)[regions["labels"].slices]
            image = np.stack(draws)[..., np.newaxis][regions["image"].slices] / 2
            yield {"image": image, "labels": labels, "cases": [f"{self.title}{number}" for number in numbers]}


class _DifferentVolumes(_OwnVolumes):
    """A data set with equal settings, but different cases in each process."""

    @property
    def title(self):
        return f"process {runtime.current().processes.index}, case "


def trained_on_own_data(folder, options, mesh_shape, layout, mesh_impl):
    """Returns losses.csv of a training on a custom data set, without times, and its final weights."""
    model_dir = Path(folder) / f"{mesh_impl}-{zlib.crc32(f'{options} {mesh_shape}'.encode()):x}"
    where = {"layout": Layout.of(layout, mesh_shape), "devices": mi.jobs.Devices(mesh_impl=mesh_impl)}
    shared = {"task": _JOB, "optimizer": Adam(0.01), "dtype": "float64", "progress": False, "num_steps": 3}
    mi.jobs.train(**shared, **options, **where, data=mi.jobs.TrainingData(None, _OwnVolumes()), model_dir=model_dir)
    return together.losses(model_dir), together.weights(model_dir)


def layout_error(shape, mesh_shape, layout, mesh_impl):
    """Returns the message of a program that cannot be laid out."""
    try:
        mi.Program(lambda x: mi.ops.softmax(x, x.shape.dims[-1]), {"x": shape}, mesh_shape, layout, mesh_impl)
    except mi.LayoutError as error:
        return str(error)


def different_cases(folder):
    """Returns the message of a training whose processes read different cases."""
    data = mi.jobs.TrainingData(None, _DifferentVolumes())
    layout = Layout.parse(f"rows:{runtime.current().processes.num}", "x:rows")
    try:
        mi.jobs.train(task=_JOB, data=data, model_dir=Path(folder) / "different", layout=layout, progress=False)
    except mi.ConfigError as error:
        return str(error)
