"""The reference: the network in plain TensorFlow, not partitioned, with its fused kernels."""

import tensorflow as tf

from benchmarks.partition import tensorflow_setup
from benchmarks.partition.networks import EPSILON, LEARNING_RATE, MOMENTUM, NEGATIVE_SLOPE


class Plain(tensorflow_setup.Memory):
    """The step as one `tf.function` on one device: forward, loss, backward, update."""

    xla = False

    def __init__(self, step, contender):
        tensorflow_setup.prepare()
        self._step = step
        self._weights = step.weights()
        self._inputs = tensorflow_setup.tensors(step)

    def build(self):
        self._weights = {name: tf.Variable(value) for name, value in self._weights.items()}
        self._moving = {
            f"{name}/{which}": tf.Variable(tf.fill(scale.shape, float(which == "variance")), trainable=False)
            for name, scale in self._weights.items()
            if name.endswith("scale")
            for which in ("mean", "variance")
        }
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        compiled = tf.function(self._train, autograph=False, jit_compile=self.xla)
        self._function = compiled.get_concrete_function(*self._inputs)
        self.nodes = len(self._function.graph.get_operations())

    def take(self):
        return float(self._function(*self._inputs))

    def _train(self, image, labels):
        self._assignments, self._drawn = [], 0
        if self._step.forward:
            return self._loss(image, labels)
        with tf.GradientTape() as tape:
            loss = self._loss(image, labels)
        variables = list(self._weights.values())
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            self._assignments.append(variable.assign_sub(LEARNING_RATE * gradient, read_value=False))
        self._assignments.append(self._count.assign_add(1, read_value=False))
        with tf.control_dependencies(self._assignments):
            return tf.identity(loss)

    def _loss(self, image, labels):
        logits = tf.cast(self._logits(image), tf.float32)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    def _logits(self, image):
        x, skips = image, []
        for level in range(self._step.depth):
            if level:
                skips.append(x)
                x = tf.nn.max_pool3d(x, 2, 2, "VALID")
            x = self._block(x, f"down{level}")
        for level in reversed(range(self._step.depth - 1)):
            skip, kernel = skips.pop(), self._weight(f"grow{level}/filter")
            x = tf.nn.conv3d_transpose(x, kernel, [*skip.shape[:4], kernel.shape[3]], 2)
            x = tf.nn.bias_add(x, self._weight(f"grow{level}/bias"))
            x = self._block(tf.concat([x, skip], -1), f"up{level}")
        return self._conv(x, "classes")

    def _block(self, x, name):
        for i in range(self._step.convs):
            x = self._conv(x, f"{name}/conv{i}")
            if self._step.batch_norm:
                x = self._norm(x, f"{name}/norm{i}")
            x = tf.nn.leaky_relu(x, NEGATIVE_SLOPE)
            if self._step.drops(name, i):
                x = self._dropout(x)
        return x

    def _weight(self, name):
        return tf.cast(self._weights[name], self._step.dtype)

    def _conv(self, x, name):
        x = tf.nn.conv3d(x, self._weight(f"{name}/filter"), [1] * 5, "SAME")
        return tf.nn.bias_add(x, self._weight(f"{name}/bias")) if f"{name}/bias" in self._weights else x

    def _norm(self, x, name):
        # Keras and tf.compat.v1.nn.fused_batch_norm call this kernel, but the latter rejects epsilons below 1e-5.
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=self._weights[f"{name}/scale"],
            offset=self._weights[f"{name}/offset"],
            mean=tf.zeros([0]),
            variance=tf.zeros([0]),
            epsilon=EPSILON,
            data_format="NDHWC",
        )
        for which, value in (("mean", mean), ("variance", variance)):
            moving = self._moving[f"{name}/scale/{which}"]
            change = (value - moving) * (1 - MOMENTUM)
            self._assignments.append(moving.assign_add(change, read_value=False))
        return y

    def _dropout(self, x):
        self._drawn += 1
        seed = tf.stack([self._count, tf.constant(self._drawn, tf.int64)])
        return tf.nn.experimental.stateless_dropout(x, self._step.dropout_rate, seed)


class PlainXla(Plain):
    """The same step, compiled by XLA."""

    xla = True
