"""Measures what many training steps in one call of TensorFlow would save, as `iterations_per_loop` of TPUEstimator did.

    python -m benchmarks.call_overhead

Each row is a U-Net whose steps are computed in three ways: by calls of the program, as `train` does; by calls of its
TensorFlow function, without checks of the inputs; and by a loop within TensorFlow, on one batch. The figures are
processor time per step, because other programs change the wall time.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import training_step

ROWS = ((8, 2), (16, 4), (32, 4), (32, 8))  # voxels along each axis, filters of the first block
LAYOUTS = (("", ""), ("rows:2,cols:2", "x:rows,y:cols"))


def milliseconds(run: Callable[[], object], steps: int, rounds: int) -> float:
    """Returns the median processor time of a step over several runs of `steps` steps."""
    run()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return statistics.median(times) / steps * 1e3


def measure(size: int, filters: int, mesh_shape: str, layout: str, steps: int, rounds: int) -> list[float]:
    """Returns the milliseconds of a step by calls of the program, by calls of its function, and by a loop."""
    task = LiverTumorSegmentation(UNet3D(base_filters=filters, depth=2))
    inputs = task.inputs(1, (size,) * 3, "float32")
    program = mi.Program(training_step(task, Adam(1e-3)), inputs, mesh_shape, layout, mesh_impl="stacked")
    rng, sizes = np.random.default_rng(0), (1, *(size,) * 3)
    batch = {"image": rng.random((*sizes, 1), np.float32), "labels": rng.integers(0, 3, sizes, np.int32)}
    tensors = {name: tf.constant(value) for name, value in batch.items()}

    @tf.function(autograph=False)
    def loop() -> list[tf.Tensor]:
        def step(number: tf.Tensor) -> list[tf.Tensor]:
            results = tf.nest.flatten(program.function(tensors, None, None))
            with tf.control_dependencies(results):
                return [number + 1]

        return tf.while_loop(lambda number: number < steps, step, [tf.constant(0)], parallel_iterations=1)

    ways = (
        lambda: [program(**batch) for _ in range(steps)],
        lambda: [program.function(tensors, None, None) for _ in range(steps)],
        loop,
    )
    return [milliseconds(way, steps, rounds) for way in ways]


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--steps", type=int, default=50, help="steps of a run")
    flags.add_argument("--rounds", type=int, default=5, help="runs of each kind")
    arguments = flags.parse_args()
    print("| voxels | filters | layout | program | function | loop | a loop saves |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for size, filters in ROWS:
        for mesh_shape, layout in LAYOUTS:
            found = measure(size, filters, mesh_shape, layout, arguments.steps, arguments.rounds)
            times = " | ".join(f"{value:.1f} ms" for value in found)
            print(f"| {size}^3 | {filters} | {layout} | {times} | {1 - found[2] / found[0]:.0%} |", flush=True)


if __name__ == "__main__":
    main()
