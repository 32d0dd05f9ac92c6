"""Measures the share of a training step that waits for data, for the demo network and records of synthetic cases.

    python benchmarks/input_wait.py --size 128 --steps 12

The loop, the program and the data set are the same as in `mtf-imaging train`. The columns are:

    cache    cold: before each step, the records are dropped from the page cache, so every read goes to the disk;
             warm: the records stay in the page cache
    data     time to prepare a batch while nothing else runs; a shorter step has to wait
    alone    time of a step on the same batch every time
    step     time of a step on new batches, whose preparation takes cores from the network
    waits    time per step inside `next(batches)`
    share    waits / step

"data" is a mean and the other columns are medians, without the first steps. --records keeps the cases for later calls;
it must be a folder on a disk, because the files of a tmpfs cannot be dropped from memory.
"""

import argparse
import contextlib
import functools
import itertools
import os
import statistics
import tempfile
import time
from pathlib import Path

import mtf_imaging as mi
from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.phantom.phantom import write_phantom
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training import loop
from mtf_imaging.training.data_set import data_batches
from mtf_imaging.training.optimizers import Adam, StepDecay
from mtf_imaging.training.step import input_regions, training_step
from mtf_imaging.training.task import task_inputs

CASES, WARM_UP = 4, 2
WINDOW = (-160.0, 240.0)
PAPER = {  # from gin/unet3d_lits.gin, with lesions in every sample
    "flips": ("x", "y", "z"),
    "half_turn": 0.5,
    "translation": 0.12,
    "zoom": 0.08,
    "class_shift": 0.01,
    "class_shift_sd": 0.02,
    "corruption": 0.1,
    "corruption_sd": 0.05,
    "multiscale_noise": 0.005,
    "lesions": 1.0,
    "lesion_count": 5,
}
AUGMENTATIONS = {
    "none": None,
    "flips": Augmentation(flips=("x", "y", "z")),
    "light": Augmentation(flips=("x", "y", "z"), contrast=0.1, brightness=0.1, noise=0.05),
    "paper": Augmentation(**PAPER),
    "all": Augmentation(**PAPER, rotation=15, elastic=0.02, gamma=0.2, contrast=0.1, brightness=0.1),
}


class NoCheckpoints:
    """A replacement for `Checkpoints` that does not save anything."""

    every, last = 10**9, None

    def save_once(self):
        pass

    wait = close = save_once


class Clock:
    """An iterator of batches that records when each batch is requested and delivered.

    `before` is called before each request.
    """

    def __init__(self, batches, before):
        self._batches, self._before = batches, before
        self.requested, self.delivered = [], []

    def __iter__(self):
        return self

    def __next__(self):
        self._before()
        self.requested.append(time.perf_counter())
        batch = next(self._batches)
        self.delivered.append(time.perf_counter())
        return batch

    def medians(self):
        """Returns the median seconds of a step and of its wait."""
        steps = [after - before for before, after in itertools.pairwise(self.requested)][WARM_UP:]
        waits = [delivered - requested for requested, delivered in zip(self.requested, self.delivered)][WARM_UP:]
        return statistics.median(steps), statistics.median(waits)


def run(program, batches, steps, before):
    """Runs steps in the training loop and returns the median seconds of a step and of its wait."""
    clock = Clock(batches, before)
    goal = int(program.step) + WARM_UP + steps + 1
    loop.train(
        program=program,
        step=program.call_slices,
        batches=lambda start: clock,
        num_steps=goal,
        checkpoints=NoCheckpoints(),
        progress=False,
    )
    return clock.medians()


def seconds_a_batch(batches, before, count=20):
    """Returns the mean seconds to prepare a batch while nothing else runs."""
    for _ in range(WARM_UP):
        next(batches)
    began = time.perf_counter()
    for _ in range(count):
        before()
        next(batches)
    return (time.perf_counter() - began) / count


def make_records(folder, size):
    """Writes records of synthetic cases into `folder`, unless they exist, and returns their folder."""
    records, cases = Path(folder) / f"records_{size}", Path(folder) / "cases"
    if not cases.is_dir():
        write_phantom(cases, CASES, seed=0)
    if not records.is_dir():
        convert(cases, records, size)
    return records


def drop_cached(records):
    """Drops all files in a records folder from the page cache."""
    for path in records.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="voxels along each axis")
    parser.add_argument(
        "--batch_sizes", type=int, nargs="+", default=[1, 2], help="volumes in a step, a group of rows each"
    )
    parser.add_argument("--augmentations", nargs="+", choices=AUGMENTATIONS, default=["none", "all"], help="a row each")
    parser.add_argument("--caches", nargs="+", choices=["cold", "warm"], default=["cold", "warm"], help="a row each")
    parser.add_argument("--steps", type=int, default=12, help="measured steps of each run")
    parser.add_argument("--records", help="folder for cases and records; default: a temporary folder")
    arguments = parser.parse_args()

    with contextlib.ExitStack() as stack:
        folder = arguments.records or stack.enter_context(tempfile.TemporaryDirectory())
        records = make_records(folder, arguments.size)
        sizes = (arguments.size,) * 3
        print(f"float32, {arguments.size}^3")
        print("batch  augmentation  cache  data      alone    step      waits     share")
        for batch_size in arguments.batch_sizes:
            task = LiverTumorSegmentation(UNet3D(base_filters=8, dropout_rate=0.0))
            inputs = task_inputs(task, batch_size, sizes)
            optimizer = Adam(StepDecay(0.003, factor=0.3, every=400))
            program = mi.Program(training_step(task, optimizer), inputs, mesh_impl="stacked")
            regions = input_regions(program, inputs)
            for name, cache in itertools.product(arguments.augmentations, arguments.caches):
                data = Records(WINDOW, AUGMENTATIONS[name])
                options = {"batch_size": batch_size, "sizes": sizes, "seed": 0, "start_step": 0, "regions": regions}
                batches = functools.partial(data_batches, data, str(records), inputs, **options)
                before = functools.partial(drop_cached, records) if cache == "cold" else lambda: None
                seconds = seconds_a_batch(batches(), before)
                alone, _ = run(program, itertools.repeat(next(batches())), arguments.steps, lambda: None)
                step, wait = run(program, batches(), arguments.steps, before)
                print(
                    f"{batch_size:5}  {name:12}  {cache:5}  {seconds:.3f} s  {alone:5.2f} s  {step:5.2f} s"
                    f"  {1e3 * wait:7.2f} ms  {wait / step:6.2%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
