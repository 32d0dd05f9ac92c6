"""Checks that all processes of a job have the same code, arguments and data before it starts."""

import hashlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np

import mtf_imaging
from mtf_imaging.jobs.as_text import as_text
from mtf_imaging.jobs.data import TrainingData
from mtf_imaging.kinds.all_kinds import explained
from mtf_imaging.meshes.group import Group
from mtf_imaging.settings.setting import Settings, agreed


def check_agreement(group: Group, own: Any, **more: object) -> None:
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
    facts = {"the code of this package": _package_digest(), "the code of the task": _source(own.task)}
    values = {**agreed(own), **more}
    group.agree(facts | {f"the argument {name}": _text(value) for name, value in values.items()})


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
    texts = [_digest(value) for _, value in sorted((first_batch or {}).items())]
    eval_dir = data.eval_dir if data.evaluation is None else None  # a custom evaluation may read any format
    with explained(eval_dir or data.data_dir, data.kind, "eval_dir", "data"):
        texts += data.images.agreed(data.data_dir, eval_dir)
    group.agree({"the training data": "\n".join(texts)})


def _digest(value: Any) -> str:
    """Returns a digest of a batch entry: an array, case names, or a list of such dicts."""
    if isinstance(value, list):
        return " ".join(
            " ".join(_digest(each) for _, each in sorted(item.items())) if isinstance(item, dict) else str(item)
            for item in value
        )
    return hashlib.sha256(np.asarray(value).tobytes()).hexdigest()


def _text(value: object) -> str:
    return as_text(agreed(value) if isinstance(value, Settings) else value)


def _package_digest() -> str:
    """Returns a digest of this package's source files."""
    folder, digest = Path(mtf_imaging.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _source(task: object) -> str:
    """Returns the source file of a task's class; "" if it has none, as in a notebook."""
    try:
        return Path(inspect.getfile(type(task))).read_text()
    except (TypeError, OSError):
        return ""
