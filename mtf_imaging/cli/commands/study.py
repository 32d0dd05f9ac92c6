"""`mtf-imaging study`: one network at several resolutions, on the same cases, and Dice against resolution."""

import json
from pathlib import Path

from absl import flags

from mtf_imaging.cli.runtime.subprocesses import HELD_OUT, hold_out, run_command, say
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.atomic import write_bytes

SUMMARY = "trains one network at several resolutions on the same cases, and plots Dice against resolution."
EXAMPLE = "mtf-imaging study --output_dir study"
REQUIRED = ("output_dir",)

_SETTINGS = "study.json"
_JOB = "unet3d_study"


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output_dir", None, "Folder for everything that the study writes.", flag_values=values)
    flags.DEFINE_string("input_dir", None, "Folder of LiTS cases; default: phantoms.", flag_values=values)
    flags.DEFINE_string(
        "held_out_dir", None, "Folder of cases to score; default: every fourth of the cases.", flag_values=values
    )
    flags.DEFINE_integer("num_cases", 24, "How many phantoms, a quarter of them held out.", 2, flag_values=values)
    flags.DEFINE_list("resolutions", ["32", "64", "96"], "Voxels along each axis.", flag_values=values)
    flags.DEFINE_list("seeds", ["1", "2", "3"], "One training per seed at every resolution.", flag_values=values)
    flags.DEFINE_integer("num_steps", None, "Of each training; default: that of the job.", flag_values=values)
    flags.DEFINE_multi_string(
        "gin_file",
        [_JOB],
        "The job, the same for all; may be repeated, for instance with a layout.",
        flag_values=values,
    )
    flags.DEFINE_multi_string("gin_param", [], "NAME=VALUE; may be repeated.", flag_values=values)


def run(values: flags.FlagValues) -> None:
    from mtf_imaging.evaluation.resolution_study import read_run, study_table, write_study

    resolutions, seeds = (_numbers(name, values[name].value) for name in ("resolutions", "seeds"))
    if values.held_out_dir and not values.input_dir:
        raise ConfigError("--held_out_dir needs the cases to train on. Fix: give them as --input_dir.")
    out = Path(values.output_dir)
    _keep_settings(out, values)
    cases = Path(values.input_dir or out / "cases")
    if not values.input_dir and not _has_cases(cases, values.num_cases):
        say("Write CT cases of made-up abdomens with many small lesions.")
        run_command("phantom", output_dir=cases, num_cases=values.num_cases, seed=1, kind="small_lesions")
    train, held_out = cases, values.held_out_dir
    if not held_out:
        train, held_out = out / "train", out / "held_out"
        say(f"Keep every {HELD_OUT}th case for the test, in {held_out}; train on the others.")
        hold_out(cases, train, held_out)
    runs = []
    for resolution in sorted(resolutions):
        records = out / f"records_{resolution}"
        if not all(_metrics(out, resolution, seed).is_file() for seed in seeds):
            say(f"Resample the cases to {resolution}^3 voxels.")
            run_command("convert", input_dir=train, output_dir=records, resolution=resolution)
        for seed in seeds:
            _train_and_score(out, resolution, seed, values, records, held_out)
            runs.append(read_run(resolution, seed, _metrics(out, resolution, seed)))
            write_study(out, runs, _title(values, runs))
    print(f"\n{study_table(runs)}\n\nPicture: {out / 'study.png'}\nTable: {out / 'study.csv'}", flush=True)


def _has_cases(cases, number) -> bool:
    """Whether all phantoms are there: each file of theirs is whole, or has another name."""
    return all(len(list(cases.glob(f"{kind}-*.nii.gz"))) == number for kind in ("volume", "segmentation"))


def _train_and_score(out, resolution, seed, values, records, held_out):
    """Trains and evaluates one network, or goes on; what was scored is not touched again."""
    if _metrics(out, resolution, seed).is_file():  # written last
        return
    model = _folder(out, resolution, seed) / "model"
    say(f"Train at {resolution}^3, seed {seed}, and score the held-out cases in their own voxels.")
    steps = {} if values.num_steps is None else {"num_steps": values.num_steps}
    job = {"gin_file": values.gin_file, "gin_param": values.gin_param}
    run_command("train", data_dir=records, model_dir=model, seed=seed, **steps, **job)
    run_command("evaluate", model_dir=model, input_dir=held_out, output_dir=_metrics(out, resolution, seed).parent)


def _folder(out, resolution, seed) -> Path:
    return out / f"{resolution}_seed_{seed}"


def _metrics(out, resolution, seed) -> Path:
    return _folder(out, resolution, seed) / "evaluation" / "metrics.json"


def _title(values, runs):
    what = values.input_dir or "made-up abdomens (phantoms)"
    number = len({run.seed for run in runs})
    return f"Dice of held-out cases against resolution: {what}, {number} seed{'s' * (number > 1)}"


def _numbers(name, words) -> list[int]:
    numbers = [int(word) if word.strip().isdigit() else 0 for word in words]
    if not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise ConfigError(f"--{name}={','.join(words)}: needs different whole numbers above 0. Fix: as --{name}=1,2.")
    return numbers


def _keep_settings(out, values):
    """Keeps what all runs of a study share, and refuses to mix it with another one's.

    Raises:
      ConfigError: the folder holds a study of other settings, or something else.
    """
    shared = ("input_dir", "held_out_dir", "num_cases", "num_steps", "gin_file", "gin_param")
    settings = {name: values[name].value for name in shared}
    path = out / _SETTINGS
    if not path.is_file():
        if out.is_dir() and any(out.iterdir()):
            raise ConfigError(f"{out}: holds files, and no study. Fix: give a folder of its own as --output_dir.")
        write_bytes(path, (json.dumps(settings, indent=1) + "\n").encode())
        return
    found = json.loads(path.read_text())
    for name, value in settings.items():
        if found.get(name) != value:
            raise ConfigError(
                f"{out}: holds a study with --{name} {found.get(name)}, asked for was {value}. "
                "Fix: ask for the same, or give another --output_dir. More resolutions and seeds can be added."
            )
