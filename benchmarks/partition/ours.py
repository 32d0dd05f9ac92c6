"""The contenders of mtf_imaging: the network in `models/unet3d` with the training step of the package."""

import functools

import tensorflow as tf

import mtf_imaging as mi
from benchmarks.partition import tensorflow_setup
from benchmarks.partition.networks import CLASSES, EPSILON, KERNEL, LEARNING_RATE, MOMENTUM, NEGATIVE_SLOPE
from mtf_imaging.engine.meshes.halo import planning
from mtf_imaging.engine.meshes.halo.writing import Write
from mtf_imaging.models.unet3d import UNet3D
from mtf_imaging.training.gradients import training_step
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import TrainingStep

_SCOPE = "unet3d"


class _Task:
    """A `training.task.Task`: the network with the mean cross entropy over all voxels as its loss."""

    def __init__(self, step):
        self._step = step
        self._network = UNet3D(
            classes=CLASSES,
            base_filters=step.base_filters,
            depth=step.depth,
            convs=step.convs,
            kernel_size=KERNEL,
            norm="batch" if step.batch_norm else "none",
            norm_momentum=MOMENTUM,
            norm_epsilon=EPSILON,
            negative_slope=NEGATIVE_SLOPE,
            dropout_rate=step.dropout_rate,
        )

    def inputs(self, *options, **others):
        """Returns the inputs of this step, regardless of the arguments."""
        del options, others
        volume = f"batch:{self._step.batch}," + ",".join(f"{n}:{size}" for n, size in zip("xyz", self._step.sizes))
        return {"image": (f"{volume},channels:1", self._step.dtype), "labels": (volume, tf.int32)}

    def predict(self, image):
        raise NotImplementedError("the benchmark only trains")

    def loss(self, image, labels):
        logits = self._network(image, is_training=True)
        logits = mi.mtf.cast(logits, mi.ops.master_dtype(logits.dtype))
        losses = mi.ops.sparse_softmax_cross_entropy(logits, labels, logits.shape.dims[-1])
        return mi.mtf.reduce_mean(losses), {}


def describe_step(step):
    """Returns the `TrainingStep` of a step, which the planner can trace."""
    return TrainingStep(_Task(step), SGD(LEARNING_RATE, momentum=0.0), step.sizes, step.batch, dtype=step.dtype)


def build_program(step, contender, mesh_impl, **options):
    """Returns the `Program` of a step under a contender's mesh and layout, with more options of `Program`."""
    task = _Task(step)

    def loss(image, labels):
        return {"loss": task.loss(image, labels)[0]}

    return mi.Program(
        loss if step.forward else training_step(task, SGD(LEARNING_RATE, momentum=0.0)),
        task.inputs(),
        mesh_shape=contender.mesh_shape,
        layout=contender.layout,
        mesh_impl=mesh_impl,
        **options,
    )


class Stacked(tensorflow_setup.Memory):
    """The contender with all processors on one device."""

    mesh_impl = "stacked"

    def __init__(self, step, contender):
        self._step, self._contender, self._program = step, contender, None
        self._prepare()
        self._inputs = dict(zip(("image", "labels"), tensorflow_setup.tensors(step)))
        self._weights = step.weights()

    def _prepare(self):
        tensorflow_setup.prepare()

    def build(self):
        self._program = build_program(self._step, self._contender, self.mesh_impl, **self._options())
        self.nodes = self._program.num_nodes
        variables = {name: v for name, v in self._program.variables.items() if v.trainable}
        for name, value in self._weights.items():
            variables.pop(f"{_SCOPE}/{name}").assign(value)
        if variables:
            raise ValueError(f"the description of the network lacks {', '.join(variables)}")

    def _options(self):
        return {}

    def take(self):
        return float(self._program(**self._inputs)["loss"])


class InTurns(Stacked):
    """The contender with processors that take turns."""

    def _options(self):
        return {"sequential": ",".join(name for name, _ in mi.layout.parse_shape(self._contender.mesh_shape))}


class Xla(Stacked):
    """The stacked contender, compiled by XLA."""

    def _options(self):
        return {"xla": True}


class Placement(Stacked):
    """The contender with one processor per device: GPUs, or logical devices of the CPU."""

    mesh_impl = "placement"

    def _prepare(self):
        tensorflow_setup.prepare(self._contender.processors)


class NoHalo(Stacked):
    """The stacked contender without exchanges: halos keep their padding, and gradients do not reach neighbors."""

    def build(self):
        Write.widen = lambda self, mesh, x, fill: x
        Write.narrow = lambda self, mesh, dx: dx
        planning.plan = functools.partial(planning.plan, gathers=False)
        super().build()
