"""`mtf-imaging demo`: the whole job, as the command lines that a user would type, each shown before it runs."""

import csv
import json
import shlex
from pathlib import Path

from absl import flags

from mtf_imaging.cli.runtime.subprocesses import run_command, say
from mtf_imaging.data.cases.hold_out import EVERY, hold_out

SUMMARY = "runs the whole job on made-up or your own CTs: convert, train, evaluate, predict."
EXAMPLE = "mtf-imaging demo --output_dir demo"
REQUIRED = ("output_dir",)

_COMPARED_STEPS = 5
_COMPARED = {"4x4": "compared_16", "single": "compared_1"}  # layout -> folder


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output_dir", None, "Folder for everything that the demo writes.", flag_values=values)
    flags.DEFINE_string("input_dir", None, "Folder of LiTS cases; default: phantoms.", flag_values=values)


def run(values: flags.FlagValues) -> None:
    out = Path(values.output_dir)
    cases, train, held_out = Path(values.input_dir or out / "cases"), out / "train", out / "held_out"
    records, held_out_records = out / "records", out / "held_out_records"
    model, evaluation = out / "model", out / "evaluation"
    if not values.input_dir:
        say("Write CT cases of a made-up abdomen.")
        run_command("phantom", output_dir=cases, num_cases=16, seed=1)
    say(f"Keep every {EVERY}th case for the test, in {held_out}; train on the others, in {train}.")
    case = hold_out(cases, train, held_out)[0]
    say("Resample the cases to 64^3 voxels.")
    run_command("convert", input_dir=train, output_dir=records, resolution=64)
    run_command("convert", input_dir=held_out, output_dir=held_out_records, resolution=64)
    say(
        "Train with every volume split 4 x 4: 16 processors simulated on 1 device. "
        "The held-out cases are scored on the way, for TensorBoard."
    )
    run_command("train", data_dir=records, eval_dir=held_out_records, model_dir=model, gin_file=["unet3d_demo", "4x4"])
    say(
        "Segment and score the held-out cases with the last checkpoint. "
        "(The best one, --checkpoint best, was chosen by these very cases: its score would say too much.)"
    )
    run_command("evaluate", model_dir=model, input_dir=held_out, output_dir=evaluation)
    say(f"Segment one volume, case {case.key}, back to NIfTI.")
    run_command("predict", model_dir=model, input=case.volume, output=out / case.prediction_name, overwrite=True)
    say(
        f"Train the first {_COMPARED_STEPS} steps again, on 16 processors and on 1: a layout never changes results. "
        "(In float64: float32 rounds in another order under every layout, and Adam makes much of that.)"
    )
    for layout, folder in _COMPARED.items():
        gin = {"gin_file": ["unet3d_demo", layout], "gin_param": 'job.dtype="float64"'}
        run_command("train", data_dir=records, model_dir=out / folder, num_steps=_COMPARED_STEPS, **gin)
    print("\n" + report(out), flush=True)


def report(out: Path) -> str:
    """The losses with and without a layout beside each other, the Dice table, and where to look."""
    split, single = (_losses(out / folder) for folder in _COMPARED.values())
    lines = ["Losses           16 processors      1 processor"]
    lines += [
        f"step {step:<10}{split[step]:16.12f} {single[step]:16.12f}" for step in sorted(split.keys() & single.keys())
    ]
    metrics = json.loads((out / "evaluation" / "metrics.json").read_text())
    lines += ["", "Dice of the held-out cases     liver  lesion"]
    lines += [_dice_row(f"case {key}", case, "dice") for key, case in metrics["cases"].items()]
    lines += [_dice_row("per case", metrics, "dice_per_case"), _dice_row("global", metrics, "dice_global")]
    pictures = [out / "evaluation" / "pictures" / f"case-{key}.png" for key in metrics["cases"]]
    lines += ["", f"Tables, plots and outlines on the CTs, for a browser: {out / 'evaluation' / 'report.html'}"]
    lines += [f"Picture: {path}" for path in pictures[:1]]
    lines += [f"Curves and pictures of the training: tensorboard --logdir {shlex.quote(str(out / 'model'))}"]
    return "\n".join(lines)


def _losses(model_dir: Path) -> dict[int, float]:
    """Reads step and loss of the first steps from `losses.csv`, which training writes."""
    with open(model_dir / "losses.csv", newline="") as file:
        rows = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    return dict(sorted(rows)[:_COMPARED_STEPS])


def _dice_row(label: str, scores: dict, key: str) -> str:
    return f"{label:28}" + "".join(f"{scores[name][key]:8.3f}" for name in ("liver", "lesion"))
