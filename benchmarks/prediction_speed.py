"""Compares the time of `predict` with that of the same network in plain TensorFlow with a plain sliding window.

    python -m benchmarks.prediction_speed
    python -m benchmarks.prediction_speed --shape 256 256 200 --resolution 128 --cases 5

The network is that of the job `unet3d_real_ct`. Both programs read compressed CTs, resample them to a grid, predict
them, resample the probabilities back and write compressed segmentations. Plain TensorFlow reads and writes with nibabel
and resamples with SciPy. Each row is a new process. The time from the second case to the last one counts: the network
is built in the first case. Times are processor seconds, because other programs on the same cores hardly change them;
the elapsed time, which is shorter where reading and writing overlap the network, gives the cases per minute. The rows
take turns, and the table shows medians. `--root` names other versions of this repository, which take turns, too.
"""

import argparse
import collections
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
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
    """The processor seconds of each part of the work, and the elapsed seconds.

    Reading, resampling and writing run in Python's threads, which are timed one by one. The rest of the time of the
    process is that of the network, most of it in TensorFlow's threads.
    """

    def __init__(self):
        self._seconds, self._own, self._begun = collections.Counter(), threading.local(), []

    def timed(self, function, part):
        """Returns a function whose time counts as `part`, without that of the timed functions that it calls."""

        @functools.wraps(function)
        def call(*args, **kwargs):
            inner = self._own.__dict__.setdefault("inner", [0.0])
            inner.append(0.0)
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                seconds = time.thread_time() - began
                self._seconds[part] += seconds - inner.pop()
                inner[-1] += seconds

        return call

    def begin_case(self):
        """Is called before the network of a case."""
        now = {"network": time.process_time(), "elapsed": time.perf_counter()}
        self._begun.append(collections.Counter({**now, **self._seconds}))

    def result(self):
        """Returns the seconds of each part for a case, and the elapsed seconds, from the second case to the last."""
        first, last = self._begun[1], self._begun[-1]
        times = {name: (last[name] - first[name]) / (len(self._begun) - 2) for name in (*PARTS, "elapsed")}
        times["network"] -= sum(times[name] for name in PARTS if name != "network")
        return times


def ours(folder, words):
    """Predicts all cases with `mtf-imaging predict`; returns the times."""
    from mtf_imaging.cli.main import main
    from mtf_imaging.kinds.volumes.segment import labels, segmenter

    parts = Parts()
    opened, segmented = segmenter.Segmenter.open, segmenter.Segmenter.segment

    def open_source(*args):
        source = opened(*args)
        for channel in source.channels:
            cls = type(channel)
            if not hasattr(cls.read, "__wrapped__"):
                cls.read = parts.timed(cls.read, "reading")
        return source

    def segment(*args):
        parts.begin_case()
        return segmented(*args)

    segmenter.Segmenter.open, segmenter.Segmenter.segment = parts.timed(open_source, "reading"), segment
    segmenter.input_region = parts.timed(segmenter.input_region, "resampling")
    labels.Labeling.add = parts.timed(labels.Labeling.add, "resampling")
    segmenter.Segmentation.write = parts.timed(segmenter.Segmentation.write, "writing")
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
    predict = functools.partial(keras_unet.predict, network, use_patches=bool(window))

    def read(path):
        image = nibabel.load(path)
        return image, np.asarray(nibabel.as_closest_canonical(image).dataobj, np.float32)

    def to_grid(values):
        low, high = keras_unet.LOW, keras_unet.HIGH
        there = [resolution / n for n in values.shape]
        return np.clip((ndimage.zoom(values, there, order=1) - low) / (high - low), 0, 1)

    def to_labels(probabilities, shape):
        back = [n / resolution for n in shape]
        scores = [ndimage.zoom(probabilities[..., at], back, order=1) for at in range(keras_unet.CLASSES)]
        return np.argmax(scores, axis=0).astype(np.uint8)

    for path in sorted((folder / "cases").glob("volume-*")):
        parts.begin_case()
        image, values = parts.timed(read, "reading")(path)
        probabilities = predict(parts.timed(to_grid, "resampling")(values))
        labels = parts.timed(to_labels, "resampling")(probabilities, values.shape)
        parts.timed(keras_unet.save, "writing")(labels, image, folder / path.name.replace("volume", "plain"))
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
    parser.add_argument("--cases", type=int, default=8, help="number of CTs; the first and the last one do not count")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each row")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=[*ROWS], help=", ".join(ROWS))
    parser.add_argument("--root", type=Path, nargs="+", default=[ROOT], help="versions of this repository to compare")
    parser.add_argument("--worker", nargs=2, metavar=("FOLDER", "ROW"), help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    if flags.worker:
        worker(Path(flags.worker[0]), flags.worker[1], flags.resolution, flags.window)
        return
    measured = {(row, root): [] for row in flags.rows for root in flags.root}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), flags)
        for row, root in [*measured] * flags.rounds:
            words = ["--resolution", flags.resolution, "--window", flags.window, "--worker", folder, row]
            command = [sys.executable, __file__, *map(str, words)]
            environment = {**os.environ, "PYTHONPATH": f"{root}"}
            done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True, env=environment)
            measured[row, root].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{row}, {root}: {measured[row, root][-1]}", file=sys.stderr, flush=True)
    rows = []
    for (row, root), times in measured.items():
        part = {name: statistics.median(each[name] for each in times) for name in (*PARTS, "elapsed")}
        total = sum(part[name] for name in PARTS)
        shares = [f"{part[name]:.2f} ({part[name] / total:.0%})" for name in PARTS]
        name = row if len(flags.root) == 1 else f"{row}, {root}"
        rows.append([name, f"{60 / part['elapsed']:.1f}", f"{part['elapsed']:.2f}", f"{total:.2f}", *shares])
    print(markdown(["", "cases a minute", "elapsed seconds", "processor seconds", *PARTS], rows))


if __name__ == "__main__":
    main()
