"""Times the CPU normalization kernel for views of different widths: `python -m benchmarks.norm_kernels`.

`mtf_imaging/engine/ops/norm/local.py` views `[..., channels]` as rows with many columns. This command prints the
milliseconds of one normalization for each row width, in values. The columns of the table are measured in turn, so other
load on the machine affects all of them alike. The column "1" is a view with one column, which is the tensor itself.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

_WIDTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)


def _normalize(columns, channels):
    """Returns a compiled normalization of `[positions, channels]` with a number of columns."""
    statistics_shape = [columns * channels]

    @tf.function
    def call(x):
        ones, zeros = tf.ones(statistics_shape), tf.zeros(statistics_shape)
        y, *_ = tf.raw_ops.FusedBatchNormV3(
            x=tf.reshape(x, [1, 1, -1, columns * channels]),
            scale=ones,
            offset=zeros,
            mean=zeros,
            variance=ones,
            epsilon=1e-6,
            is_training=False,
        )
        return y

    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="voxels along each axis, for 8 channels (%(default)s)")
    parser.add_argument("--channels", type=int, nargs="+", default=[8, 16, 32, 64, 128], help="numbers of channels")
    parser.add_argument(
        "--dtypes",
        nargs="+",
        choices=("float32", "bfloat16", "float16"),
        default=["float32", "bfloat16"],
        help="types of the values",
    )
    parser.add_argument("--rounds", type=int, default=9, help="timed calls of each kernel (%(default)s)")
    flags = parser.parse_args()
    print("| dtype, channels, voxels | 1 | " + " | ".join(f"{width:,}" for width in _WIDTHS) + " |")
    print("| --- |" + " --- |" * (1 + len(_WIDTHS)))
    for dtype in flags.dtypes:
        for channels in flags.channels:
            size = round(flags.size * (8 / channels) ** (1 / 3) / 16) * 16
            x = tf.cast(tf.random.normal([size**3, channels]), dtype)
            columns = [1, *(width // channels for width in _WIDTHS)]
            calls = [_normalize(c, channels) if size**3 % c == 0 else None for c in columns]
            seconds = [[] for _ in calls]
            for number in range(flags.rounds + 1):
                for call, of_call in zip(calls, seconds, strict=True):
                    begin = time.perf_counter()
                    if call is not None:
                        call(x)
                    of_call += [time.perf_counter() - begin] * (number > 0)
            pairs = zip(calls, seconds, strict=True)
            pairs = zip(calls, seconds, strict=True)
            cells = [f"{1e3 * statistics.median(of_call):.1f}" if call else "" for call, of_call in pairs]
            print(f"| {dtype}, {channels}, {size}^3 | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
