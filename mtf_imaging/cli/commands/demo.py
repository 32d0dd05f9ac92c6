"""`mtf-imaging demo`: runs the whole workflow as command lines that a user could type, and prints each of them."""

import csv
import json
import shlex
from pathlib import Path

from absl import flags

from mtf_imaging.cli.runtime.subprocesses import run_command
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds import all_kinds
from mtf_imaging.kinds.demo import Command, Step, Workflow
from mtf_imaging.kinds.facts import VOLUMES
from mtf_imaging.settings.setting import Settings, setting, settings

KINDS = {demo: kind for kind in all_kinds.KINDS.values() for demo in kind.demos}
_COMPARED_STEPS = 5


@settings
class _Flags(Settings):
    """The settings with flags in this command.

    Attributes:
      output_dir: folder for all files of the demo.
      input_dir: folder of cases, of LiTS or with a dataset.json that describes other data; of photos with label images
        and the lists train and val; or of images with objects in the COCO layout, with the splits train and val.
        Default: synthetic data.
      kind: synthetic data: CTs of livers with lesions, MR images of brains with tumors, photos of textured shapes with
        a class for each pixel (scenes), or such photos with boxes and masks (objects). Default: liver, or the kind of
        the data in `input_dir`.
    """

    output_dir: str = setting(default="demo", flag=True)
    input_dir: str | None = setting(default=None, flag=True)
    kind: str | None = setting(default=None, choices=tuple(KINDS), flag=True)


SUMMARY = "runs the whole workflow, from data to predictions, on synthetic images or yours."
EXAMPLE = "mtf-imaging demo --output_dir demo"
SETTINGS = (_Flags,)
NOTES = (
    "On 2 CPU cores, the demo takes 6 minutes, or 10 minutes with objects, and up to 4 GiB of memory. It prints every "
    "command that it runs.",
)


def run(values: flags.FlagValues) -> str:
    out = Path(values.output_dir)
    workflow = choose_workflow(out, Path(values.input_dir) if values.input_dir else None, values.kind)
    steps = [*workflow.steps(), _comparison(out, workflow)]
    for number, step in enumerate(steps, 1):
        print(f"\n# Step {number} of {len(steps)}: {step.purpose} (about {step.duration}).", flush=True)
        if step.note:
            print(f"# {step.note}", flush=True)
        for command, options in step.commands():
            run_command(command, **options)
    print("\n" + _summarize(out, workflow), flush=True)
    model, data = (shlex.quote(str(folder)) for folder in (out / "model", workflow.data_dir))
    return f"mtf-imaging explain --model_dir {model} --data_dir {data}"


def _comparison(out: Path, workflow: Workflow) -> Step:
    """Returns the step that repeats the first training steps under the layout and on one processor."""

    def compare() -> list[Command]:
        folders = _compared_folders(out, workflow.processors)
        jobs = zip((workflow.job, workflow.job_of_one), folders, strict=True)
        rest = {"num_steps": _COMPARED_STEPS, "gin_param": 'job.dtype="float64"'}
        return [
            ("train", {"data_dir": workflow.data_dir, "model_dir": to, "gin_file": job, **rest}) for job, to in jobs
        ]

    return Step(
        f"repeat the first {_COMPARED_STEPS} training steps on {workflow.processors} processors and on 1",
        workflow.compared_duration,
        compare,
        "A layout never changes results. These steps use float64, because float32 rounds differently under every "
        "layout and Adam amplifies the difference.",
    )


def choose_workflow(output_dir: Path, input_dir: Path | None, kind: str | None) -> Workflow:
    """Returns the steps for a kind of synthetic data, or for the data in a folder.

    Args:
      output_dir: the folder for all files of the demo.
      input_dir: a folder of cases, photos or images with objects; None for synthetic data.
      kind: the kind of synthetic data, one of `KINDS`; None for livers.

    Raises:
      ConfigError: both a folder and a kind are given, or the folder is a file.
      DataError: the description of the cases is malformed.
    """
    if input_dir is None:
        kind = kind or next(iter(KINDS))
        return KINDS[kind].workflow(output_dir, None, kind)
    if kind:
        raise ConfigError(
            f"--kind {kind} is for synthetic data, but --input_dir is {input_dir}. Fix: leave one of them out."
        )
    if input_dir.is_file():
        raise ConfigError(f"--input_dir {input_dir}: is a file. Fix: give the folder of the cases or images.")
    return (all_kinds.detect_kind(input_dir) or all_kinds.KINDS[VOLUMES]).workflow(output_dir, input_dir, None)


def _compared_folders(output_dir: Path, processors: int) -> tuple[Path, Path]:
    """Returns the folders of the runs that repeat the first steps, on several processors and on one."""
    return output_dir / f"compared_{processors}", output_dir / "compared_1"


def _summarize(output_dir: Path, workflow: Workflow) -> str:
    """Returns the losses with and without a layout, the table of scores, and the paths of the results.

    Args:
      output_dir: the folder of the demo.
      workflow: the steps that ran.
    """
    split, single = (_losses(folder) for folder in _compared_folders(output_dir, workflow.processors))
    evaluation = output_dir / "evaluation"
    metrics = json.loads((evaluation / "metrics.json").read_text())
    rows = [
        f"step {step:<10}{split[step]:16.12f} {single[step]:16.12f}" for step in sorted(split.keys() & single.keys())
    ]
    return "\n".join(
        [
            f"{'Losses':15}{f'{workflow.processors} processors':>16} {'1 processor':>16}",
            *rows,
            "",
            *workflow.scores_table(metrics),
            "",
            f"Report with tables, plots and pictures, for a browser: {evaluation / 'report.html'}",
            f"Picture: {workflow.picture(metrics)}",
            f"Training curves and pictures: tensorboard --logdir {shlex.quote(str(output_dir / 'model'))}",
        ]
    )


def _losses(model_dir: Path) -> dict[int, float]:
    """Returns the losses of the first steps, {step: loss}, from the `losses.csv` of a run."""
    with open(model_dir / "losses.csv", newline="", encoding="utf-8") as file:
        rows = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    return dict(sorted(rows)[:_COMPARED_STEPS])
