"""Measures one training step of RetinaNet with and without a layout, and compares their losses and gradients.

    python -m benchmarks.detector_step --sizes 1024 1280 2560 --narrow
    python -m benchmarks.detector_step --sizes 2560 --layouts 4x2

Each row is measured in a new process with a batch of one random image with 20 objects. "difference" is the largest
difference in the loss or a gradient from the row without a layout, divided by the largest value of that gradient, or
by 0.001 if it is smaller, because some gradients are zero except for rounding.
Memory is the growth of the process's peak memory in its first step, as reported by the Linux kernel, for all
processors together; the seconds are for the second step. All processors share the devices of this machine.

The network is RetinaNet with ResNet-50. With --narrow, it has one block per stage and few filters. In float64, which
--narrow implies, differences show halo errors, not rounding errors.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

GIB = 2**30
LAYOUTS = {
    "whole": ("", ""),
    "2x2": ("rows:2,cols:2", "height:rows,width:cols"),
    "4x2": ("rows:4,cols:2", "height:rows,width:cols"),
    "8x1": ("rows:8", "height:rows"),
}
OBJECTS, CLASSES = 20, 80


def make_task(narrow):
    from mtf_imaging.models.detection import Anchors, ObjectDetection, RetinaNet
    from mtf_imaging.models.resnet import ResNetBackbone

    if narrow:
        backbone = ResNetBackbone(blocks=(1, 1, 1, 1), base_filters=2, bottleneck=False)
        network = RetinaNet(backbone, filters=4, head_convs=1, anchors=Anchors(scales=(4.0,)))
    else:
        network = RetinaNet(ResNetBackbone())
    return ObjectDetection(network, classes=CLASSES, max_boxes=OBJECTS)


def random_batch(sizes):
    """Returns a random image, and boxes of 8 to 512 pixels a side with their classes."""
    rng = np.random.default_rng(0)
    sides = np.exp(rng.uniform(np.log(8), np.log(512), (OBJECTS, 2)))
    centers = rng.uniform(0, 1, (OBJECTS, 2)) * sizes
    boxes = np.clip(np.concatenate([centers - sides / 2, centers + sides / 2], -1), 0, [*sizes, *sizes])
    return {
        "image": rng.standard_normal((1, *sizes, 3), np.float32),
        "boxes": boxes[None].astype(np.float32),
        "classes": rng.integers(0, CLASSES, (1, OBJECTS), np.int32),
    }


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(sizes, layout, narrow, dtype, output):
    """Runs two steps and saves the loss and the gradients of the first. Returns bytes and seconds."""
    import tensorflow as tf

    import mtf_imaging as mi

    task = make_task(narrow)

    def step(**inputs):
        loss, _ = task.loss(**inputs)
        variables = loss.graph.trainable_variables
        gradients = mi.mtf.gradients([loss], [variable.outputs[0] for variable in variables])
        return {"loss": loss, **{variable.name: gradient for variable, gradient in zip(variables, gradients)}}

    inputs = task.inputs(1, sizes, tf.as_dtype(dtype))
    program, batch = mi.Program(step, inputs, *LAYOUTS[layout], mesh_impl="stacked"), random_batch(sizes)
    before = peak_bytes()
    results = program(**batch)
    memory = peak_bytes() - before
    np.savez(output, **{name: value.numpy() for name, value in results.items()})
    del results
    began = time.perf_counter()
    program(**batch)["loss"].numpy()
    return memory, time.perf_counter() - began


def largest_difference(path, reference):
    """Returns the largest difference between arrays in two files, relative to the largest value of each array."""
    with np.load(path) as got, np.load(reference) as want:
        names = want.files
        if got.files != names:
            raise ValueError(f"{path} and {reference} have different variables")
        return max(np.abs(got[name] - want[name]).max() / max(np.abs(want[name]).max(), 1e-3) for name in names)


def fresh(function, *arguments):
    """Calls a function in a new process."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def parse_sizes(text):
    """Parses the height and width in pixels: `1280` or `1333x800`."""
    numbers = tuple(map(int, text.split("x")))
    return numbers * 2 if len(numbers) == 1 else numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=parse_sizes, nargs="+", required=True, help="1280 or 1333x800, in pixels")
    parser.add_argument("--layouts", nargs="+", choices=list(LAYOUTS)[1:], default=list(LAYOUTS)[1:], help="meshes")
    parser.add_argument("--narrow", action="store_true", help="a small network in float64, for exact differences")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32", help="dtype of the activations")
    arguments = parser.parse_args()
    dtype = "float64" if arguments.narrow else arguments.dtype
    print("| image | mesh | difference | memory | step |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for sizes, layout in itertools.product(arguments.sizes, ["whole", *arguments.layouts]):
            path, whole = Path(folder, f"{layout}.npz"), Path(folder, "whole.npz")
            memory, seconds = fresh(measure, sizes, layout, arguments.narrow, dtype, path)
            difference = "" if layout == "whole" else f"{largest_difference(path, whole):.1e}"
            image = " x ".join(map(str, sizes))
            print(f"| {image} | {layout} | {difference} | {memory / GIB:.1f} GiB | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
