"""The job that gin describes, from its data to its results: where dataset, network, program and loop meet."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import gin
import tensorflow as tf

from mtf_imaging.cli import model_dir as model_dirs
from mtf_imaging.cli.job_setup import JobSetup
from mtf_imaging.data.augment import Augmentation
from mtf_imaging.data.grid import format_grid, parse_grid
from mtf_imaging.data.intensity import DEFAULT_WINDOW
from mtf_imaging.data.manifest import open_records
from mtf_imaging.data.pipeline import training_batches
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.evaluate import evaluate as evaluate_cases
from mtf_imaging.evaluation.predict import predict_cases
from mtf_imaging.program import Program
from mtf_imaging.training import loop, optimizers, schedules  # noqa: F401  the last two for their names in gin files
from mtf_imaging.training.checkpoints import Checkpoints
from mtf_imaging.training.describe import describe_slices
from mtf_imaging.training.losses import LossLog
from mtf_imaging.training.prediction import predictor
from mtf_imaging.training.step import training_step

gin.external_configurable(Augmentation, module="mtf_imaging")


DTYPES = ("float32", "float64")


@gin.configurable("job", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class Job:
    """What training and use of a network have in common.

    Attributes:
      task: a `training.task.Task`.
      window: (low, high) in HU, which the image is clipped to.
      dtype: of images, weights and all that is computed: "float32"; "float64" to compare runs digit by digit.
    """

    task: object = gin.REQUIRED
    window: tuple[float, float] = DEFAULT_WINDOW
    dtype: str = "float32"

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ConfigError(f"job.dtype = {self.dtype!r} is not known. Fix: choose one of {', '.join(DTYPES)}.")


@gin.configurable("train", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class Training:
    """What only training needs.

    Attributes:
      num_steps: in all.
      optimizer: a `training.optimizers.Optimizer`.
      seed: of weights, data order and random operations.
      augmentation: a function as `data.augment.Augmentation` is one, or None.
      checkpoint_every: steps between checkpoints.
      checkpoints_kept: how many of the last stay.
    """

    num_steps: int = gin.REQUIRED
    optimizer: optimizers.Optimizer = gin.REQUIRED
    seed: int = 0
    augmentation: Callable | None = None
    checkpoint_every: int = 100
    checkpoints_kept: int = 3


def train(data_dir: str, model_dir: str, setup: JobSetup, dry_run: bool = False) -> None:
    """Trains on the records of `data_dir`, or goes on; with `dry_run`, builds all and prints what it would be."""
    job, training = Job(), Training()
    resolution = setup.resolution or open_records(data_dir).resolution

    def batches(start):
        found = training_batches(
            data_dir,
            setup.batch_size,
            training.seed,
            start,
            resolution=resolution,
            window=job.window,
            augmentation=training.augmentation,
        )
        return ({**batch, "image": tf.cast(batch["image"], job.dtype)} for batch in found)

    if not dry_run:  # what is wrong with the folders is found before the network is built
        batches(0)
        model_dirs.check(model_dir)
    inputs = job.task.inputs(setup.batch_size, parse_grid(resolution), dtype=job.dtype, labels=True)
    program = Program(training_step(job.task, training.optimizer), inputs, seed=training.seed, **_layout(setup))
    if dry_run:
        print(describe_slices(program, inputs))
        return

    checkpoints = Checkpoints(model_dir, program, training.checkpoint_every, training.checkpoints_kept)
    checkpoints.restore()
    # Only now: the configuration of a run must not be replaced by one that does not fit its checkpoints.
    model_dirs.save_config(model_dir, {"setup.resolution": format_grid(parse_grid(resolution))})
    loop.train(
        program=program,
        batches=batches,
        num_steps=training.num_steps,
        checkpoints=checkpoints,
        losses=LossLog(Path(model_dir) / "losses.csv"),
    )


def evaluate(model_dir: str, input_dir: str, output_dir: str, setup: JobSetup) -> None:
    """Segments and scores the cases of `input_dir`."""
    job = Job()
    evaluate_cases(input_dir, output_dir, _grid(setup), _predictor(job, model_dir, setup), job.window)


def predict(model_dir: str, input_path: str, output_path: str, setup: JobSetup, overwrite: bool = False) -> None:
    """Segments a volume, or the volumes of a folder."""
    job = Job()
    network = _predictor(job, model_dir, setup)
    predict_cases(input_path, output_path, _grid(setup), network, job.window, overwrite=overwrite)


def _layout(setup: JobSetup) -> dict:
    return {"mesh_shape": setup.mesh_shape, "layout": setup.layout, "mesh_impl": setup.mesh_impl}


def _grid(setup: JobSetup):
    if setup.resolution is None:
        raise ConfigError("the resolution is not known. Fix: give --resolution, or the --model_dir of a run of train.")
    return parse_grid(setup.resolution)


def _predictor(job: Job, model_dir: str, setup: JobSetup):
    return predictor(task=job.task, sizes=_grid(setup), dtype=job.dtype, model_dir=model_dir, **_layout(setup))
