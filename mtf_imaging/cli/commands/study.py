"""`mtf-imaging study`: trains one network at several resolutions and plots Dice against resolution."""

import time
from pathlib import Path

from absl import flags

from mtf_imaging.cli.runtime.next_step import after_study
from mtf_imaging.cli.runtime.subprocesses import run_command, say
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.studying import NUM_CASES, RESOLUTIONS, SEEDS, run_study

SUMMARY = "trains one network at several resolutions and plots Dice against resolution."
EXAMPLE = "mtf-imaging study --output_dir study"
REQUIRED = ("output_dir",)

_JOB = "unet3d_study"


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output_dir", None, "Folder for all files of the study.", flag_values=values)
    flags.DEFINE_string("input_dir", None, "Folder of LiTS cases; default: synthetic cases.", flag_values=values)
    flags.DEFINE_string(
        "held_out_dir", None, "Folder of held-out cases; default: every fourth case of --input_dir.", flag_values=values
    )
    flags.DEFINE_integer(
        "num_cases", NUM_CASES, "Number of synthetic cases; a quarter is held out.", 2, flag_values=values
    )
    flags.DEFINE_list(
        "resolutions", [*map(str, RESOLUTIONS)], "Resolutions, in voxels along each axis.", flag_values=values
    )
    flags.DEFINE_list(
        "seeds",
        [*map(str, SEEDS)],
        "Seeds; the network is trained once per seed at every resolution.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_steps", None, "Number of steps of each training; default: the num_steps of the job.", flag_values=values
    )
    flags.DEFINE_multi_string(
        "gin_file",
        [_JOB],
        "Gin file of the job, which all trainings share; may be repeated, for instance with a layout.",
        flag_values=values,
    )
    flags.DEFINE_multi_string("gin_param", [], "NAME=VALUE; may be repeated.", flag_values=values)
    flags.DEFINE_integer(
        "num_processes",
        1,
        "Number of processes of each training and evaluation, as in launch; the layout must use all of them.",
        lower_bound=1,
        flag_values=values,
    )


def run(values: flags.FlagValues) -> str:
    resolutions, seeds = (_numbers(name, values[name].value) for name in ("resolutions", "seeds"))
    shared = ("input_dir", "held_out_dir", "num_cases", "num_steps", "gin_file", "gin_param")
    run_study(
        _CommandLines(values, len(resolutions) * len(seeds)),
        output_dir=values.output_dir,
        input_dir=values.input_dir,
        held_out_dir=values.held_out_dir,
        num_cases=values.num_cases,
        resolutions=resolutions,
        seeds=seeds,
        settings={name: values[name].value for name in shared},
    )
    return after_study(values)


class _CommandLines:
    """The steps of a study as command lines, each printed before it runs.

    Args:
      values: the flags of the study.
      total: the number of trainings.
    """

    def __init__(self, values: flags.FlagValues, total: int):
        self._values, self._total, self._trained = values, total, 0
        self._began = 0.0
        self._launch = {"num_processes": values.num_processes} if values.num_processes > 1 else {}
        self._job = {"gin_file": values.gin_file, "gin_param": values.gin_param}

    def say(self, text: str) -> None:
        say(text)

    def phantom(self, output_dir: Path) -> None:
        run_command("phantom", output_dir=output_dir, num_cases=self._values.num_cases, seed=1, kind="small_lesions")

    def convert(self, input_dir: Path, output_dir: Path, resolution: int) -> None:
        run_command("convert", input_dir=input_dir, output_dir=output_dir, resolution=resolution)

    def train(self, data_dir: Path, model_dir: Path, seed: int) -> None:
        steps = {} if self._values.num_steps is None else {"num_steps": self._values.num_steps}
        say(f"Training {self._trained + 1} of up to {self._total}{self._time_left()}.")
        self._trained += 1
        run_command("train", data_dir=data_dir, model_dir=model_dir, seed=seed, **steps, **self._job, **self._launch)

    def _time_left(self) -> str:
        """Estimates the remaining time from the previous trainings, which had the same or lower resolutions."""
        if not self._trained:
            self._began = time.monotonic()
            return ""
        seconds = (time.monotonic() - self._began) / self._trained * (self._total - self._trained)
        return f" (about {max(1, round(seconds / 60))} min left)"

    def evaluate(self, model_dir: Path, input_dir: Path, output_dir: Path) -> None:
        run_command("evaluate", model_dir=model_dir, input_dir=input_dir, output_dir=output_dir, **self._launch)


def _numbers(name: str, words: list[str]) -> list[int]:
    numbers = [int(word) if word.strip().isdigit() else 0 for word in words]
    if not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise ConfigError(
            f"--{name}={','.join(words)}: needs different positive integers. Fix: for instance --{name}=1,2."
        )
    return numbers
