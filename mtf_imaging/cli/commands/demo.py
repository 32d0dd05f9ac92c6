"""`mtf-imaging demo`: runs the whole workflow as command lines that a user can type, each printed before it runs."""

import csv
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from mtf_imaging.cli.runtime.next_step import after_demo
from mtf_imaging.cli.runtime.subprocesses import run_command, say
from mtf_imaging.errors import ConfigError

SUMMARY = "runs the whole workflow, from convert to predict, on synthetic or your own images."
EXAMPLE = "mtf-imaging demo --output_dir demo"
REQUIRED = ("output_dir",)
NOTES = (
    "The demo takes 4 to 6 minutes and up to 4 GiB of memory on 2 CPU cores. It prints every command that it runs.",
)

_KINDS = ("liver", "brain")
_SHOWN = {"liver": "CT cases of an abdomen", "brain": "MR images of brains with tumors, with two channels"}
_JOBS = {"liver": "unet3d_demo", "brain": "unet3d_brain"}
_MINUTES = {"liver": "3 minutes", "brain": "3 minutes"}
_PHANTOMS: dict[str, dict] = {"liver": {}, "brain": {"kind": "brain"}}
_COMPARED_STEPS = 5
_COMPARED = {"4x4": "compared_16", "single": "compared_1"}  # layout -> folder


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output_dir", None, "Folder for all files of the demo.", flag_values=values)
    flags.DEFINE_string(
        "input_dir",
        None,
        "Folder of cases, of LiTS or with a dataset.json that describes other data; default: synthetic cases.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "kind",
        None,
        _KINDS,
        "Synthetic cases: CTs of livers with lesions, or MR images of brains with tumors. Default: liver, or as the "
        "labels of --input_dir.",
        flag_values=values,
    )


def run(values: flags.FlagValues) -> str:
    from mtf_imaging.data.cases.hold_out import EVERY, hold_out

    out = Path(values.output_dir)
    cases, train, held_out = Path(values.input_dir or out / "cases"), out / "train", out / "held_out"
    records, held_out_records = out / "records", out / "held_out_records"
    model, evaluation = out / "model", out / "evaluation"
    kind = _kind(values)
    announce = _Steps(6 if values.input_dir else 7)
    if not values.input_dir:
        announce(f"write synthetic {_SHOWN[kind]}", "5 seconds" if kind == "liver" else "15 seconds")
        run_command("phantom", output_dir=cases, num_cases=16, seed=1, **_PHANTOMS[kind])
    announce(f"hold out every {EVERY}th case in {held_out} and train on the others in {train}", "1 second")
    case = hold_out(cases, train, held_out)[0]
    announce("resample the cases to 64^3 voxels", "15 seconds")
    run_command("convert", input_dir=train, output_dir=records, resolution=64)
    run_command("convert", input_dir=held_out, output_dir=held_out_records, resolution=64)
    announce(
        "train with every volume split 4 x 4, on 16 processors simulated by 1 device",
        _MINUTES[kind],
        "The held-out cases are scored during training, for TensorBoard.",
    )
    job = _JOBS[kind]
    run_command("train", data_dir=records, eval_dir=held_out_records, model_dir=model, gin_file=[job, "4x4"])
    announce(
        "segment and score the held-out cases with the last checkpoint",
        "15 seconds",
        "The best checkpoint was selected on these cases, so its score would be too optimistic.",
    )
    run_command("evaluate", model_dir=model, input_dir=held_out, output_dir=evaluation)
    announce(f"segment one case, {case.key}, and write it as NIfTI", "10 seconds")
    image = case.volume if len(case.channels) == 1 else case.volume.parent
    target = out / case.prediction_name if len(case.channels) == 1 else out / "segmentations"
    run_command("predict", model_dir=model, input=image, output=target, overwrite=True)
    announce(
        f"repeat the first {_COMPARED_STEPS} training steps on 16 processors and on 1",
        "30 seconds",
        "A layout never changes results. These steps use float64, because float32 rounds differently under every "
        "layout and Adam amplifies the difference.",
    )
    for layout, folder in _COMPARED.items():
        gin = {"gin_file": [job, layout], "gin_param": 'job.dtype="float64"'}
        run_command("train", data_dir=records, model_dir=out / folder, num_steps=_COMPARED_STEPS, **gin)
    print("\n" + report(out), flush=True)
    return after_demo(out)


def _kind(values: flags.FlagValues) -> str:
    """Returns the kind of the cases, which selects the job.

    Raises:
      ConfigError: --kind is given for cases that are not synthetic.
    """
    if not values.input_dir:
        return values.kind or "liver"
    if values.kind:
        raise ConfigError(
            f"--kind {values.kind} is for synthetic cases, but --input_dir is {values.input_dir}. Fix: leave one out."
        )
    from mtf_imaging.data.cases.dataset_json import find_description
    from mtf_imaging.data.cases.description import LITS_RULES

    description = find_description(values.input_dir)[0]
    return "liver" if description is None or description.rules == LITS_RULES else "brain"


class _Steps:
    """Announces the steps of the demo with their numbers.

    Args:
      total: the number of steps.
    """

    def __init__(self, total: int):
        self._total, self._number = total, 0

    def __call__(self, what: str, duration: str, note: str = "") -> None:
        """Announces the next step.

        Args:
          what: the purpose of the step.
          duration: the time that it takes on 2 CPU cores with the synthetic cases.
          note: a remark.
        """
        self._number += 1
        say(f"Step {self._number} of {self._total}: {what} (about {duration}).")
        if note:
            print(f"# {note}", flush=True)


def report(out: Path) -> str:
    """Returns the losses with and without a layout, the Dice table, and the paths of the results."""
    split, single = (_losses(out / folder) for folder in _COMPARED.values())
    lines = ["Losses           16 processors      1 processor"]
    lines += [
        f"step {step:<10}{split[step]:16.12f} {single[step]:16.12f}" for step in sorted(split.keys() & single.keys())
    ]
    metrics = json.loads((out / "evaluation" / "metrics.json").read_text())
    masks = [name for name in metrics if isinstance(metrics[name], dict) and "dice_global" in metrics[name]]
    width = max(8, *(2 + len(name) for name in masks))
    lines += ["", f"{'Dice of the held-out cases':28}" + "".join(f"{name:>{width}}" for name in masks)]
    lines += [_dice_row(f"case {key}", case, "dice", masks, width) for key, case in metrics["cases"].items()]
    lines += [_dice_row("per case", metrics, "dice_per_case", masks, width)]
    lines += [_dice_row("global", metrics, "dice_global", masks, width)]
    pictures = [out / "evaluation" / "pictures" / f"case-{key}.png" for key in metrics["cases"]]
    lines += [
        "",
        f"Report with tables, plots and outlines on the images, for a browser: {out / 'evaluation' / 'report.html'}",
    ]
    lines += [f"Picture: {path}" for path in pictures[:1]]
    lines += [f"Training curves and pictures: tensorboard --logdir {shlex.quote(str(out / 'model'))}"]
    return "\n".join(lines)


def _losses(model_dir: Path) -> dict[int, float]:
    """Returns the losses of the first steps, {step: loss}, from the `losses.csv` of a run."""
    with open(model_dir / "losses.csv", newline="") as file:
        rows = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    return dict(sorted(rows)[:_COMPARED_STEPS])


def _dice_row(label: str, scores: dict, key: str, masks: Sequence[str], width: int) -> str:
    return f"{label:28}" + "".join(f"{scores[name][key]:{width}.3f}" for name in masks)
