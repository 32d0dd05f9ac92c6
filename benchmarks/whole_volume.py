"""Measures the time and memory of predict, without the network, and of convert for a whole CT.

    python -m benchmarks.whole_volume --shape 512 512 800

Each row is measured in a new process. Its peak memory is read from the Linux kernel, without the pages of files, which
the system can drop. "over import" is the peak above the memory of the process after its imports, of which TensorFlow
takes 0.5 GiB. A conversion does not import it.

"predict" is the work of `mtf-imaging predict --window 128` for one volume: it reads the file, resamples it to the grid,
resamples the probabilities back, selects the most probable class and writes a compressed segmentation. A trivial
function replaces the network. "convert" writes one record of a volume and its segmentation.

The time includes the decompression of files ending in .gz. "scaled" is int16 with a slope and an intercept.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import re
import resource
import tempfile
import threading
import time
from pathlib import Path

GIB = 2**30
WINDOW = 128
FILES = ("int16.nii.gz", "int16.nii", "scaled.nii.gz", "float32.nii.gz", "float64.nii.gz")


def store(folder, shape, file):
    """Writes case 0 of a folder: a noisy body with a liver and a lesion, stored LPS, and its compressed mask."""
    import nibabel
    import numpy as np

    kind, _, suffix = file.partition(".")
    dtype, scaled = ("int16", True) if kind == "scaled" else (kind, False)
    rng = np.random.default_rng(0)
    x, y = (np.linspace(-1, 1, n)[:, None] if axis == 0 else np.linspace(-1, 1, n) for axis, n in enumerate(shape[:2]))
    body, liver, lesion = (np.hypot(x - at, y) < radius for at, radius in ((0, 0.8), (0.3, 0.3), (0.3, 0.1)))
    hu = np.empty(shape, dtype, order="F")
    labels = np.zeros(shape, np.uint8, order="F")
    for z in range(shape[2]):
        noise = rng.integers(-24, 24, shape[:2])
        here = np.where(body, 40, -1000) + noise + 60 * liver
        hu[..., z] = 2 * here + 48 if scaled else here
        if shape[2] // 4 < z < shape[2] // 2:
            labels[..., z] = liver
            labels[lesion, z] = 2
    affine = np.diag([-0.75, -0.75, 1.0, 1.0])
    for name, array in ((f"volume-0.{suffix}", hu), ("segmentation-0.nii.gz", labels)):
        image = nibabel.Nifti1Image(array, affine)
        if scaled and array is hu:
            image.header.set_slope_inter(0.5, -24.0)
        nibabel.save(image, folder / name)


def network(grid, classes=3):
    """Returns a network of windows: label 1 grows with the brightness, and labels above 1 have the probability 0."""
    import numpy as np

    from mtf_imaging.inference.network import of_function
    from mtf_imaging.inference.sliding import sliding
    from mtf_imaging.inference.windows import SlidingWindow

    def probabilities(image):
        result = np.zeros((*image.shape[:3], classes), np.float32)
        result[..., 0], result[..., 1] = 0.5, image[..., 0]
        return result

    return sliding(of_function(probabilities, 1, classes), SlidingWindow(tuple(min(WINDOW, size) for size in grid)))


def measure(what, folder, grid):
    """Returns seconds, peak bytes, and peak bytes above the imports for one row. The process must be new."""
    from mtf_imaging.cli.runtime.quiet import import_tensorflow
    from mtf_imaging.data.records import make_record  # noqa: F401  what a conversion imports
    from mtf_imaging.data.records.convert import convert
    from mtf_imaging.data.sampling.sampling import Sampling
    from tests.kinds.volumes import predict_cases

    if what == "predict":
        import_tensorflow()  # the same as in a real command
    with PeakMemory(with_children=what == "convert") as peak:
        imported = peak.bytes()
        began = time.perf_counter()
        if what == "predict":
            (volume,) = folder.glob("volume-0.*")
            output = folder.parent / "out.nii.gz"
            predict_cases(volume, output, Sampling(grid), network(grid), progress=False, overwrite=True)
        else:
            with tempfile.TemporaryDirectory(dir=folder.parent) as records:
                resolution = "x:{},y:{},z:{}".format(*grid)
                convert(folder, Path(records) / "records", resolution, progress=False)
        seconds, most = time.perf_counter() - began, peak.bytes()
    return seconds, most, most - imported


class PeakMemory:
    """The largest memory of this process so far, without the pages of files; optionally, of its largest child, too."""

    def __init__(self, with_children):
        self._peak, self._with_children, self._ended = 0, with_children, threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._watcher.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        self._watcher.join()

    def _watch(self):
        while not self._ended.wait(0.01):
            self._peak = max(self._peak, self._now())

    def _now(self):
        status = Path("/proc/self/status").read_text()
        return 1024 * int(re.search(r"RssAnon:\s+(\d+)", status)[1])

    def bytes(self):
        children = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss if self._with_children else 0
        return max(self._peak, self._now(), children)


def fresh(function, *arguments):
    """Calls a function in a new process; its peak starts at the memory of this process, which stays small."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def sizes(text):
    """Parses a grid such as `256` or `512x512x400`."""
    numbers = tuple(map(int, text.split("x")))
    return numbers * 3 if len(numbers) == 1 else numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shape", type=int, nargs=3, default=(512, 512, 800), help="voxels of the volume along x, y and z"
    )
    parser.add_argument(
        "--grids",
        type=sizes,
        nargs="+",
        default=[*map(sizes, ("256", "128", "512x512x400", "512"))],
        help="grids of the network, a row each",
    )
    parser.add_argument(
        "--files",
        nargs="+",
        choices=FILES,
        default=FILES,
        help="types of the volume file; all but the first use only the first grid",
    )
    parser.add_argument(
        "--what", nargs="+", choices=("predict", "convert"), default=("predict", "convert"), help="work to measure"
    )
    arguments = parser.parse_args()

    print(f"one volume of {' x '.join(map(str, arguments.shape))} voxels")
    print("what     file            grid            seconds  peak       over import")
    for file in arguments.files:
        grids = arguments.grids if file == arguments.files[0] else arguments.grids[:1]
        with tempfile.TemporaryDirectory() as folder:
            cases = Path(folder) / "cases"
            cases.mkdir()
            fresh(store, cases, tuple(arguments.shape), file)
            for what, grid in itertools.product(arguments.what, grids):
                seconds, peak, over = fresh(measure, what, cases, grid)
                shown = "x".join(map(str, grid))
                print(
                    f"{what:8} {file:15} {shown:14} {seconds:8.0f}  {peak / GIB:.2f} GiB  {over / GIB:7.2f} GiB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
