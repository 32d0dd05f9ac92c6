"""The provenance of a trained network: its checkpoint, its configuration, and its training according to `run.json`."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.errors import CheckpointError
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.provenance.digests import digest, table_digest
from mtf_imaging.files.provenance.package import this_package
from mtf_imaging.files.run_folder import CONFIG, FACTS, last_index, weights_folder

FIELD = "provenance"  # in run.json, metrics.json, input.json and predictions.jsonl


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """The checkpoint of a run.

    Attributes:
      name: the folder name of the run.
      checkpoint: the name of the checkpoint, such as "ckpt-400".
      selection: "last" or "best".
      step: the number of training steps.
      checkpoint_digest: the SHA-256 of its index file, which contains a checksum of every variable.
      configuration_digest: the SHA-256 of `config.gin`; None if the run was not trained from the command line.
      training: the provenance in `run.json`; None if the folder has no such file, as with imported weights.
    """

    name: str
    checkpoint: str
    selection: str
    step: int
    checkpoint_digest: str
    configuration_digest: str | None = None
    training: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return {
            "name": self.name,
            "checkpoint": self.checkpoint,
            "selection": self.selection,
            "step": self.step,
            "checkpoint_sha256": self.checkpoint_digest,
            "configuration_sha256": self.configuration_digest,
            "training": None if self.training is None else dict(self.training),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "TrainedRun":
        """Returns the run from the fields of `as_json`.

        Raises:
          KeyError, TypeError, ValueError: the fields are incomplete.
        """
        return cls(
            str(fields["name"]),
            str(fields["checkpoint"]),
            str(fields["selection"]),
            int(fields["step"]),
            str(fields["checkpoint_sha256"]),
            fields["configuration_sha256"],
            fields["training"],
        )


def trained_run(model_dir: str | Path, checkpoint: str, restored: str | None = None) -> TrainedRun:
    """Returns the provenance of a checkpoint.

    Args:
      model_dir: the folder of the run.
      checkpoint: "last" or "best".
      restored: the path of the checkpoint that was restored; None for the newest one of this kind.

    Raises:
      CheckpointError: the run has no such checkpoint, or has deleted it since it was restored.
      DataError: `run.json` is damaged.
    """
    index = last_index(weights_folder(model_dir, checkpoint)) if restored is None else Path(f"{restored}.index")
    checkpoint_digest = digest(index)
    if checkpoint_digest is None:
        raise CheckpointError(
            f"{index}: the run, which is still training, has deleted this checkpoint. Fix: start the command again."
        )
    return TrainedRun(
        name=os.path.basename(os.path.abspath(model_dir)),
        checkpoint=index.stem,
        selection=checkpoint,
        step=int(index.stem.rpartition("-")[2]),
        checkpoint_digest=checkpoint_digest,
        configuration_digest=digest(Path(model_dir) / CONFIG),
        training=read_training(model_dir),
    )


def read_training(model_dir: str | Path) -> dict[str, Any] | None:
    """Returns the provenance in the `run.json` of a run; None if there is none.

    Raises:
      DataError: `run.json` is damaged.
    """
    path = Path(model_dir) / FACTS
    found = read_object(path).get(FIELD) if path.is_file() else None
    return found if isinstance(found, dict) else None


def training_provenance(
    model_dir: str | Path, cases: Mapping[str, str | None], step: int, mesh_shape: str, layout: str
) -> dict[str, Any]:
    """Returns the provenance of a training run for `run.json`, when `train` starts and `config.gin` is saved.

    Args:
      model_dir: the folder of the run; the starts in its `run.json` are kept.
      cases: {training case: digest of its files, or None if it is unknown}; empty for custom data sets.
      step: the first step of this start.
      mesh_shape, layout: the layout of the run, as strings.

    Returns:
      `{"starts": [{"step": ..., ...}, ...], "training_cases": {case: digest}}`. A start that only repeats the last one
      is not listed.

    Raises:
      DataError: `run.json` is damaged.
    """
    package = this_package()
    start = {
        "version": package.version,
        "commit": package.commit,
        "mesh_shape": mesh_shape,
        "layout": layout,
        "configuration_sha256": digest(Path(model_dir) / CONFIG),
        "training_cases_sha256": table_digest(cases) if cases else None,
    }
    before = (read_training(model_dir) or {}).get("starts")
    starts = [one for one in before if isinstance(one, dict)] if isinstance(before, list) else []
    if not starts or {**starts[-1], **start} != starts[-1]:
        starts.append({"step": step, **start})
    return {"starts": starts, "training_cases": dict(cases)}
