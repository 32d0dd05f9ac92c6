"""Runs jobs one after another, in one process or in several: `python -m tests.jobs.together JOBS.json`."""

import json
import sys
from pathlib import Path

import numpy as np

import mtf_imaging as mi

LAYOUTS = {
    "one": ("", ""),
    "space": ("rows:2,cols:2", "x:rows,y:cols"),
    "uneven": ("rows:4", "y:rows"),
    "batch": ("rows:2,cores:2", "x:rows,batch:cores"),
    "turns": ("slabs:3,rows:4", "x:slabs,y:rows", "slabs"),
}


def settings(recompute=False):
    from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D

    network = UNet3D(base_filters=2, depth=1, convs=1, dropout_rate=0.3, recompute=recompute)
    return {"task": LiverTumorSegmentation(network), "dtype": "float64", "progress": False}


def train(folder, model_dir, layout, steps, recompute=False, **options):
    """Trains in `folder / model_dir`; an option overrides the common settings."""
    from mtf_imaging.training.optimizers import Adam

    common = settings(recompute) | {"optimizer": Adam(0.01), "batch_size": 2, "checkpoint_every": 2, "monitor": "liver"}
    common["class_frequencies"] = None  # so that the networks of a few steps predict other labels than the background
    data = mi.jobs.TrainingData(
        folder / "records", eval_dir=folder / "held_out" if options.pop("eval", False) else None
    )
    if "initial_weights" in options:
        options["initial_weights"] = folder / options["initial_weights"]
    layout = layout if layout == "auto" else mi.Layout.parse(*LAYOUTS[layout])
    mi.jobs.train(**common | options, data=data, model_dir=folder / model_dir, num_steps=steps, layout=layout)


def evaluate(folder, model_dir, layout, output):
    folders = {"input_dir": folder / "cases", "output_dir": folder / output, "model_dir": folder / model_dir}
    mi.jobs.evaluate(**settings(), **folders, layout=mi.Layout.parse(*LAYOUTS[layout]), flips=("x",))


def predict(folder, model_dir, layout, output, **options):
    paths = {"input": folder / "cases", "output": folder / output, "model_dir": folder / model_dir}
    mi.jobs.predict(**settings(), **paths, layout=mi.Layout.parse(*LAYOUTS[layout]), **options)


def fails(folder, failing):
    """Runs a job that must raise an error, and prints it."""
    try:
        run(folder, failing)
    except mi.MtfImagingError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    else:
        raise AssertionError(f"{failing} did not fail")


def run(folder, job):
    job = dict(job)
    {"train": train, "evaluate": evaluate, "predict": predict, "fails": fails}[job.pop("job")](folder, **job)


def weights(model_dir):
    """Returns the variables of the last checkpoint of a run by name."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(model_dir))
    names = [name for name in reader.get_variable_to_shape_map() if "/_named/" in name]
    return {name: reader.get_tensor(name) for name in names}


def losses(model_dir):
    return np.loadtxt(Path(model_dir) / "losses.csv", delimiter=",", skiprows=1, usecols=(0, 1, 2, 3), ndmin=2)


if __name__ == "__main__":
    mi.meshes.join()
    for each in json.loads(Path(sys.argv[1]).read_text()):
        run(Path(sys.argv[1]).parent, each)
