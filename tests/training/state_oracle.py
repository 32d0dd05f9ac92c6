"""A training step in Keras and TensorFlow, whose whole state equals that of a training step here.

The task has what makes state go wrong: a convolution and a batch norm that a step calls twice, on inputs with different
means, and a variable that each call of the encoder updates with `mtf.assign_add`.
"""

import contextlib
import dataclasses

import keras
import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.training.optimizers import SGD, Adam, StepDecay
from mtf_imaging.training.step import TrainingStep, WeightRules

SIZE, BATCH, CHANNELS, FILTERS = 6, 4, 2, 3
EPSILON, MOMENTUM = 1e-3, 0.75
RATE, FACTOR, EVERY = 0.1, 0.5, 3
WEIGHTS = ("conv/filter", "norm/scale", "norm/offset", "head/weights", "head/bias")
STATISTICS = ("norm/moving_mean", "norm/moving_variance")


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a training step, and `keeps_statistics`, the expected effect of `frozen` on the norm."""

    optimizer: str = "sgd"
    clip_norm: float | None = None
    weight_decay: float = 0.0
    nesterov: bool = False
    average_decay: float | None = None
    frozen: str = ""
    frozen_weights: tuple[str, ...] = ()
    keeps_statistics: bool = False
    micro_batches: int = 1
    recompute: bool = False
    dtype: str = "float64"

    def build(self, layout: str, mesh_shape: str = "", mesh_impl: str = "auto"):
        """Returns the `BuiltStep` under a layout, with the values of `start`."""
        rate = StepDecay(RATE, FACTOR, EVERY)
        if self.optimizer == "adam":
            optimizer = Adam(rate, clip_norm=self.clip_norm)
        else:
            optimizer = SGD(rate, 0.75, self.nesterov, self.weight_decay, self.clip_norm)
        step = TrainingStep(
            Pairs(self.recompute),
            optimizer,
            (SIZE,),
            BATCH,
            self.micro_batches,
            self.dtype,
            weights=WeightRules(self.frozen, self.average_decay),
        )
        built = step.build(mi.Layout.parse(mesh_shape, layout), mesh_impl)
        for name, value in start().items():
            built.program.variables[name].assign(value)
        return built

    def parts(self, batch):
        """Returns the micro-batches of a batch."""
        split = {name: np.split(value, self.micro_batches) for name, value in batch.items()}
        return [{name: value[i] for name, value in split.items()} for i in range(self.micro_batches)]


class Pairs:
    """`loss = mean (head(mean over x of encode(image) encode(other)) - target)^2`."""

    def __init__(self, recompute):
        self._recompute = recompute

    def inputs(self, batch_size, sizes, *, dtype, labels):
        image = f"batch:{batch_size},x:{SIZE},channels:{CHANNELS}"
        return {"image": (image, dtype), "other": (image, dtype), "target": (f"batch:{batch_size}", "float64")}

    def loss(self, image, other, target):
        conv = mi.layers.Conv(FILTERS, use_bias=False, name="conv")
        norm = mi.layers.Norm("batch", epsilon=EPSILON, is_training=True, momentum=MOMENTUM, name="norm")
        scalar = mi.mtf.Shape([])
        seen = mi.mtf.get_variable(
            image.mesh, "seen", scalar, dtype=tf.float64, initializer=tf.zeros_initializer(), trainable=False
        )

        def encode(x):
            mi.mtf.assign_add(seen, mi.mtf.cast(mi.mtf.reduce_sum(x), tf.float64))
            return mi.mtf.relu(norm(conv(x)))

        first, second = (mi.ops.recompute(encode, x) if self._recompute else encode(x) for x in (image, other))
        features = mi.mtf.reduce_mean(first * second, output_shape=[image.shape.dims[0], first.shape.dims[-1]])
        value = mi.layers.Dense(1, name="head")(features)
        value = mi.mtf.cast(mi.mtf.reduce_sum(value, output_shape=target.shape), target.dtype)
        return mi.mtf.reduce_mean(mi.mtf.square(value - target)), {}

    def predict(self, image):
        raise NotImplementedError  # only trained


def start():
    """Returns initial values of the weights and of the moving statistics."""
    rng = np.random.default_rng(9)
    shapes = [(3, CHANNELS, FILTERS), (FILTERS,), (FILTERS,), (FILTERS, 1), (1,), (FILTERS,), (FILTERS,)]
    values = [rng.normal(size=shape) for shape in shapes]
    values[-1] = 1 + values[-1] ** 2  # a variance
    return dict(zip((*WEIGHTS, *STATISTICS), values, strict=True))


def batches(number):
    for step in range(number):
        rng = np.random.default_rng(step)
        image = rng.normal(size=(2, BATCH, SIZE, CHANNELS))
        yield {"image": image[0], "other": 8 + 3 * image[1], "target": rng.normal(size=BATCH)}


@contextlib.contextmanager
def _double_precision():
    """Within the block, Keras computes learning rates and decays of optimizers in float64."""
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(before)


class Oracle:
    """Trains in Keras and TensorFlow, from the values of `start`."""

    def __init__(self, config):
        self._config, self.step = config, 0
        layers = keras.layers
        policy = {"float64": "float64", "bfloat16": "mixed_bfloat16"}[config.dtype]
        self._conv = layers.Conv1D(FILTERS, 3, padding="same", use_bias=False, dtype=policy)
        self._norm = layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, dtype=policy)
        self._head = layers.Dense(1, dtype=policy)
        self._conv.build((None, SIZE, CHANNELS))
        self._norm.build((None, SIZE, FILTERS))
        self._head.build((None, FILTERS))
        norm = self._norm
        values = (self._conv.kernel, norm.gamma, norm.beta, self._head.kernel, self._head.bias)
        weights = dict(zip(WEIGHTS, values, strict=True))
        statistics = dict(zip(STATISTICS, (norm.moving_mean, norm.moving_variance), strict=True))
        self._variables, self._seen = weights | statistics, np.float64(0)
        for name, value in start().items():
            self._variables[name].assign(value)
        self._trained = {name: value for name, value in weights.items() if name not in config.frozen_weights}
        self._averages = {name: value.numpy() for name, value in self._trained.items()}
        self._schedule = keras.optimizers.schedules.ExponentialDecay(np.float64(RATE), EVERY, FACTOR, staircase=True)
        if config.optimizer == "adam":
            betas = np.float64(0.9), np.float64(0.999)  # Python numbers become float32
            self._optimizer = keras.optimizers.Adam(self._schedule, *betas, global_clipnorm=config.clip_norm)
        else:
            # Keras multiplies the gradients by the learning rate before it adds them to the velocity.
            self._rate = tf.Variable(RATE, dtype=tf.float64)
            self._optimizer = tf.compat.v1.train.MomentumOptimizer(self._rate, 0.75, use_nesterov=config.nesterov)

    def train(self, batch):
        """Computes a step; returns the loss before the update."""
        results = [self._gradients(**part) for part in self._config.parts(batch)]
        losses, gradients = zip(*results, strict=True)
        self._update([np.mean(each, 0) for each in zip(*gradients, strict=True)])
        self.step += 1
        # In Keras, the first step replaces the average, and the decay does not grow with the steps.
        decay = min(self._config.average_decay or 0, (1 + self.step) / (10 + self.step))
        for name, value in self._trained.items():
            self._averages[name] = decay * self._averages[name] + (1 - decay) * value.numpy()
        return np.mean(losses)

    def _encode(self, x):
        self._seen += x.sum()
        x = self._conv(x.astype(self._conv.compute_dtype))
        return tf.nn.relu(self._norm(x, training=not self._config.keeps_statistics))

    def _gradients(self, image, other, target):
        with tf.GradientTape() as tape:
            features = tf.reduce_mean(self._encode(image) * self._encode(other), 1)
            value = tf.cast(self._head(features)[:, 0], tf.float64)
            loss = tf.reduce_mean((value - target) ** 2)
        return loss.numpy(), [g.numpy() for g in tape.gradient(loss, [v.value for v in self._trained.values()])]

    def _update(self, gradients):
        variables = self._trained.values()
        if self._config.optimizer == "adam":
            # Keras adds epsilon before the correction of the bias, Kingma and Ba add it afterwards.
            self._optimizer.epsilon = 1e-8 * (1 - self._optimizer.beta_2 ** (self.step + 1)) ** 0.5
            self._optimizer.apply([tf.constant(g) for g in gradients], list(variables))
            return
        if self._config.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.clip_norm)
        decay = self._config.weight_decay  # Keras decays the weights without the velocity, and biases, too
        gradients = [g + decay * v.numpy() * (v.ndim > 1) for g, v in zip(gradients, variables, strict=True)]
        self._rate.assign(self._schedule(self.step))
        self._optimizer.apply_gradients((tf.constant(g), v.value) for g, v in zip(gradients, variables, strict=True))

    @property
    def state(self):
        """The whole state: {name here: value}."""
        state = {name: variable.numpy() for name, variable in self._variables.items()} | {"seen": self._seen}
        slots = {"mean": "momentum", "square": "velocity"} if self._config.optimizer == "adam" else {"velocity": None}
        for name, variable in self._trained.items():
            for own, theirs in slots.items():
                state[f"{name}/{own}"] = self._slot(variable, theirs)
            if self._config.average_decay:
                state[f"{name}/average"] = self._averages[name]
        return state | {"step": np.int64(self.step)}

    def _slot(self, variable, name):
        if self._config.optimizer == "sgd":
            return self._optimizer.get_slot(variable.value, "momentum").numpy()
        path = f"{variable.path.replace('/', '_')}_{name}"
        (slot,) = [each for each in self._optimizer.variables if each.path.rpartition("/")[2] == path]
        return slot.numpy()


def train(config, number):
    """Trains in Keras; returns (loss, whole state) after each step."""
    with _double_precision():
        oracle = Oracle(config)
        return [(oracle.train(batch), oracle.state) for batch in batches(number)]
