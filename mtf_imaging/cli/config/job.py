"""The job that gin describes: the task, and what training, evaluation and prediction share of it."""

import dataclasses

import gin

from mtf_imaging.cli.config.job_setup import JobSetup
from mtf_imaging.data.intensity import DEFAULT_WINDOW
from mtf_imaging.data.sampling.sampling import Sampling, parse_sampling
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.evaluate import evaluate as evaluate_cases
from mtf_imaging.evaluation.segment.cleanup import Cleanup
from mtf_imaging.evaluation.segment.flips import check_flips, over_flips
from mtf_imaging.evaluation.segment.predict import predict_cases
from mtf_imaging.training.prediction import predictor
from mtf_imaging.training.task import Task

DTYPES = ("float32", "bfloat16", "float64")


@gin.configurable("job", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class Job:
    """What training and use of a network have in common.

    Attributes:
      task: a `training.task.Task`.
      window: (low, high) in HU, which the image is clipped to.
      dtype: of images and activations: "float32"; "bfloat16" for half the memory, with weights, norm statistics, the
        optimizer and losses still in float32; "float64", all of it, to compare runs digit by digit.
      largest_liver: whether evaluate and predict keep the largest component of the liver alone, lesions included.
      lesions_in_liver: whether they drop lesions that do not touch the liver.
      flips: axes, as ("x", "y", "z"), over all combinations of whose flips they average the probabilities; n of them
        take 2^n times as long.
    """

    task: Task = gin.REQUIRED
    window: tuple[float, float] = DEFAULT_WINDOW
    dtype: str = "float32"
    largest_liver: bool = False
    lesions_in_liver: bool = False
    flips: tuple[str, ...] = ()

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ConfigError(f"job.dtype = {self.dtype!r} is not known. Fix: choose one of {', '.join(DTYPES)}.")
        check_flips(self.flips, "job.flips")
        _ = self.cleanup  # checks the two

    @property
    def cleanup(self) -> Cleanup:
        """What evaluate and predict remove of what the network finds."""
        return Cleanup(self.largest_liver, self.lesions_in_liver)


def evaluate(model_dir: str, input_dir: str, output_dir: str, setup: JobSetup, checkpoint: str, **options) -> None:
    """Segments and scores the cases of `input_dir`; see `evaluate_cases` for the options."""
    job = Job()
    network = _predictor(job, model_dir, setup, checkpoint)
    evaluate_cases(input_dir, output_dir, _sampling(setup), network, job.window, cleanup=job.cleanup, **options)


def predict(model_dir: str, input_path: str, output_path: str, setup: JobSetup, checkpoint: str, **options) -> None:
    """Segments a volume, or the volumes of a folder; see `predict_cases` for the options."""
    job = Job()
    network = _predictor(job, model_dir, setup, checkpoint)
    predict_cases(input_path, output_path, _sampling(setup), network, job.window, cleanup=job.cleanup, **options)


def _sampling(setup: JobSetup) -> Sampling:
    if setup.resolution is None:
        raise ConfigError("the resolution is not known. Fix: give --resolution, or the --model_dir of a run of train.")
    return parse_sampling(setup.resolution, setup.spacing)


def _predictor(job: Job, model_dir: str, setup: JobSetup, checkpoint: str):
    network = {"task": job.task, "sizes": _sampling(setup).grid, "dtype": job.dtype, **setup.of_program()}
    network["progress"] = True
    return over_flips(predictor(model_dir=model_dir, checkpoint=checkpoint, **network), job.flips)
