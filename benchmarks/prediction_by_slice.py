"""Compares a prediction by slices, in several processes or in turns, with a prediction of the whole in one process.

    python -m benchmarks.prediction_by_slice
    python -m benchmarks.prediction_by_slice --filters 4 --shape 256 256 512 --grid 256
    python -m benchmarks.prediction_by_slice --filters 8 --shape 128 128 128 --grid 128 --turns 8 --rounds 5

Both predict the same volume with the same network. By default, the network is a single convolution, so that the memory
of the volume and the probabilities dominates. With `--filters`, it is a U-Net, whose activations count, too. A row
shows how far the peak of a process exceeds its memory after importing TensorFlow, as reported by the Linux kernel. The
last lines compare the peaks, the median times and the written segmentations. The float32 sums of a U-Net are rounded
differently under each layout, so a few voxels can differ.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.whole_volume import GIB, fresh, store

ROOT = Path(__file__).parents[1]


def task(filters):
    """Returns a task whose network is a U-Net, or one convolution with a softmax over three classes.

    Args:
      filters: number of filters in the U-Net's first block; 0 for the convolution.
    """
    import tensorflow as tf

    import mtf_imaging as mi

    if filters:
        from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D

        return LiverTumorSegmentation(UNet3D(base_filters=filters))

    class OneConvolution:
        def inputs(self, batch_size, sizes, *, dtype, labels):
            x, y, z = sizes
            return {"image": (f"batch:{batch_size},x:{x},y:{y},z:{z},channels:1", dtype)}

        def loss(self, image):
            return mi.mtf.reduce_mean(self.predict(image)), {}

        def predict(self, image):
            shape = mi.mtf.Shape([("fx", 3), ("fy", 3), ("fz", 3), ("channels", 1), ("classes", 3)])
            kernel = mi.mtf.get_variable(image.mesh, "kernel", shape, initializer=tf.random_normal_initializer())
            scores = mi.ops.conv3d(image, kernel, name="scores")
            return mi.mtf.softmax(scores, scores.shape.dims[-1])

    return OneConvolution()


def memory(name):
    """Returns the value of a row in /proc/self/status in bytes."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])


def worker(settings):
    """Predicts the volume in this process, and prints a row."""
    from mtf_imaging.cli.runtime.quiet import import_tensorflow

    import_tensorflow()
    import mtf_imaging as mi
    from mtf_imaging.data.sampling.grid import parse_grid
    from mtf_imaging.data.sampling.sampling import Sampling
    from mtf_imaging.engine.layout import Layout
    from mtf_imaging.engine.meshes import group
    from mtf_imaging.training.prediction import NetworkBuilder
    from tests.kinds.volumes import predict_cases

    before = memory("VmRSS")
    mi.meshes.join()
    sampling, options = Sampling(parse_grid(settings["grid"])), {"layout": Layout.parse(*settings["layout"])}
    chosen = task(settings["filters"])
    inputs = chosen.inputs(1, (8, 8, 8), dtype="float32", labels=False)
    weights = mi.Program(chosen.predict, inputs, seed=1, may_repeat=True)  # weights do not depend on the size
    network = NetworkBuilder(task=chosen, **options).network_of(weights, sampling.grid)
    began = time.perf_counter()
    own, volume = group.current(), Path(settings["volume"])
    predict_cases(volume, settings["output"], sampling, network, progress=False, overwrite=True)
    row = {"process": own.index, "seconds": time.perf_counter() - began, "peak": memory("VmHWM") - before}
    print(json.dumps(row), flush=True)


def run(num, settings):
    """Returns the rows of one process, or of several."""
    words = [__file__, "--worker", json.dumps(settings)]
    if num > 1:
        words = ["-m", "mtf_imaging.cli.main", "launch", "--num_processes", str(num), "--timeout", "600", "--", *words]
    environ = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    output = subprocess.run([sys.executable, *words], env=environ, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [json.loads(line[line.index("{") :]) for line in output.splitlines() if '"peak"' in line]
    return sorted(rows, key=lambda row: row["process"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, nargs=3, default=(512, 512, 1024), help="voxels of the volume")
    parser.add_argument("--grid", default="512", help="grid of the network")
    parser.add_argument("--mesh_shape", default="rows:2,cols:2", help="mesh of the processes, with one processor each")
    parser.add_argument("--layout", default="x:rows,y:cols", help="layout of the processes")
    parser.add_argument("--num_processes", type=int, default=4, help="number of processes")
    parser.add_argument("--turns", type=int, help="turns of one process, instead of several processes")
    parser.add_argument("--rounds", type=int, default=1, help="predictions of each, one after the other")
    parser.add_argument("--filters", type=int, default=0, help="filters of a U-Net; 0 for a single convolution")
    parser.add_argument("--file", default="int16.nii.gz", help="type of the volume file, as in whole_volume")
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker)
        return
    several = (arguments.num_processes, (arguments.mesh_shape, arguments.layout))
    if arguments.turns:
        several = (1, (f"slabs:{arguments.turns}", "x:slabs", "slabs"))
    seconds, peaks, digests = ([], []), [0, 0], set()
    with tempfile.TemporaryDirectory() as folder:
        fresh(store, Path(folder), tuple(arguments.shape), arguments.file)
        (volume,) = Path(folder).glob("volume-0.*")
        print(f"one volume of {' x '.join(map(str, arguments.shape))} voxels on a grid of {arguments.grid}")
        print("layout          process  seconds  peak over the import")
        output = Path(folder) / "out.nii.gz"
        settings = {"grid": arguments.grid, "filters": arguments.filters, "volume": str(volume), "output": str(output)}
        for number, (processes, layout) in [*enumerate(((1, ("", "")), several))] * arguments.rounds:
            rows = run(processes, settings | {"layout": layout})
            for row in rows:
                shown = f"{row['seconds']:7.1f}  {row['peak'] / GIB:.2f} GiB"
                print(f"{layout[0] or 'whole':14}  {row['process']:7}  {shown}", flush=True)
            seconds[number].append(max(row["seconds"] for row in rows))
            peaks[number] = max(peaks[number], *(row["peak"] for row in rows))
            digests.add(hashlib.sha256(output.read_bytes()).hexdigest())
    whole, sliced = map(statistics.median, seconds)
    print(f"of the whole: largest peak {peaks[1] / peaks[0]:.2f}, median time {sliced / whole:.2f}")
    print(f"the segmentations are {'equal' if len(digests) == 1 else 'NOT equal'}")


if __name__ == "__main__":
    main()
