"""Measures the time and memory of `mtf-imaging score` for large synthetic cases of 512 x 512 x 430 voxels.

    python -m benchmarks.score_cases                          # one case: 1 minute on 2 cores, and 1 minute to write it
    python -m benchmarks.score_cases --shape 512 512 1024     # the largest size of LiTS
    python -m benchmarks.score_cases --cases 4 --workers 1 2

Each case has a liver of 1.6 liters with a rough surface, and lesions of 4 to 50 mm. In the prediction, the lesions are
shifted by 2 mm along each axis, the smallest two are missing, and there are two false ones. The command runs in its own
process. "s" is its wall time, "s a case" the wall time per case, and "GiB a process" the peak memory of its largest
process, as reported by the Linux kernel. "over import" is this peak minus the peak of a process that only imports the
same modules.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nibabel
import numpy as np
from scipy import ndimage

SPACING = (0.76, 0.76, 1.0)  # mm, the LiTS medians
LIVER_ML = 1600
LESION_MM, MOVED_MM = (4, 50), 2
MISSED, FALSE_MM = 2, (6, 12)  # number of missing lesions; diameters in mm of the false ones
_PART = 24  # voxels between samples of the smooth noise
GIB = 1 << 30
IMPORTS = "import mtf_imaging.cli.dispatch, mtf_imaging.evaluation.pairs.score"
# Runs a command from a small process and prints its peak in KiB; a peak includes the process that starts the command.
_MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def make_case(shape, lesions, seed):
    """Returns the labels of a reference and a prediction, uint8 `[x, y, z]`, and their CT, int16."""
    rng = np.random.default_rng(seed)
    radius = np.cbrt(LIVER_ML * 1e3 * 3 / 4 / np.pi)
    axes = [(np.arange(n, dtype=np.float32) - n / 2) * mm for n, mm in zip(shape, SPACING)]
    x, y, z = (axis.reshape([-1 if i == d else 1 for i in range(3)]) for d, axis in enumerate(axes))
    rough = ndimage.zoom(rng.normal(0, 0.12, [-(-n // _PART) for n in shape]).astype(np.float32), _PART, order=1)
    rough = rough[tuple(slice(n) for n in shape)]
    in_plane = (x / (1.3 * radius)) ** 2 + (y / radius) ** 2
    reference = np.empty(shape, np.uint8)
    for k in range(shape[2]):  # plane by plane to save memory
        reference[..., k] = in_plane[..., 0] + (z[..., k] / (0.77 * radius)) ** 2 + rough[..., k] < 1
    del rough
    prediction = ndimage.shift(reference, (2, 1, 2), order=0)
    diameters = [*np.geomspace(*LESION_MM, lesions), *FALSE_MM]
    for number, diameter in enumerate(diameters):
        angle, height = 2 * np.pi * number * 0.618, rng.uniform(-0.4, 0.4) * radius
        center = 0.55 * radius * np.cos(angle), 0.55 * radius * np.sin(angle), height
        if number < lesions:
            _fill(reference, axes, center, diameter / 2)
        if number >= MISSED:
            _fill(prediction, axes, [c + MOVED_MM for c in center], diameter / 2)
    ct = np.empty(shape, np.int16)
    hu = np.array([-50, 110, 60], np.int16)  # HU of background, liver and lesion
    for k in range(shape[2]):
        ct[..., k] = hu[reference[..., k]] + rng.integers(-20, 20, shape[:2], dtype=np.int16)
    return reference, prediction, ct


def _fill(labels, axes, center, radius):
    inside = [np.flatnonzero(np.abs(axis - c) <= radius) for axis, c in zip(axes, center)]
    box = tuple(slice(at[0], at[-1] + 1) for at in inside)
    x, y, z = np.ix_(*(axis[at] - c for axis, at, c in zip(axes, inside, center)))
    labels[box][x**2 + y**2 + z**2 <= radius**2] = 2


def write_cases(folder, shape, lesions, cases):
    """Writes the subfolders `references`, with the CTs, and `predictions`."""
    affine = np.diag([*SPACING, 1.0])
    for number in range(cases):
        reference, prediction, ct = make_case(shape, lesions, number)
        for name, array in (
            (f"references/segmentation-{number}.nii.gz", reference),
            (f"references/volume-{number}.nii.gz", ct),
            (f"predictions/segmentation-{number}.nii.gz", prediction),
        ):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            nibabel.save(nibabel.Nifti1Image(array, affine), path)


def measure(folder, workers):
    """Returns the seconds of the command and the peak bytes of its largest process."""
    words = ["--reference_dir", folder / "references", "--prediction_dir", folder / "predictions"]
    command = ["-m", "mtf_imaging.cli.main", "score", *words, "--workers", str(workers)]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        peak = run([*command, "--output_dir", out])
    return time.perf_counter() - began, peak


def run(words):
    """Runs Python with arguments, and returns the peak bytes of its largest process."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run([sys.executable, "-c", _MEASURE, *command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: exited with code {done.returncode}")
    return 1024 * int(done.stdout)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--shape", type=int, nargs=3, default=(512, 512, 430), help="voxels along x, y, z")
    flags.add_argument("--lesions", type=int, default=10, help="number of lesions of each reference")
    flags.add_argument("--cases", type=int, default=1, help="number of cases")
    flags.add_argument("--workers", type=int, nargs="+", default=[1], help="numbers of processes, a row each")
    arguments = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # In its own process, because the peak of a new process starts at the memory of its parent.
        make = multiprocessing.get_context("spawn").Process(
            target=write_cases, args=(Path(folder), arguments.shape, arguments.lesions, arguments.cases)
        )
        make.start()
        make.join()
        if make.exitcode:
            raise SystemExit("the cases could not be written; the error is above")
        size = " x ".join(map(str, arguments.shape))
        print(f"{arguments.cases} case(s) of {size} voxels with {arguments.lesions} lesions, {os.cpu_count()} cores")
        imported = run(["-c", IMPORTS])
        print(f"{'workers':>8}{'s':>8}{'s a case':>10}{'GiB a process':>15}{'over import':>13}")
        for workers in arguments.workers:
            seconds, peak = measure(Path(folder), workers)
            row = f"{workers:8}{seconds:8.1f}{seconds / arguments.cases:10.1f}{peak / GIB:15.2f}"
            print(f"{row}{(peak - imported) / GIB:13.2f}", flush=True)


if __name__ == "__main__":
    main()
