"""Random numbers, which depend on the position in the whole tensor and not on the layout."""

import functools
from collections.abc import Callable

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array, Axis
from mtf_imaging.networks.operations.registry import Call, operation
from mtf_imaging.networks.values import Unnamed, Value


class Seed:
    """The state of a random generator of the network. The random numbers here have a seed of their own."""


def _random(draw: Callable[..., mtf.Tensor], call: Call, shape: Value, *seed: object) -> Unnamed:
    dtype = call.get("dtype") or tf.float32

    drawn: list[Array] = []  # once, also if the numbers are combined with arrays of several names

    def build(axes: tuple[Axis, ...]) -> Array:
        if not drawn:
            drawn.append(Array(draw(call.mesh, mtf.Shape([d for axis in axes for d in axis]), dtype=dtype), axes))
        return drawn[0]

    return Unnamed(call.ints(shape, "sizes"), dtype, build)


_UNIFORM = "StatelessRandomUniform", "StatelessRandomUniformV2", "RandomUniform"
_NORMAL = "StatelessRandomNormal", "StatelessRandomNormalV2", "RandomStandardNormal"
for _names, _draw in ((_UNIFORM, mtf.random_uniform), (_NORMAL, mtf.random_normal)):
    operation(*_names, ours=f"mtf.{_draw.__name__}", is_pure=False)(functools.partial(_random, _draw))


@operation("StatelessRandomGetKeyCounter", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg",
           ours="the seed and the step of the program", is_pure=False)  # fmt: skip
def _key(call: Call, *seed: object) -> tuple[object, ...]:
    return tuple([Seed()] * 3)
