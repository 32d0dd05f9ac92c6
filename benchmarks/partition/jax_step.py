"""The JAX contender: the same network under `jit`, with an input that jax.sharding splits over a mesh."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.partition.networks import EPSILON, LEARNING_RATE, MOMENTUM, NEGATIVE_SLOPE

_LAYOUT = ("NDHWC", "DHWIO", "NDHWC")
_AXES = ("rows", "cols", "planes")


class Jax:
    """The network on GPUs or on virtual CPU devices, one per processor; XLA partitions the activations."""

    nodes = None

    def __init__(self, step, contender):
        self._step, self._contender = step, contender

    def build(self):
        # JAX reads this flag when it first lists its devices.
        flag = f"--xla_force_host_platform_device_count={self._contender.processors}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
        devices = jax.devices()[: self._contender.processors]
        if len(devices) < self._contender.processors:
            raise NotImplementedError(
                f"{self._contender.processors} processors need as many devices, but there are {len(devices)}"
            )
        sizes = self._contender.mesh
        mesh = Mesh(np.array(devices).reshape(sizes), _AXES[: len(sizes)])
        split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((None, *_AXES[: len(sizes)]), ()))
        image, labels = self._step.inputs()
        self._inputs = jax.device_put(jnp.asarray(image, self._step.dtype), split), jax.device_put(labels, split)
        weights = self._step.weights()
        moving = {name: (np.zeros_like(w), np.ones_like(w)) for name, w in weights.items() if name.endswith("scale")}
        self._state = jax.device_put((weights, moving, np.uint32(0)), whole)
        self._function = jax.jit(self._train, donate_argnums=0).lower(self._state, *self._inputs).compile()

    def take(self):
        self._state, loss = self._function(self._state, *self._inputs)
        jax.block_until_ready(self._state)
        return float(loss)

    def device_peak(self):
        stats = [device.memory_stats() for device in jax.devices()]
        return max((s["peak_bytes_in_use"] for s in stats if s and "peak_bytes_in_use" in s), default=None)

    def others(self):
        return {}

    def _train(self, state, image, labels):
        weights, moving, count = state

        def loss_of(weights):
            logits, moved = self._logits(weights, moving, jax.random.key(count), image)
            log = jax.nn.log_softmax(logits.astype(jnp.float32))
            return -jnp.mean(jnp.take_along_axis(log, labels[..., None], -1)), moved

        (loss, moved), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
        weights = jax.tree.map(lambda w, g: w - LEARNING_RATE * g, weights, gradients)
        return (weights, moved, count + 1), loss

    def _logits(self, weights, moving, key, image):
        moved, drawn = {}, iter(range(1000))

        def of(name):
            return weights[name].astype(self._step.dtype)

        def conv(x, name):
            x = lax.conv_general_dilated(x, of(f"{name}/filter"), (1, 1, 1), "SAME", dimension_numbers=_LAYOUT)
            return x + of(f"{name}/bias") if f"{name}/bias" in weights else x

        def norm(x, name):
            values = x.astype(jnp.float32)
            mean, variance = values.mean((0, 1, 2, 3)), values.var((0, 1, 2, 3))
            old, new = moving[f"{name}/scale"], (mean, variance)
            moved[f"{name}/scale"] = tuple(MOMENTUM * a + (1 - MOMENTUM) * b for a, b in zip(old, new))
            factor = weights[f"{name}/scale"] * lax.rsqrt(variance + EPSILON)
            return (values * factor + (weights[f"{name}/offset"] - mean * factor)).astype(x.dtype)

        def block(x, name):
            for i in range(self._step.convs):
                x = conv(x, f"{name}/conv{i}")
                x = norm(x, f"{name}/norm{i}") if self._step.batch_norm else x
                x = jnp.where(x > 0, x, NEGATIVE_SLOPE * x)
                if self._step.drops(name, i):
                    kept = 1 - self._step.dropout_rate
                    mask = jax.random.bernoulli(jax.random.fold_in(key, next(drawn)), kept, x.shape)
                    x = jnp.where(mask, x / kept, 0).astype(x.dtype)
            return x

        x, skips, window = image, [], (1, 2, 2, 2, 1)
        for level in range(self._step.depth):
            if level:
                skips.append(x)
                x = lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
            x = block(x, f"down{level}")
        for level in reversed(range(self._step.depth - 1)):
            kernel = of(f"grow{level}/filter")
            x = lax.conv_transpose(x, kernel, (2,) * 3, "SAME", dimension_numbers=_LAYOUT, transpose_kernel=True)
            x = block(jnp.concatenate([x + of(f"grow{level}/bias"), skips.pop()], -1), f"up{level}")
        return conv(x, "classes"), moved
