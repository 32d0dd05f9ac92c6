"""Checks that all processes of a job have the same code, arguments and data before it starts."""

import hashlib
from importlib.resources import files
from pathlib import Path

from mtf_imaging.engine.meshes.group import Group
from mtf_imaging.files.provenance.content import content_digest
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.kinds.all_kinds import explained
from mtf_imaging.settings.setting import Settings, agreed


def check_agreement(group: Group, own: Settings, **more: object) -> None:
    """Checks that all processes run the same code with the same settings.

    Args:
      group: the processes.
      own: the job settings. Settings of single processes are not compared.
      **more: other values that must be the same, by name; they take precedence over settings of the same name.

    Raises:
      ConfigError: the processes disagree. Every process raises the same error.
    """
    if group.num == 1:
        return
    values = {f"the argument {name}": value for name, value in {**agreed(own), **more}.items()}
    contents = {
        name: content_digest(agreed(value) if isinstance(value, Settings) else value, name)
        for name, value in values.items()
    }
    group.agree({"the code of this package": _package_digest()} | contents)


def check_same_data(group: Group, data: TrainingData, first_batch: dict | None) -> None:
    """Checks that all processes read the same training data and held-out cases.

    Args:
      group: the processes.
      data: the training data.
      first_batch: the first batch of a custom data set; None for records, whose manifests are compared.

    Raises:
      ConfigError: the processes disagree. Every process raises the same error.
    """
    if group.num == 1:
        return
    texts = [content_digest(first_batch, "the first batch")]
    eval_dir = data.eval_dir if data.evaluation is None else None  # a custom evaluation may read any format
    with explained(eval_dir or data.data_dir, data.kind, "eval_dir", "data"):
        texts += data.images.agreed(data.data_dir, eval_dir)
    group.agree({"the training data": "\n".join(texts)})


def _package_digest() -> str:
    """Returns a digest of the source files of this package and of its models."""
    digest = hashlib.sha256()
    for package in ("mtf_imaging", "mtf_imaging.models"):
        folder = Path(str(files(package)))
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
