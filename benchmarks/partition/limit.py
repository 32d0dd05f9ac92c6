"""Measures the FLOP/s of a large matrix product, a limit for steps: `python -m benchmarks.partition.limit float32`."""

import subprocess
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SIZE, _CALLS = 2048, 7  # one product needs 17 GFLOP


def matrix_product_rate(dtype: str) -> float | None:
    """Returns the FLOP/s of the fastest among several products of two square matrices, in a separate process.

    Args:
      dtype: the type of the matrices.

    Returns:
      The rate; None if TensorFlow cannot multiply the matrices.
    """
    command = [sys.executable, "-m", "benchmarks.partition.limit", dtype]
    finished = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return float(finished.stdout) if finished.returncode == 0 else None


def _measure(dtype):
    import tensorflow as tf

    matrix = tf.cast(tf.random.normal([_SIZE, _SIZE]), dtype)
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(matrix, matrix)))
    seconds = []
    for _ in range(1 + _CALLS):
        begin = time.perf_counter()
        product().numpy()  # waits until a GPU has finished
        seconds.append(time.perf_counter() - begin)
    return 2 * _SIZE**3 / min(seconds[1:])


if __name__ == "__main__":
    print(_measure(sys.argv[1]))
