"""Prints the loss of a U-Net on one synthetic volume, computed in a number of turns.

    python -m benchmarks.loss_in_turns --size 512 --turns 64

The network is that of `unet3d_lits` before its first step. With 1 turn, it computes the whole volume at once. A forward
pass at 512^3 in 64 turns stores 24 GiB in TMPDIR.
"""

import argparse

import numpy as np

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D


def volume(size):
    """Returns an image `[x, y, z]` of random blocks with a ripple along z, and labels of its brightest blocks."""
    blocks = np.random.default_rng(0).random((32, 32, 32), np.float32)
    image = np.kron(blocks, np.ones([size // 32] * 3, np.float32))
    image += 0.1 * np.sin(37 * np.arange(size) / size).astype(np.float32)
    return image, (image > 0.6).astype(np.int32) + (image > 0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="voxels along each axis, a multiple of 32")
    parser.add_argument("--turns", type=int, default=8, help="number of slabs")
    parser.add_argument("--dtype", default="bfloat16", help="dtype of the activations")
    options = parser.parse_args()
    network = UNet3D(base_filters=32, depth=4, dropout_rate=0.5)
    task = LiverTumorSegmentation(network, class_weights=(1.0, 8.0, 16.0), dice_weight=0.2)
    in_turns = {"mesh_shape": f"slabs:{options.turns}", "layout": "x:slabs", "sequential": "slabs"}
    program = mi.Program(
        lambda **tensors: task.loss(**tensors)[0],
        task.inputs(1, (options.size,) * 3, options.dtype),
        updates="none",
        **(in_turns if options.turns > 1 else {}),
    )
    image, labels = volume(options.size)
    loss = program(image=image[np.newaxis, ..., np.newaxis], labels=labels[np.newaxis])
    print(f"{options.size}^3 {options.dtype}, {options.turns} turns: loss {float(loss)!r}")


if __name__ == "__main__":
    main()
