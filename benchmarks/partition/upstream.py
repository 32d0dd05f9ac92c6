"""The mesh_tensorflow contender: the same network built from its layers with blocks, on its `PlacementMeshImpl`.

It runs in a graph and a session, and trains the slices of the variables. It splits only x and y.
"""

import importlib
import sys
from types import ModuleType

import gin
import tensorflow as tf

import mtf_imaging.engine.compat  # noqa: F401 - restores what mesh_tensorflow needs and TensorFlow has removed
from benchmarks.partition.networks import CLASSES, EPSILON, KERNEL, LEARNING_RATE, MOMENTUM, NEGATIVE_SLOPE


def _import_again() -> ModuleType:
    """Imports another copy of mesh_tensorflow, because mtf_imaging has replaced functions and gradients of the first.

    Those of mtf_imaging create operations that only its own meshes can lower.
    """
    first = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == "mesh_tensorflow"}
    gin.enter_interactive_mode()  # because the copy registers the same names
    try:
        importlib.import_module("mesh_tensorflow.placement_mesh_impl")
        return sys.modules["mesh_tensorflow"]
    finally:
        gin.exit_interactive_mode()
        sys.modules.update(first)


mtf, v1 = _import_again(), tf.compat.v1
# {variable name in its layers: name in `Step.shapes`}
_NAMES = {"kernel": "filter", "bias": "bias", "batch_norm_scale": "scale", "batch_norm_bias": "offset"}


class Upstream:
    """The network built from mesh_tensorflow's convolutions, pools, batch norms, leaky ReLUs and softmax."""

    def __init__(self, step, contender):
        if len(contender.mesh) > 2:
            raise NotImplementedError("the convolutions of mesh_tensorflow split at most two spatial dimensions")
        self._step, self._contender, self._mesh_impl_class = step, contender, mtf.placement_mesh_impl.PlacementMeshImpl
        gpus = len(tf.config.list_physical_devices("GPU"))
        kind, number = ("GPU", gpus) if gpus else ("CPU", contender.processors)
        self._devices = [f"/device:{kind}:{i % number}" for i in range(contender.processors)]
        self._config = v1.ConfigProto(device_count={"CPU": contender.processors})
        self._image, self._labels = step.inputs()
        self._weights = step.weights()

    def build(self):
        with tf.Graph().as_default() as graph:
            self._session = v1.Session(config=self._config)
            self._fed = v1.placeholder(tf.float32, self._image.shape), v1.placeholder(tf.int32, self._labels.shape)
            self._fetched, masters, copy = self._graph()
            values = {name: self._value(name) for name in masters}
            given = {masters[name].initializer.inputs[1]: v for name, v in values.items() if v is not None}
            self._session.run([master.initializer for master in masters.values()], given)
            self._session.run(copy)
        self.nodes = len(graph.get_operations())

    def take(self):
        loss, _ = self._session.run(self._fetched, dict(zip(self._fed, (self._image, self._labels))))
        return float(loss)

    def device_peak(self):
        return None  # sessions do not report this

    def others(self):
        return {}

    def _graph(self):
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        self._updates = []
        image, labels = self._imported(mesh)
        self._dtype = mtf.VariableDType(tf.float32, tf.float32, image.dtype)
        logits = mtf.cast(self._logits(image), tf.float32)
        losses = mtf.layers.softmax_cross_entropy_with_logits(logits, labels, logits.shape.dims[-1])
        loss = mtf.reduce_mean(losses)
        variables = graph.trainable_variables
        gradients = mtf.gradients([loss], [v.outputs[0] for v in variables])
        self._updates += mtf.optimize.SgdOptimizer(LEARNING_RATE).apply_grads(gradients, variables)
        masters = {variable.name: variable.get_master() for variable in graph.all_variables}

        shape = mtf.convert_to_shape(list(zip(("rows", "cols"), self._contender.mesh)))
        layout = mtf.convert_to_layout_rules(list(zip(("x_blocks", "y_blocks"), ("rows", "cols")))[: len(shape.dims)])
        impl = self._mesh_impl_class(shape, layout, self._devices)
        lowering = mtf.Lowering(graph, {mesh: impl})
        fetched = lowering.export_to_tf_tensor(loss), [lowering.lowered_operation(op) for op in self._updates]
        return fetched, masters, lowering.copy_masters_to_slices()

    def _imported(self, mesh):
        """Returns the image `[batch, x_blocks, y_blocks, x, y, z, channels]` and labels, one block per processor."""
        (batch, *sizes), blocks = self._labels.shape, [*self._contender.mesh, 1][:2]
        inner = [sizes[0] // blocks[0], sizes[1] // blocks[1], sizes[2]]
        names = ("batch", "x_blocks", "y_blocks", "x", "y", "z")
        dims = [mtf.Dimension(name, size) for name, size in zip(names, (batch, *blocks, *inner))]
        self._blocks = dims[1:3]

        def imported(whole, *channels):
            parts = tf.reshape(
                whole, [batch, blocks[0], inner[0], blocks[1], inner[1], inner[2], *(c.size for c in channels)]
            )
            parts = tf.transpose(parts, [0, 1, 3, 2, 4, 5, *([6] if channels else [])])
            return mtf.import_tf_tensor(mesh, parts, mtf.Shape([*dims, *channels]))

        image, labels = self._fed
        return imported(tf.cast(image, self._step.dtype), mtf.Dimension("image", 1)), imported(labels)

    def _value(self, name):
        """Returns the initial value of a variable; None if mesh_tensorflow initializes it."""
        scope, _, last = name.rpartition("/")
        return self._weights.pop(f"{scope}/{_NAMES.get(last)}", None)

    def _logits(self, image):
        x, skips = image, []
        for level in range(self._step.depth):
            if level:
                skips.append(x)
                x = mtf.layers.max_pool3d(x, (2, 2, 2))
            x = self._block(x, f"down{level}", level)
        for level in reversed(range(self._step.depth - 1)):
            x = self._conv_transpose(x, f"grow{level}", self._step.filters(level))
            skip = mtf.rename_dimension(skips.pop(), f"down{level}/conv{self._step.convs - 1}", "joined")
            x = mtf.concat([mtf.rename_dimension(x, f"grow{level}", "joined"), skip], "joined")
            x = self._block(x, f"up{level}", level)
        return self._biased(self._conv(x, "classes", CLASSES, 1), "classes")

    def _block(self, x, name, level):
        for i in range(self._step.convs):
            scope = f"{name}/conv{i}"
            x = self._conv(x, scope, self._step.filters(level), KERNEL)
            if self._step.batch_norm:
                x, updates = mtf.layers.batch_norm(x, True, MOMENTUM, EPSILON, name=f"{name}/norm{i}")
                self._updates += updates
            else:
                x = self._biased(x, scope)
            x = mtf.leaky_relu(x, NEGATIVE_SLOPE)
            if self._step.drops(name, i):
                x = mtf.dropout(x, True, keep_prob=1 - self._step.dropout_rate)
        return x

    def _conv(self, x, name, filters, kernel):
        return mtf.layers.conv3d_with_blocks(
            x,
            mtf.Dimension(name, filters),
            filter_size=(kernel,) * 3,
            d_blocks_dim=self._blocks[0],
            h_blocks_dim=self._blocks[1],
            variable_dtype=self._dtype,
            name=name,
        )

    def _conv_transpose(self, x, name, filters):
        y = mtf.layers.conv3d_transpose_with_blocks(
            x,
            mtf.Dimension(name, filters),
            d_blocks_dim=self._blocks[0],
            h_blocks_dim=self._blocks[1],
            variable_dtype=self._dtype,
            name=name,
        )
        return self._biased(y, name)

    def _biased(self, x, scope):
        with v1.variable_scope(scope):
            shape = mtf.Shape(x.shape.dims[-1:])
            return x + mtf.get_variable(x.mesh, "bias", shape, dtype=self._dtype, initializer=tf.zeros_initializer())
