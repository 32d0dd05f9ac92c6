"""The demo on volumes: CTs of livers, MR images of brains, or the cases of a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.kinds.demo import Command, Step, Workflow


class Kind(NamedTuple):
    """Synthetic cases and their job.

    Attributes:
      cases: a description of the cases, for messages.
      job: the gin file of the job.
      phantom: flags of the command `phantom`.
      duration: the time that `phantom` takes on 2 CPU cores.
    """

    cases: str
    job: str
    phantom: dict[str, str]
    duration: str


KINDS = {
    "liver": Kind("CT cases of an abdomen", "unet3d_demo", {}, "5 seconds"),
    "brain": Kind(
        "MR images of brains with tumors, with two channels", "unet3d_brain", {"kind": "brain"}, "15 seconds"
    ),
}
_LAYOUT, _ONE = "4x4", "single"


class Demo(Workflow):
    """The steps for cases that are resampled to records."""

    processors = 16
    compared_duration = "30 seconds"
    synthetic = "cases"

    def __init__(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> None:
        super().__init__(output_dir, input_dir, demo)
        self._kind, self._cases = KINDS[demo or _kind_of_folder(self.data_dir)], self.data_dir
        self._train, self._held_out = output_dir / "train", output_dir / "held_out"
        self.data_dir, self._held_out_records = output_dir / "records", output_dir / "held_out_records"
        self.job, self.job_of_one = [self._kind.job, _LAYOUT], [self._kind.job, _ONE]

    def steps(self) -> list[Step]:
        from mtf_imaging.data.cases.hold_out import EVERY

        phantom = Step(f"write synthetic {self._kind.cases}", self._kind.duration, self._write_cases)
        return [
            *([phantom] if self._is_synthetic else []),
            Step(
                f"hold out every {EVERY}th case in {self._held_out} and train on the others in {self._train}",
                "1 second",
                self._hold_out,
            ),
            Step("resample the cases to 64^3 voxels", "15 seconds", self._convert),
            Step(
                "train with every volume split 4 x 4, on 16 processors simulated by 1 device",
                "3 minutes",
                self._train_network,
                "The held-out cases are scored during training, for TensorBoard.",
            ),
            Step(
                "segment and score the held-out cases with the last checkpoint",
                "15 seconds",
                lambda: self._evaluate(self._held_out),
                "The best checkpoint was selected on these cases, so its score would be too optimistic.",
            ),
            Step("segment one of these cases, and write it as NIfTI", "10 seconds", self._predict_one),
        ]

    def scores_table(self, metrics: dict[str, Any]) -> list[str]:
        masks = [name for name in metrics if isinstance(metrics[name], dict) and "dice_global" in metrics[name]]
        width = max(8, *(2 + len(name) for name in masks))
        return [
            f"{'Dice of the held-out cases':28}" + "".join(f"{name:>{width}}" for name in masks),
            *(_dice_row(f"case {key}", case, "dice", masks, width) for key, case in metrics["cases"].items()),
            _dice_row("per case", metrics, "dice_per_case", masks, width),
            _dice_row("global", metrics, "dice_global", masks, width),
        ]

    def picture(self, metrics: dict[str, Any]) -> Path:
        return self._evaluation / "pictures" / f"case-{next(iter(metrics['cases']))}.png"

    def _write_cases(self) -> list[Command]:
        return [("phantom", dict(output_dir=self._cases, num_cases=16, seed=1, **self._kind.phantom))]

    def _hold_out(self) -> list[Command]:
        from mtf_imaging.data.cases.hold_out import hold_out

        hold_out(self._cases, self._train, self._held_out)
        return []

    def _convert(self) -> list[Command]:
        folders = {self._train: self.data_dir, self._held_out: self._held_out_records}
        return [("convert", {"input_dir": a, "output_dir": b, "resolution": 64}) for a, b in folders.items()]

    def _train_network(self) -> list[Command]:
        folders = {"data_dir": self.data_dir, "eval_dir": self._held_out_records, "model_dir": self._model}
        return [("train", dict(**folders, gin_file=self.job))]

    def _predict_one(self) -> list[Command]:
        from mtf_imaging.data.cases.cases import find_cases

        case = find_cases(self._held_out)[0]
        if len(case.channels) == 1:
            return self._predict(case.volume, case.prediction_name)
        return self._predict(case.volume.parent, "segmentations")


def _kind_of_folder(folder: Path) -> str:
    """Returns the kind of cases whose job accepts the cases of a folder."""
    from mtf_imaging.data.description.dataset_json import find_description
    from mtf_imaging.data.description.description import LITS_RULES

    description = find_description(folder)[0]
    return "liver" if description is None or description.rules == LITS_RULES else "brain"  # this job accepts any labels


def _dice_row(label: str, scores: dict, key: str, masks: Sequence[str], width: int) -> str:
    return f"{label:28}" + "".join(f"{scores[name][key]:{width}.3f}" for name in masks)
