"""Optimizers equal their formulas in NumPy, and the base class supports custom optimizers."""

from importlib import import_module

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.errors import ConfigError, TrainingError
from mtf_imaging.training import optimizers
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.frozen import Frozen
from mtf_imaging.training.step import training_step
from tests.training import linear

STEPS = 12
DECAY = optimizers.StepDecay(0.05, factor=0.5, every=4)


def gradient(w, image, target):
    return 2 / len(target) * image.T @ (image @ w - target)


def sgd(w, inputs, momentum):
    velocity = np.zeros_like(w)
    for step, batch in enumerate(inputs):
        velocity = momentum * velocity + gradient(w, **batch)
        w = w - DECAY(step) * velocity
    return w


def nesterov(w, inputs, momentum):
    velocity = np.zeros_like(w)
    for step, batch in enumerate(inputs):
        g = gradient(w, **batch)
        velocity = momentum * velocity + g
        w = w - DECAY(step) * (g + momentum * velocity)
    return w


def adam(w, inputs, beta1, beta2, epsilon):
    mean, square = np.zeros_like(w), np.zeros_like(w)
    for step, batch in enumerate(inputs):
        g = gradient(w, **batch)
        mean, square = beta1 * mean + (1 - beta1) * g, beta2 * square + (1 - beta2) * g**2
        unbiased = mean / (1 - beta1 ** (step + 1)), square / (1 - beta2 ** (step + 1))
        w = w - DECAY(step) * unbiased[0] / (np.sqrt(unbiased[1]) + epsilon)
    return w


@pytest.mark.parametrize("layout", [("", ""), ("rows:2,cores:2", "x:rows,batch:cores")], ids=str)
@pytest.mark.parametrize(
    ("optimizer", "formula"),
    [
        (optimizers.SGD(DECAY, momentum=0.0), lambda w, inputs: sgd(w, inputs, 0.0)),
        (optimizers.SGD(DECAY, momentum=0.8), lambda w, inputs: sgd(w, inputs, 0.8)),
        (optimizers.SGD(DECAY, momentum=0.8, nesterov=True), lambda w, inputs: nesterov(w, inputs, 0.8)),
        (optimizers.SGD(DECAY, momentum=0.0, nesterov=True), lambda w, inputs: sgd(w, inputs, 0.0)),
        (optimizers.SGD(DECAY, momentum=0.8, weight_decay=0.5), lambda w, inputs: sgd(w, inputs, 0.8)),  # 1-D weights
        (optimizers.Adam(DECAY, 0.8, 0.99, 1e-3), lambda w, inputs: adam(w, inputs, 0.8, 0.99, 1e-3)),
    ],
    ids=["sgd", "momentum", "nesterov", "nesterov without momentum", "decay", "adam"],
)
def test_a_run_equals_the_formula(optimizer, formula, layout):
    program = linear.program(optimizer, *layout)
    weights = program.variables["linear/weights"]
    want = formula(weights.numpy(), linear.take(STEPS))
    for batch in linear.take(STEPS):
        program(**batch)
    np.testing.assert_allclose(weights, want, rtol=1e-12)


@pytest.mark.parametrize(
    ("optimizer", "names"),
    [
        (optimizers.SGD(0.1, momentum=0.0), set()),
        (optimizers.SGD(0.1), {"linear/weights/velocity"}),
        (optimizers.Adam(0.1), {"linear/weights/mean", "linear/weights/square"}),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_slot_names_match_existing_checkpoints(optimizer, names):
    variables = linear.program(optimizer).variables
    assert set(variables) - {"linear/weights"} == names
    assert [name for name, variable in variables.items() if variable.trainable] == ["linear/weights"]


class Layer(linear.Linear):
    """`loss = mean (sum over outputs of tanh(image kernel + bias) - target)^2`, with a kernel and a bias."""

    def loss(self, image, target):
        outputs = mi.mtf.Dimension("outputs", 4)
        normal = tf.compat.v1.random_normal_initializer()
        shapes = {"kernel": mi.mtf.Shape([*image.shape.dims[1:], outputs]), "bias": mi.mtf.Shape([outputs])}
        kernel, bias = (
            mi.mtf.get_variable(image.mesh, name, shape, dtype=image.dtype, initializer=normal)
            for name, shape in shapes.items()
        )
        hidden = mi.mtf.einsum([image, kernel], output_shape=mi.mtf.Shape([*target.shape.dims, outputs]))
        error = mi.mtf.reduce_sum(mi.mtf.tanh(hidden + bias), output_shape=target.shape) - target
        return mi.mtf.reduce_mean(mi.mtf.square(error)), {}


def tensorflow_momentum(schedule, use_nesterov):
    """Returns a function that updates variables with TensorFlow 1's optimizer, which takes the rate of each step."""
    rate = tf.Variable(0.0, dtype=tf.float64)
    optimizer = tf.compat.v1.train.MomentumOptimizer(rate, 0.75, use_nesterov=use_nesterov)

    def update(step, gradients, variables):
        rate.assign(schedule(step))
        optimizer.apply_gradients(zip(gradients, variables))

    return update


def keras_sgd(schedule, use_nesterov):
    optimizer = tf.keras.optimizers.SGD(schedule(0), 0.75, nesterov=use_nesterov)
    return lambda step, gradients, variables: optimizer.apply_gradients(zip(gradients, variables))


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("layout", [("", ""), ("rows:2,cols:2,cores:2", "x:rows,outputs:cols,batch:cores")], ids=str)
@pytest.mark.parametrize("use_nesterov", [False, True], ids=["momentum", "nesterov"])
@pytest.mark.parametrize(
    ("make", "schedule"),
    [
        (tensorflow_momentum, DECAY),
        (keras_sgd, optimizers.StepDecay(0.0625, factor=1.0, every=4)),  # Keras keeps the rate in float32
    ],
    ids=["tensorflow", "keras"],
)
def test_sgd_equals_tensorflow_with_a_decay_of_the_kernels_in_the_loss(make, schedule, use_nesterov, layout):
    optimizer = optimizers.SGD(schedule, momentum=0.75, nesterov=use_nesterov, weight_decay=0.25)
    program = linear.program(optimizer, *layout, task=Layer())
    kernel, bias = (tf.Variable(program.variables[name].numpy()) for name in ("kernel", "bias"))
    update = make(schedule, use_nesterov)
    for step, batch in enumerate(linear.take(STEPS)):
        with tf.GradientTape() as tape:
            error = tf.reduce_sum(tf.tanh(batch["image"] @ kernel + bias), 1) - batch["target"]
            loss = tf.reduce_mean(error**2)
            total = loss + 0.25 / 2 * tf.reduce_sum(kernel**2)
        update(step, tape.gradient(total, [kernel, bias]), [kernel, bias])
        np.testing.assert_allclose(program(**batch)["loss"], loss, rtol=1e-9)
    np.testing.assert_allclose(program.variables["kernel"], kernel, rtol=1e-9)
    np.testing.assert_allclose(program.variables["bias"], bias, rtol=1e-9)


@pytest.mark.parametrize("layout", [("", ""), ("rows:2,cols:2,cores:2", "x:rows,outputs:cols,batch:cores")], ids=str)
def test_adam_with_weight_decay_equals_adamw_of_keras(layout):
    optimizer = optimizers.Adam(0.0625, 0.75, 0.875, 1e-12, weight_decay=0.25)  # Keras adds epsilon to another term
    program = linear.program(optimizer, *layout, task=Layer())
    kernel, bias = (tf.Variable(program.variables[name].numpy()) for name in ("kernel", "bias"))
    adamw = tf.keras.optimizers.AdamW(0.0625, 0.25, 0.75, 0.875, 1e-12)
    adamw.exclude_from_weight_decay(var_list=[bias])
    for batch in linear.take(STEPS):
        with tf.GradientTape() as tape:
            error = tf.reduce_sum(tf.tanh(batch["image"] @ kernel + bias), 1) - batch["target"]
            loss = tf.reduce_mean(error**2)
        adamw.apply_gradients(zip(tape.gradient(loss, [kernel, bias]), [kernel, bias]))
        np.testing.assert_allclose(program(**batch)["loss"], loss, rtol=1e-6)
    np.testing.assert_allclose(program.variables["kernel"], kernel, rtol=1e-6)
    np.testing.assert_allclose(program.variables["bias"], bias, rtol=1e-6)


@pytest.mark.parametrize("decay", [-0.1, float("nan"), float("inf"), "0.1", True, None], ids=str)
def test_an_invalid_weight_decay_is_refused(decay):
    with pytest.raises(ConfigError, match=f"SGD.weight_decay = {decay!r}: it must be a number of at least 0."):
        optimizers.SGD(0.1, weight_decay=decay)


class Adagrad(optimizers.Optimizer):
    """A custom optimizer with shared values, slots, and slots of another shape than the variable."""

    def __init__(self, learning_rate, power):
        super().__init__(learning_rate)
        self.power = power

    def prepare(self, step):
        self.warm_up = mi.mtf.cwise(lambda t: 1 - 0.5 ** (t + 1), [step])

    def update(self, gradient, variable, step):
        square, count = self.slot(variable, "square"), self.slot(variable, "count", mi.mtf.Shape([]))
        total = square + mi.mtf.square(gradient)
        mi.mtf.assign(square, total)
        mi.mtf.assign(count, count + 1)
        change = gradient * mi.mtf.pow(total, -self.power) * mi.mtf.cast(self.rate * self.warm_up, gradient.dtype)
        mi.mtf.assign_sub(variable, change + variable.value * 0.01 / (mi.mtf.cast(step, gradient.dtype) + 1))


@pytest.mark.parametrize("layout", [("", ""), ("rows:2,cores:2", "x:rows,batch:cores")], ids=str)
def test_a_custom_optimizer_overrides_only_public_methods(tmp_path, layout):
    program = linear.program(Adagrad(DECAY, 0.5), *layout)
    w, total = program.variables["linear/weights"].numpy(), 0.0
    for step, batch in enumerate(linear.take(STEPS)):
        program(**batch)
        g = gradient(w, **batch)
        total = total + g**2
        w = w - DECAY(step) * (1 - 0.5 ** (step + 1)) * g / np.sqrt(total) - w * 0.01 / (step + 1)
        np.testing.assert_allclose(program.variables["linear/weights"], w, rtol=1e-12)
    assert program.variables["linear/weights/count"].numpy() == STEPS
    Checkpoints(tmp_path, program).save()
    restored = linear.program(Adagrad(DECAY, 0.5))
    assert Checkpoints(tmp_path, restored).restore() == STEPS
    for name, variable in program.variables.items():
        np.testing.assert_array_equal(restored.variables[name], variable, err_msg=name)


def test_an_optimizer_without_update_is_refused():
    class Idle(optimizers.Optimizer):
        def _update(self, gradient, variable, step):
            pass

    with pytest.raises(ConfigError) as error:
        linear.program(Idle(0.1))
    assert str(error.value) == ("Idle has no method update. Fix: define Idle.update(self, gradient, variable, step).")


@pytest.mark.parametrize("rate", ["fast", None, optimizers.StepDecay], ids=str)
def test_an_invalid_learning_rate_is_refused(rate):
    for optimizer in (optimizers.SGD, optimizers.Adam, optimizers.Adafactor):
        with pytest.raises(ConfigError, match=r"learning rate .*: it must be a number, or a function of the step such"):
            optimizer(rate)


def test_a_weight_that_the_loss_does_not_use_is_reported():
    class Idle(linear.Linear):
        def loss(self, image, target):
            linear.Linear(name="unused").loss(image, target)
            return super().loss(image, target)

    with pytest.raises(TrainingError, match="the loss does not depend on unused/weights"):
        linear.program(optimizers.SGD(0.1), task=Idle())


@pytest.mark.parametrize("layout", [("", ""), ("rows:2,cols:2,cores:2", "x:rows,outputs:cols,batch:cores")], ids=str)
def test_gradients_are_clipped_by_their_common_norm(layout):
    (batch,) = linear.take(1)
    gradients = recorded(batch)
    want, norm = tf.clip_by_global_norm(gradients, 0.5)
    assert 0.5 < norm < 100
    np.testing.assert_allclose(
        np.concatenate([g.ravel() for g in recorded(batch, 0.5, layout)]),
        np.concatenate([g.numpy().ravel() for g in want]),
        rtol=1e-12,
    )
    for got, whole in zip(recorded(batch, 100, layout), gradients):
        np.testing.assert_allclose(got, whole, rtol=1e-12)


@pytest.mark.parametrize("size", [4e20, 1e-30, 3e38])
@pytest.mark.parametrize("layout", [("", ""), ("rows:2", "outputs:rows")], ids=str)
def test_the_norm_of_extreme_gradients_is_exact(layout, size):
    """Squares of 4e20 are infinite in float32, and those of 1e-30 are 0."""
    gradient = np.float32(size) * np.linspace(0.2, 1, 6, dtype=np.float32)
    clip = size / 8

    def fn(gradient):
        shape, zeros = gradient.shape, tf.zeros_initializer()
        mi.mtf.get_variable(gradient.mesh, "w", shape, initializer=zeros)
        mi.mtf.get_variable(gradient.mesh, "v", shape, initializer=zeros)
        norm = optimizers.SGD(1.0, 0.0, clip_norm=clip).apply([gradient] * 2, gradient.graph.trainable_variables)
        return {"norm": norm}

    program = mi.Program(fn, {"gradient": "outputs:6"}, *layout)
    norm = np.sqrt(2 * np.sum(gradient.astype(np.float64) ** 2))
    assert program(gradient=gradient)["norm"].numpy() == pytest.approx(norm, rel=1e-6)
    for name in ("w", "v"):
        np.testing.assert_allclose(program.variables[name], -gradient.astype(np.float64) * clip / norm, rtol=1e-6)


def test_clipping_gives_the_same_bits_as_without_scaling():
    rng = np.random.default_rng(0)
    gradients = [rng.normal(0, 10.0**power, 100).astype(np.float32) for power in (-3, 0, 2)]
    gradients[2][0] = 1.75 * 2**10  # a scale that is no power of 2 would round

    def fn(**gradients):
        for name, gradient in gradients.items():
            mi.mtf.get_variable(gradient.mesh, name, gradient.shape, initializer=tf.zeros_initializer())
        optimizer = optimizers.SGD(1.0, 0.0, clip_norm=7.0)
        return optimizer.apply([*gradients.values()], next(iter(gradients.values())).graph.trainable_variables)

    program = mi.Program(fn, {f"g{number}": "n:100" for number in range(3)})
    norm = program(**{f"g{number}": gradient for number, gradient in enumerate(gradients)})
    squares = [tf.cast(tf.reduce_sum(tf.square(gradient)), tf.float64) for gradient in gradients]
    assert norm.numpy() == tf.sqrt(tf.add_n(squares)).numpy()
    for number, gradient in enumerate(gradients):
        want = gradient * tf.cast(7.0 / norm, tf.float32)
        np.testing.assert_array_equal(program.variables[f"g{number}"], -want)


def recorded(batch, clip_norm=None, layout=("", "")):
    """Returns the gradients of the kernel and the bias that an optimizer gets."""
    program = linear.program(_Recorded(clip_norm), *layout, task=Layer())
    program(**batch)
    return [program.variables[f"{name}/gradient"].numpy() for name in ("kernel", "bias")]


@pytest.mark.parametrize(
    "optimizer", [optimizers.SGD(0.1, 0.0, clip_norm=1e-3), optimizers.Adam(0.1, epsilon=1.0, clip_norm=1e-3)]
)
def test_optimizers_pass_the_norm_on(optimizer):
    program = linear.program(optimizer)
    weights = program.variables["linear/weights"]
    before = weights.numpy()
    program(**next(linear.take(1)))
    assert np.linalg.norm(weights - before) <= 1e-4 * (1 + 1e-9)
    optimizers.Adafactor(0.1, clip_norm=1e-3)


class _Lion(optimizers.Optimizer):
    """A custom optimizer, as in docs/guides/own_network.md, which passes the norm on."""

    def __init__(self, learning_rate, beta=0.9, clip_norm=None):
        super().__init__(learning_rate, clip_norm)
        self.beta = beta

    def update(self, gradient, variable, step):
        mean = self.slot(variable, "mean")
        direction = mi.mtf.sign(mean * self.beta + gradient * (1 - self.beta))
        mi.mtf.assign_sub(variable, direction * mi.mtf.cast(self.rate, gradient.dtype))


SHIPPED = [cls for cls in map(optimizers.__dict__.get, optimizers.__all__) if isinstance(cls, type)]
SHIPPED = [cls for cls in SHIPPED if issubclass(cls, optimizers.Optimizer) and cls is not optimizers.Optimizer]


@pytest.mark.parametrize("frozen", [(), "bias"], ids=["all", "frozen"])
@pytest.mark.parametrize("optimizer", [*SHIPPED, _Lion])
def test_every_optimizer_gets_clipped_gradients_of_the_trained_weights(optimizer, frozen):
    class Recording(optimizer):
        def update(self, gradient, variable, step):
            mi.mtf.assign(self.slot(variable, "seen"), gradient)
            super().update(gradient, variable, step)

    (batch,) = linear.take(1)
    kernel, bias = recorded(batch)
    trained = {"kernel": kernel} | ({} if frozen else {"bias": bias})
    norm = np.sqrt(sum(np.sum(gradient**2) for gradient in trained.values()))
    assert norm > 0.5
    own = Recording(0.1, clip_norm=0.5)
    step = training_step(Layer(), own, frozen=Frozen(frozen))
    program = mi.Program(step, Layer().inputs(2))
    program(**batch)
    seen = {name: own.slot_name(type("", (), {"name": name}), "seen") for name in trained}
    for name, gradient in trained.items():
        np.testing.assert_allclose(program.variables[seen[name]], gradient * 0.5 / norm, rtol=1e-9)
    assert any("bias" in name and name != "bias" for name in program.variables) == (not frozen)


@pytest.mark.parametrize("optimizer", SHIPPED, ids=lambda cls: cls.__name__)
def test_gin_sets_the_norm_of_every_optimizer(optimizer):
    import_module("mtf_imaging.cli.config.training_settings")  # registers the optimizers
    name = optimizer.__name__
    gin.parse_config(f"holder.value = @{name}()\n{name}.clip_norm = -1.0")
    with pytest.raises(ConfigError, match=rf"{name}\.clip_norm = -1\.0: it must be a number above 0, or None"):
        _holder()


@gin.configurable("holder")
def _holder(value=None):
    return value


class _Recorded(optimizers.Optimizer):
    """Keeps the gradients that it is given."""

    def __init__(self, clip_norm=None):
        super().__init__(0.0, clip_norm)

    def update(self, gradient, variable, step):
        mi.mtf.assign(self.slot(variable, "gradient"), gradient)


@pytest.mark.parametrize("norm", [0, -1.0, float("nan"), float("inf"), "1", True], ids=str)
def test_an_invalid_clip_norm_is_refused(norm):
    with pytest.raises(ConfigError, match=r"Adam\.clip_norm = .*: it must be a number above 0, or None"):
        optimizers.Adam(0.1, clip_norm=norm)
