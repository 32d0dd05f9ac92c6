"""A checkpoint of a small ResNet with TF-Slim names."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

_FILTERS = 4


def write_slim(path: Path) -> Path:
    """Writes the variables of a ResNet with two blocks of one unit each."""
    import tensorflow as tf

    arrays = dict(_arrays())
    path.parent.mkdir(parents=True, exist_ok=True)
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(path),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(arrays[name]) for name in names],
    )
    return path


def _arrays() -> Iterator[tuple[str, np.ndarray]]:
    yield from _layer("conv1", 7, 3, _FILTERS)
    inputs = _FILTERS
    for block in range(2):
        width, unit = _FILTERS * 2**block, f"block{block + 1}/unit_1/bottleneck_v1"
        sizes = {"shortcut": (1, inputs, 4 * width), "conv1": (1, inputs, width), "conv2": (3, width, width)}
        for name, layer in {**sizes, "conv3": (1, width, 4 * width)}.items():
            yield from _layer(f"{unit}/{name}", *layer)
        inputs = 4 * width


def _layer(name: str, size: int, inputs: int, filters: int) -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(len(name) + filters)
    yield f"resnet_v1_50/{name}/weights", rng.normal(size=(size, size, inputs, filters)).astype(np.float32)
    for part in ("gamma", "beta", "moving_mean", "moving_variance"):
        yield f"resnet_v1_50/{name}/BatchNorm/{part}", np.ones(filters, np.float32)
