"""Compares the time of `predict` with that of the same network in plain TensorFlow with a plain sliding window.

    python -m benchmarks.prediction_speed
    python -m benchmarks.prediction_speed --shape 256 256 200 --resolution 128 --cases 5

The network is that of the job `unet3d_real_ct`. Both programs read compressed CTs, resample them to a grid, predict
them, resample the probabilities back and write compressed segmentations. Plain TensorFlow reads and writes with nibabel
and resamples with SciPy. Each row is a new process, whose first case does not count: the network is built in it. Times
are processor seconds of all threads, because other programs on the same cores hardly change them; the elapsed time
gives the cases per minute. The rows take turns, and the table shows medians.
"""

import argparse
import collections
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.tables import markdown
from benchmarks.whole_volume import fresh, store

ROOT = Path(__file__).parents[1]
PARTS = ("reading", "resampling", "network", "writing")
_WHOLE = ["--window", "none"]
_SPLIT, _SLABS = ["--mesh_shape", "rows:2,cols:2", "--layout", "x:rows,y:cols"], ["--mesh_shape", "slabs:4"]
OURS = {  # {row: flags of predict}
    "whole": _WHOLE,
    "window": ["--window_step", "0.5"],
    "2x2": [*_WHOLE, *_SPLIT],
    "in turn": [*_WHOLE, *_SLABS, "--layout", "x:slabs", "--sequential", "slabs"],
}
ROWS = (*OURS, "plain whole", "plain window")


class Parts:
    """The processor seconds of each part of the work. A part that begins within another one interrupts it."""

    def __init__(self):
        self._seconds, self._open, self._last = collections.Counter(), ["resampling"], time.process_time()
        self._began, self._cases = time.perf_counter(), 0

    def _switch(self):
        now = time.process_time()
        self._seconds[self._open[-1]] += now - self._last
        self._last = now

    def timed(self, function, part):
        """Returns a function whose time counts as `part`."""

        @functools.wraps(function)
        def call(*args, **kwargs):
            self._switch()
            self._open.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._open.pop()

        return call

    def end_case(self):
        """Counts a case; all times before the end of the first one are forgotten."""
        self._switch()
        self._cases += 1
        if self._cases == 1:
            self._seconds.clear()
            self._began = time.perf_counter()

    def result(self):
        """Returns the seconds of each part for a case, and the elapsed seconds."""
        count = self._cases - 1
        per_case = {part: self._seconds[part] / count for part in PARTS}
        return per_case | {"elapsed": (time.perf_counter() - self._began) / count}


def ours(folder, words):
    """Predicts all cases with `mtf-imaging predict`; returns the times."""
    from mtf_imaging.cli.main import main
    from mtf_imaging.engine.program.program import Program
    from mtf_imaging.kinds.volumes.segment import segmenter

    parts = Parts()
    opened, written = segmenter.Segmenter.open, segmenter.Segmentation.write

    def open_source(*args):
        source = opened(*args)
        for channel in source.channels:
            cls = type(channel)
            if not hasattr(cls.read, "__wrapped__"):
                cls.read = parts.timed(cls.read, "reading")
        return source

    def write(*args):
        parts.timed(written, "writing")(*args)
        parts.end_case()

    segmenter.Segmenter.open, segmenter.Segmentation.write = parts.timed(open_source, "reading"), write
    Program._call = parts.timed(Program._call, "network")
    words = ["predict", "--model_dir", folder / "run", "--input", folder / "cases", "--output", folder / "ours", *words]
    if main([*map(str, words), "--overwrite"]):
        raise SystemExit("predict failed; see its message above")
    return parts.result()


def plain(folder, resolution, window):
    """Predicts all cases in plain TensorFlow; returns the times."""
    import nibabel
    import numpy as np
    import tensorflow as tf
    from scipy import ndimage

    from benchmarks.learning import keras_unet

    parts, model = Parts(), keras_unet.network()
    keras_unet.PATCH = (window,) * 3
    network = tf.function(model, reduce_retracing=True)
    predict = parts.timed(functools.partial(keras_unet.predict, network, use_patches=bool(window)), "network")

    def read(path):
        image = nibabel.load(path)
        return image, np.asarray(nibabel.as_closest_canonical(image).dataobj, np.float32)

    for path in sorted((folder / "cases").glob("volume-*")):
        image, values = parts.timed(read, "reading")(path)
        low, high = keras_unet.LOW, keras_unet.HIGH
        there = [resolution / n for n in values.shape]
        grid = np.clip((ndimage.zoom(values, there, order=1) - low) / (high - low), 0, 1)
        probabilities = predict(grid)
        back = [n / resolution for n in values.shape]
        scores = [ndimage.zoom(probabilities[..., at], back, order=1) for at in range(keras_unet.CLASSES)]
        labels = np.argmax(scores, axis=0).astype(np.uint8)
        parts.timed(keras_unet.save, "writing")(labels, image, folder / path.name.replace("volume", "plain"))
        parts.end_case()
    return parts.result()


def worker(folder, row, resolution, window):
    """Measures a row in this process, and prints its times."""
    from mtf_imaging.cli.runtime.quiet import import_tensorflow

    import_tensorflow()
    has_window = row.endswith("window")
    if row in OURS:
        times = ours(folder, [*OURS[row], *(["--window", window] if has_window else [])])
    else:
        times = plain(folder, resolution, window if has_window else 0)
    print("\n" + json.dumps(times))


def prepare(folder, flags):
    """Writes the cases, and a run with a network after one step."""
    (folder / "cases").mkdir()
    fresh(store, folder / "cases", tuple(flags.shape), "int16.nii.gz")
    for number in range(1, flags.cases):
        for name in ("volume", "segmentation"):
            (folder / f"cases/{name}-{number}.nii.gz").hardlink_to(folder / f"cases/{name}-0.nii.gz")
    job = ["--gin_file", "unet3d_real_ct", "--num_steps", 1, "--model_dir"]
    for words in (
        ["convert", "--input_dir", folder / "cases", "--output_dir", folder / "records"],
        ["train", "--data_dir", folder / "records", *job, folder / "run"],
    ):
        sizes = ["--resolution", flags.resolution]
        command = [sys.executable, "-m", "mtf_imaging.cli.main", *words, *sizes]
        subprocess.run([*map(str, command)], cwd=ROOT, check=True, capture_output=True)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=3, default=(192, 192, 128), help="voxels of a CT")
    parser.add_argument("--resolution", type=int, default=96, help="voxels of the grid along each axis")
    parser.add_argument("--window", type=int, default=64, help="voxels of the window along each axis")
    parser.add_argument("--cases", type=int, default=4, help="number of CTs; the first one does not count")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each row")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=[*ROWS], help=", ".join(ROWS))
    parser.add_argument("--worker", nargs=2, metavar=("FOLDER", "ROW"), help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    if flags.worker:
        worker(Path(flags.worker[0]), flags.worker[1], flags.resolution, flags.window)
        return
    measured = {row: [] for row in flags.rows}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), flags)
        for row in flags.rows * flags.rounds:
            words = ["--resolution", flags.resolution, "--window", flags.window, "--worker", folder, row]
            command = [sys.executable, "-m", "benchmarks.prediction_speed", *map(str, words)]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
            measured[row].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{row}: {measured[row][-1]}", file=sys.stderr, flush=True)
    rows = []
    for row, times in measured.items():
        part = {name: statistics.median(each[name] for each in times) for name in (*PARTS, "elapsed")}
        total = sum(part[name] for name in PARTS)
        shares = [f"{part[name]:.2f} ({part[name] / total:.0%})" for name in PARTS]
        rows.append([row, f"{60 / part['elapsed']:.1f}", f"{total:.2f}", *shares])
    print(markdown(["", "cases a minute", "processor seconds a case", *PARTS], rows))


if __name__ == "__main__":
    main()
