"""Folders with tiny runs, each of which is made once in a test session.

All tests of a session, also those in other processes of pytest-xdist, read the same folders. A test that changes a run
changes a copy.
"""

import fcntl
import os
import shutil

import numpy as np

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.models.resnet import Classification, GeneratedImages, ResNet
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from tests.commands import run
from tests.jobs import object_runs
from tests.jobs.launched import GIN

VOLUMES = LiverTumorSegmentation(UNet3D(base_filters=2, depth=1, convs=1, dropout_rate=0.3))
VOLUMES_GIN = GIN + "train.checkpoint_every = 2\n"
SPLIT = mi.Layout.parse("rows:2,cols:2", "x:rows,y:cols")
SPLIT_WORDS = ["--mesh_shape=rows:2,cols:2", "--layout=x:rows,y:cols"]
ARRAYS = Classification(ResNet(classes=4, blocks=(1, 1), base_filters=4))
ARRAY_SIZES = (16, 12)


def volumes(factory):
    """Returns four phantoms `cases`, their `records` of 12 voxels a side, `job.gin`, and a `run` of four steps.

    Args:
      factory: the fixture `tmp_path_factory`; so of all functions of this module.
    """
    return _made(factory, "volumes", write_volumes)


def arrays(factory):
    """Returns a `run` with the checkpoints 1 and 2, of which 2 is also the best one, and two `arrays`."""
    return _made(factory, "arrays", write_arrays)


def objects(factory):
    """Returns images with `objects`, a `run` with masks, and its `scores`."""
    return _made(factory, "objects", object_runs.write_scored_run)


def _made(factory, name, write):
    """Returns a folder, which the first process that needs it writes."""
    base = factory.getbasetemp()  # one for each process of pytest-xdist
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tiny_runs"
    root.mkdir(exist_ok=True)
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / f"{name}.done").exists():
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir()
            write(root / name)
            (root / f"{name}.done").touch()
    return root / name


def write_volumes(folder):
    write_phantom(folder / "cases", 4, seed=1)
    mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / "records", resolution=12, workers=1, progress=False)
    (folder / "job.gin").write_text(VOLUMES_GIN)
    assert run(*train_volumes(folder, folder / "run"), "--num_steps=4", "--seed=3", *SPLIT_WORDS) == 0


def train_volumes(folder, model_dir):
    """Returns the words of a command that trains as the `run` of the volumes."""
    return ["train", "--data_dir", folder / "records", "--model_dir", model_dir, "--gin_file", folder / "job.gin"]


def train_arrays(model_dir):
    height, width = ARRAY_SIZES
    data = mi.jobs.TrainingData("none", GeneratedImages(height=height, width=width))
    options = {"batch_size": 2, "num_steps": 2, "checkpoint_every": 1, "progress": False}
    mi.jobs.train(task=ARRAYS, data=data, model_dir=model_dir, **options)


def write_arrays(folder):
    train_arrays(folder / "run")
    shutil.copytree(folder / "run", folder / "run/best", ignore=shutil.ignore_patterns("[!c]*", "ckpt-1.*", "config*"))
    (folder / "arrays").mkdir()
    for number in (10, 9):
        np.save(folder / f"arrays/image_{number}.npy", array(number))


def array(seed):
    return np.random.default_rng(seed).normal(size=(*ARRAY_SIZES, 3))  # float64, which the network casts
