"""Compares the loss curves of the demo job in bfloat16 and float32 with rounding noise.

    mtf-imaging phantom --output_dir cases --num_cases 16 --seed 1
    mtf-imaging convert --input_dir cases --output_dir records --resolution 64
    python benchmarks/bfloat16_curve.py --data_dir records

Adam amplifies rounding: two float32 runs that round in different orders, for instance under two layouts, soon differ
by a few percent per step, in both directions. A curve is therefore the mean loss in windows of 20 steps, averaged over
runs with several seeds (for the weights and the case order). "noise" is the difference between float32 under a 2 x 2
layout and float32 on one processor.

Results on a CPU over 200 steps, as differences from float32:

    Adam, 4 seeds       all steps   window of the mean   window of a run
    bfloat16            -0.17%      1.4%                 4.2%
    noise               +0.11%      1.1%                 2.7%

With Adafactor and 1 seed, bfloat16 differs by 0.4% in a window.
"""

import argparse

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adafactor, Adam, StepDecay
from mtf_imaging.training.step import training_step

RESOLUTION, WINDOW = 64, 20
OPTIMIZERS = {"adam": Adam, "adafactor": Adafactor}
RUNS = {
    "float32": ("float32", "", ""),
    "bfloat16": ("bfloat16", "", ""),
    "noise": ("float32", "rows:2,cols:2", "x:rows,y:cols"),
}


def losses(data_dir, optimizer, seed, steps, dtype, mesh_shape, layout):
    """Returns the loss of each step in a run of the demo job."""
    task = LiverTumorSegmentation(UNet3D(base_filters=8, dropout_rate=0.0))
    step = training_step(task, OPTIMIZERS[optimizer](StepDecay(0.003, factor=0.3, every=400)))
    inputs = task.inputs(1, (RESOLUTION,) * 3, dtype)
    program = mi.Program(step, inputs, mesh_shape=mesh_shape, layout=layout, mesh_impl="stacked", seed=seed)
    batches = Records(window=(-160.0, 240.0)).training_batches(data_dir, 1, seed, 0, resolution=str(RESOLUTION))
    return [
        float(program(image=tf.cast(batch["image"], dtype), labels=batch["labels"])["loss"])
        for _, batch in zip(range(steps), batches)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True, help="folder of records at 64^3")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam", help="optimizer; the demo job uses adam")
    parser.add_argument("--steps", type=int, default=200, help="steps of each run")
    parser.add_argument("--seeds", type=int, default=4, help="runs of each kind, with different seeds")
    arguments = parser.parse_args()

    curves = {}
    for name, run in RUNS.items():
        seeds = range(arguments.seeds)
        values = np.array(
            [losses(arguments.data_dir, arguments.optimizer, seed, arguments.steps, *run) for seed in seeds]
        )
        curves[name] = values.reshape(arguments.seeds, -1, min(WINDOW, arguments.steps)).mean(-1)
        print(f"{name:8} {' '.join(f'{loss:.4f}' for loss in curves[name].mean(0))}", flush=True)
    for name in ("bfloat16", "noise"):
        of_seeds = np.abs(curves[name] / curves["float32"] - 1).max()
        of_mean = curves[name].mean(0) / curves["float32"].mean(0) - 1
        whole = curves[name].mean() / curves["float32"].mean() - 1
        print(
            f"{name} from float32: all steps {whole:+.2%}, a window of their mean {np.abs(of_mean).max():.2%}, "
            f"a window of a run {of_seeds:.2%}"
        )


if __name__ == "__main__":
    main()
