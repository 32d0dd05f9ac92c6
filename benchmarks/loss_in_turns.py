"""Prints the loss of a U-Net on a synthetic volume, computed by processors in turn.

    python -m benchmarks.loss_in_turns --size 512 --mesh_shape slabs:64 --layout x:slabs
    python -m benchmarks.loss_in_turns --size 512 --batch_size 2 --mesh_shape rows:16,cols:16,cores:2 \\
        --layout x:rows,y:cols,batch:cores

The network is that of `unet3d_lits` before its first step. A batch repeats the volume; dropout masks differ.
Without a mesh, the network computes the batch at once. A forward pass at 512^3 stores 24 GiB per volume in TMPDIR.
"""

import argparse
import re

import numpy as np

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D

BLOCKS = 32  # along each axis


def volume(size):
    """Returns an image `[x, y, z]` of random blocks with a ripple along z, and labels of its brightest blocks."""
    blocks = np.random.default_rng(0).random([BLOCKS] * 3, np.float32)
    image = np.kron(blocks, np.ones([size // BLOCKS] * 3, np.float32))
    image += 0.1 * np.sin(37 * np.arange(size) / size).astype(np.float32)
    return image, (image > 0.6).astype(np.int32) + (image > 0.9)


def multiple_of_blocks(text):
    """Returns a size of `volume`: a multiple of `BLOCKS`."""
    if not text.isdecimal() or not int(text) or int(text) % BLOCKS:
        raise argparse.ArgumentTypeError(f"{text} is not a multiple of {BLOCKS}. Fix: give one, for instance 128.")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=multiple_of_blocks, default=128, help="voxels along each axis, a multiple of 32")
    parser.add_argument("--batch_size", type=int, default=1, help="how often the batch has the volume")
    parser.add_argument("--mesh_shape", default="", help="mesh, all of whose processors compute in turn")
    parser.add_argument("--layout", default="", help="layout on the mesh")
    parser.add_argument("--dtype", default="bfloat16", help="dtype of the activations")
    options = parser.parse_args()
    network = UNet3D(base_filters=32, depth=4, dropout_rate=0.5)
    task = LiverTumorSegmentation(network, class_weights=(1.0, 8.0, 16.0), dice_weight=0.2)
    program = mi.Program(
        lambda **tensors: task.loss(**tensors)[0],
        task.inputs(options.batch_size, (options.size,) * 3, options.dtype),
        options.mesh_shape,
        options.layout,
        sequential=",".join(re.findall(r"(\w+):", options.mesh_shape)),
        updates="none",
    )
    image, labels = volume(options.size)
    batch = {"image": image[..., np.newaxis], "labels": labels}
    loss = program(**{name: np.stack([values] * options.batch_size) for name, values in batch.items()})
    print(f"{options.size}^3 {options.dtype}, {options.mesh_shape or 'whole'}: loss {float(loss)!r}")


if __name__ == "__main__":
    main()
