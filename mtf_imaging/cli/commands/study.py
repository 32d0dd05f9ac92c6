"""`mtf-imaging study`: compares resolutions, or whole volumes with patches, and plots the Dice scores."""

import functools
import time
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config.bound_training import bound_training
from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.config.gin_config import find_gin_file
from mtf_imaging.cli.config.setup_flags import GinSettings
from mtf_imaging.cli.runtime.command_lines import quoted
from mtf_imaging.cli.runtime.next_step import after_study
from mtf_imaging.cli.runtime.subprocesses import run_command, say
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.context_study.study import run_context_study
from mtf_imaging.jobs.studying import run_study
from mtf_imaging.settings.data import CONTEXT, StudyCases, StudySettings
from mtf_imaging.settings.setting import changed, setting, settings, values_of

_JOB, _JOB_OF_CONTEXT = "unet3d_study", "unet3d_context"


@settings
class _Flags(StudyCases):
    """The settings with flags in this command.

    Attributes:
      num_steps: number of steps of each training run. Default: the number in the job.
      gin_file: gin file of the job, which all training runs share; may be repeated, for instance with a layout.
        Default: unet3d_study, or unet3d_context.
      num_processes: number of processes for each training run and evaluation, as in launch. The layout must use all
        of them.
    """

    num_steps: int | None = changed(StudySettings, "num_steps", default=None)
    gin_file: tuple[str, ...] = setting(default=(), flag=True)
    gin_param: tuple[str, ...] = changed(GinSettings, "gin_param")
    num_processes: int = setting(default=1, least=1, flag=True)


SUMMARY = "compares resolutions, or whole volumes with patches, and plots the Dice scores."
EXAMPLE = "mtf-imaging study --output_dir study"
SETTINGS = (_Flags,)


def run(values: flags.FlagValues) -> str:
    for name in ("resolutions", "seeds"):
        _check_numbers(name, values[name].value)
    own = StudyCases(**values_of(StudyCases, FlagSettings(values, _Flags)))
    shared = ("input_dir", "held_out_dir", "num_steps", "gin_param")
    settings = {name: values[name].value for name in shared} | {"num_cases": own.cases_to_write}
    if own.kind == CONTEXT:
        return _compare_context(values, own, settings)
    gin_file = list(values.gin_file) or [_JOB]
    steps = _CommandLines(values, gin_file, own)
    run_study(steps, own, settings | {"gin_file": gin_file})
    return after_study(values)


def _compare_context(values: flags.FlagValues, own: StudyCases, settings: dict) -> str:
    """Runs the context study and prints the path of its picture."""
    if values.num_processes > 1:
        raise ConfigError(
            f"--num_processes={values.num_processes}: every training of a study of context runs in one process on one "
            "core, so that CPU times are comparable. Fix: leave it out; --workers trains several at a time."
        )
    files = list(values.gin_file) or [_JOB_OF_CONTEXT]
    for name in files:
        find_gin_file(name)  # reports errors before anything is written
    shared = {"kind": CONTEXT, "gin_file": files, "spacing": values.spacing, "multiple": values.multiple}
    make = functools.partial(bound_training, tuple(files), tuple(values.gin_param))
    run_context_study(own, make, settings | shared, values.num_steps)
    return f"open {quoted(Path(values.output_dir) / 'context.png')}"


class _CommandLines:
    """The steps of a study as command lines, which are printed before they run.

    Args:
      values: the flags of the study.
      gin_file: the gin files of the job.
      own: the cases, resolutions and seeds.
    """

    def __init__(self, values: flags.FlagValues, gin_file: list[str], own: StudyCases):
        self._values, self._num_cases, self._trained = values, own.cases_to_write, 0
        self._total = len(own.resolutions) * len(own.seeds)
        self._began = 0.0
        self._launch = {"num_processes": values.num_processes} if values.num_processes > 1 else {}
        self._job = {"gin_file": gin_file, "gin_param": values.gin_param}

    def say(self, text: str) -> None:
        say(text)

    def phantom(self, output_dir: Path) -> None:
        run_command("phantom", output_dir=output_dir, num_cases=self._num_cases, seed=1, kind="small_lesions")

    def convert(self, input_dir: Path, output_dir: Path, resolution: int) -> None:
        run_command("convert", input_dir=input_dir, output_dir=output_dir, resolution=resolution)

    def train(self, data_dir: Path, model_dir: Path, seed: int) -> None:
        steps = {} if self._values.num_steps is None else {"num_steps": self._values.num_steps}
        say(f"Training {self._trained + 1} of up to {self._total}{self._time_left()}.")
        self._trained += 1
        run_command("train", data_dir=data_dir, model_dir=model_dir, seed=seed, **steps, **self._job, **self._launch)

    def _time_left(self) -> str:
        """Estimates the remaining time from the previous training runs, which had the same or lower resolutions."""
        if not self._trained:
            self._began = time.monotonic()
            return ""
        seconds = (time.monotonic() - self._began) / self._trained * (self._total - self._trained)
        return f" (about {max(1, round(seconds / 60))} min left)"

    def evaluate(self, model_dir: Path, input_dir: Path, output_dir: Path) -> None:
        run_command("evaluate", model_dir=model_dir, input_dir=input_dir, output_dir=output_dir, **self._launch)


def _check_numbers(name: str, words: list[str]) -> None:
    numbers = [int(word) if word.strip().isdigit() else -1 for word in words]
    least, kind = (0, "non-negative") if name == "seeds" else (1, "positive")
    if not numbers or min(numbers) < least or len(set(numbers)) < len(numbers):
        raise ConfigError(
            f"--{name}={','.join(words)}: needs different {kind} integers. Fix: for instance --{name}=1,2."
        )
