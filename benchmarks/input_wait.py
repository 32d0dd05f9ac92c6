"""Measures what part of a training step is spent waiting for data: the demo's network on records of phantom cases.

    python benchmarks/input_wait.py --size 128 --steps 12

The loop, the program and the data set are those of `mtf-imaging train`. "data" is what a batch takes where nothing else
runs, so a step that is shorter would have to wait; "alone" is a step on one batch that is kept; "step" is one on fresh
batches, which take cores from the network; "waits" is the time of it in `next(batches)`, and "share" their ratio.
Medians over the steps, without the first ones, and for "data" the mean. --records keeps the cases for another time.
"""

import argparse
import contextlib
import functools
import itertools
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
from mtf_imaging.training.step import training_step
from mtf_imaging.training.task import task_inputs

CASES, WARM_UP = 4, 2
WINDOW = (-160.0, 240.0)
PAPER = {  # of gin/unet3d_lits.gin, with lesions always
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
    """What the loop asks of checkpoints, without any."""

    every, last = 10**9, None

    def save_once(self):
        pass


class Clock:
    """Batches that note when each was asked for and when it came."""

    def __init__(self, batches):
        self._batches = batches
        self.asked, self.came = [], []

    def __iter__(self):
        return self

    def __next__(self):
        self.asked.append(time.perf_counter())
        batch = next(self._batches)
        self.came.append(time.perf_counter())
        return batch

    def medians(self):
        """Seconds of a step and of the wait in it."""
        steps = [after - before for before, after in itertools.pairwise(self.asked)][WARM_UP:]
        waits = [came - asked for asked, came in zip(self.asked, self.came)][WARM_UP:]
        return statistics.median(steps), statistics.median(waits)


def run(program, batches, steps):
    """Makes steps by the loop of training; returns the medians of the step and of the wait."""
    clock = Clock(batches)
    goal = int(program.step) + WARM_UP + steps + 1
    loop.train(
        program=program, batches=lambda start: clock, num_steps=goal, checkpoints=NoCheckpoints(), progress=False
    )
    return clock.medians()


def seconds_a_batch(batches, count=20):
    """What a batch takes where nothing else runs."""
    for _ in range(WARM_UP):
        next(batches)
    began = time.perf_counter()
    for _ in range(count):
        next(batches)
    return (time.perf_counter() - began) / count


def make_records(folder, size):
    """Records of phantom cases in `folder`; what is there already is kept."""
    records = Path(folder) / f"records_{size}"
    if not records.is_dir():
        write_phantom(Path(folder) / "cases", CASES, seed=0)
        convert(Path(folder) / "cases", records, size)
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="voxels along each axis")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--augmentations", nargs="+", choices=AUGMENTATIONS, default=["none", "all"])
    parser.add_argument("--steps", type=int, default=12, help="of each run, besides those left out")
    parser.add_argument("--records", help="folder for cases and records; default: one that is deleted at the end")
    arguments = parser.parse_args()

    with contextlib.ExitStack() as stack:
        folder = arguments.records or stack.enter_context(tempfile.TemporaryDirectory())
        records = make_records(folder, arguments.size)
        sizes = (arguments.size,) * 3
        print(f"float32, {arguments.size}^3")
        print("batch  augmentation  data      alone    step      waits     share")
        for batch_size in arguments.batch_sizes:
            task = LiverTumorSegmentation(UNet3D(base_filters=8, dropout_rate=0.0))
            inputs = task_inputs(task, batch_size, sizes)
            optimizer = Adam(StepDecay(0.003, factor=0.3, every=400))
            program = mi.Program(training_step(task, optimizer), inputs, mesh_impl="stacked")
            for name in arguments.augmentations:
                data = Records(WINDOW, AUGMENTATIONS[name])
                options = {"batch_size": batch_size, "sizes": sizes, "seed": 0, "start_step": 0}
                batches = functools.partial(data_batches, data, str(records), inputs, **options)
                seconds = seconds_a_batch(batches())
                alone, _ = run(program, itertools.repeat(next(batches())), arguments.steps)
                step, wait = run(program, batches(), arguments.steps)
                print(
                    f"{batch_size:5}  {name:12}  {seconds:.3f} s  {alone:5.2f} s  {step:5.2f} s  {1e3 * wait:7.2f} ms"
                    f"  {wait / step:6.2%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
