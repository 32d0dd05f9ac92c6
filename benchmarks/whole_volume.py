"""Measures the time and the memory of segmenting a whole CT in its own voxels, apart from the network, and of convert.

    python -m benchmarks.whole_volume --shape 512 512 800

Each row is a fresh process, and its peak the kernel's account of it (Linux), TensorFlow's import included, 0.6 GiB.
"predict" is what `mtf-imaging predict` does with one volume: it reads the file, resamples it to the grid, resamples the
probabilities back, takes the most probable class and writes the segmentation, compressed. In the place of the network
stands a function that costs nothing: it returns float32 probabilities, 12 bytes a voxel of the grid, which are in the
peak, as the image is, 4 bytes. "convert" makes one record of a volume and its segmentation. Files ending in .gz are
compressed, and unpacked in the time given; "scaled" is int16 with a slope and an intercept.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

GIB = 2**30
FILES = ("int16.nii.gz", "int16.nii", "scaled.nii.gz", "float32.nii.gz", "float64.nii.gz")


def store(folder, shape, file):
    """Writes a body of noise with a liver and a lesion, stored LPS, as case 0 of a folder; the mask is compressed."""
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


def network(image):
    """Probabilities float32 `[x, y, z, classes]` of an image: the brighter, the more liver, and then lesion."""
    import numpy as np

    probabilities = np.empty((*image.shape[:3], 3), np.float32)
    probabilities[..., 0], probabilities[..., 1], probabilities[..., 2] = 0.5, image[..., 0], 0.0
    return probabilities


def measure(what, folder, grid):
    """Seconds and bytes of one row; to be called in a fresh process."""
    from mtf_imaging.cli.runtime.quiet import import_tensorflow

    import_tensorflow()  # a job has it in memory
    from mtf_imaging.data.records.convert import convert
    from mtf_imaging.data.sampling.sampling import Sampling
    from mtf_imaging.evaluation.segment.predict import predict_cases

    began = time.perf_counter()
    if what == "predict":
        (volume,) = folder.glob("volume-0.*")
        output = folder.parent / "out.nii.gz"
        predict_cases(volume, output, Sampling(grid), network, progress=False, overwrite=True)
    else:
        with tempfile.TemporaryDirectory(dir=folder.parent) as records:
            convert(folder, Path(records) / "records", "x:{},y:{},z:{}".format(*grid), progress=False)
    seconds = time.perf_counter() - began
    # The larger of this process and the largest of those that it started.
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return seconds, peak * 1024


def fresh(function, *arguments):
    """Calls a function in a process of its own. This one stays small: a child's peak begins with its parent's size."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def sizes(text):
    """Reads `256`, or `512x512x400`."""
    numbers = tuple(map(int, text.split("x")))
    return numbers * 3 if len(numbers) == 1 else numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=3, default=(512, 512, 800), help="voxels of the volume")
    parser.add_argument("--grids", type=sizes, nargs="+", default=[*map(sizes, ("256", "128", "512x512x400", "512"))])
    parser.add_argument(
        "--files", nargs="+", choices=FILES, default=FILES, help="all but the first at the first grid alone"
    )
    parser.add_argument("--what", nargs="+", choices=("predict", "convert"), default=("predict", "convert"))
    arguments = parser.parse_args()

    print(f"one volume of {' x '.join(map(str, arguments.shape))} voxels")
    print("what     file            grid           seconds  peak")
    for file in arguments.files:
        grids = arguments.grids if file == arguments.files[0] else arguments.grids[:1]
        with tempfile.TemporaryDirectory() as folder:
            cases = Path(folder) / "cases"
            cases.mkdir()
            fresh(store, cases, tuple(arguments.shape), file)
            for what, grid in itertools.product(arguments.what, grids):
                seconds, peak = fresh(measure, what, cases, grid)
                shown = "x".join(map(str, grid))
                print(f"{what:8} {file:15} {shown:13} {seconds:8.0f}  {peak / GIB:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
