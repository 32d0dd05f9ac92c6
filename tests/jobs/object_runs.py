"""Runs of the tiny task that detects objects, which several test modules evaluate."""

import mtf_imaging as mi
from mtf_imaging.kinds.objects.data_set import ObjectAugmentation, Objects
from mtf_imaging.training.optimizers import Adam
from tests.jobs.object_network import TinyDetection, write_objects_folder

SPLIT = mi.Layout.parse("rows:2,cols:3", "height:rows,width:cols")
STEPS = 4
DATA = Objects(size=(16, 24), max_boxes=3, masks=True, augmentation=ObjectAugmentation())
COMMON = {"task": TinyDetection(masks=True), "dtype": "float64", "progress": False}


def train(folder, model_dir, num_steps=STEPS, data_set=DATA, **options):
    data = mi.jobs.TrainingData(folder / "objects", data_set, eval_dir=folder / "objects")
    settings = {"optimizer": Adam(0.05), "batch_size": 2, "checkpoint_every": 2}
    return mi.jobs.train(**COMMON | settings | options, data=data, model_dir=model_dir, num_steps=num_steps)


def write_scored_run(folder):
    """Writes a folder as in COCO, a run with masks, and its evaluation; returns the folder."""
    write_objects_folder(folder / "objects")
    train(folder, folder / "run")
    mi.jobs.evaluate(
        **COMMON, model_dir=folder / "run", input_dir=folder / "objects", output_dir=folder / "scores", num_pictures=1
    )
    return folder


def evaluate_run(folder, output_dir, **options):
    """Evaluates the run of a folder."""
    own = {"model_dir": folder / "run", "input_dir": folder / "objects", "output_dir": output_dir}
    return mi.jobs.evaluate(**COMMON | own | options)


def predict_run(folder, output, **options):
    """Predicts with the run of a folder."""
    own = {"model_dir": folder / "run", "input": folder / "objects", "output": output}
    return mi.jobs.predict(**COMMON | own | options)
