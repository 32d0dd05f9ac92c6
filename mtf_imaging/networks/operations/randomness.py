"""Random numbers, which depend on the position in the whole tensor and not on the layout."""

from collections.abc import Callable

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array, Axis
from mtf_imaging.networks.operations.registry import Call, operation
from mtf_imaging.networks.values import Unnamed, Value


class Seed:
    """The state of a random generator of the network. The random numbers here have a seed of their own."""


def _random(call: Call, shape: Value, draw: Callable[..., mtf.Tensor]) -> Unnamed:
    sizes = call.ints(shape, "sizes")
    dtype = call.get("dtype") or tf.float32

    drawn: list[Array] = []  # once, also if the numbers are combined with arrays of several names

    def build(axes: tuple[Axis, ...]) -> Array:
        if not drawn:
            drawn.append(Array(draw(call.mesh, mtf.Shape([d for axis in axes for d in axis]), dtype=dtype), axes))
        return drawn[0]

    return Unnamed(sizes, dtype, build)


@operation(
    "StatelessRandomUniform", "StatelessRandomUniformV2", "RandomUniform", ours="mtf.random_uniform", is_pure=False
)
def _uniform(call: Call, shape: Value, *seed: object) -> Unnamed:
    del seed
    return _random(call, shape, mtf.random_uniform)


@operation(
    "StatelessRandomNormal", "StatelessRandomNormalV2", "RandomStandardNormal", ours="mtf.random_normal", is_pure=False
)
def _normal(call: Call, shape: Value, *seed: object) -> Unnamed:
    del seed
    return _random(call, shape, mtf.random_normal)


@operation("StatelessRandomGetKeyCounter", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg",
           ours="the seed and the step of the program", is_pure=False)  # fmt: skip
def _key(call: Call, *seed: object) -> tuple[object, ...]:
    del call, seed
    return tuple([Seed()] * 3)
