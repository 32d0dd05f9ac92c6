"""A folder of weights without a run: a checkpoint in the format of a run, and a description of the weights."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import CheckpointError, ConfigError, reason
from mtf_imaging.files import lock
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.literal import literal_prefix
from mtf_imaging.files.partial import is_partial
from mtf_imaging.files.reading import check_none_special
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.checkpoints import last_checkpoint
from mtf_imaging.training.checkpoints.contents import Snapshot, variable_keys

FACTS = "weights.json"
_STEP = 0
_SHOWN = 3
_OWN = re.compile(rf"{re.escape(lock.NAME)}|{re.escape(FACTS)}|checkpoint|ckpt-{_STEP}[._].*")  # files of such a folder


@contextlib.contextmanager
def writing_folder(folder: Path) -> Iterator[None]:
    """Locks a folder of weights, which must be missing, be empty, or hold imported weights.

    Raises:
      ConfigError: it is something else.
    """
    others = sorted(p.name for p in folder.glob("*") if not is_partial(p) and not _OWN.fullmatch(p.name))
    if others or (folder.exists() and not folder.is_dir()):
        what = f"contains {others[0]}, so it is not a folder of imported weights" if others else "is a file"
        raise ConfigError(f"{folder}: {what}. Fix: give a new or empty folder as output_dir.", ["output_dir"])
    with lock.held(folder):
        checkpoint_files.sweep(folder)
        yield


def write_weights(folder: str | Path, values: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
    """Writes weights to a folder, in the format of a step-0 checkpoint.

    Args:
      folder: the folder, which is created if it is missing.
      values: the value of each variable, by name.
      facts: the description of the weights for `weights.json`. `title` names the network.

    Raises:
      CheckpointError: the folder cannot be written.
    """
    checkpoint = tf.train.Checkpoint(program=Snapshot(values, _STEP))
    try:
        checkpoint_files.write(Path(folder), _STEP, checkpoint.write)
        write_bytes(Path(folder) / FACTS, (json.dumps(dict(facts), indent=1) + "\n").encode())
    except (tf.errors.OpError, OSError) as error:
        raise CheckpointError(
            f"{folder}: the weights cannot be written: {reason(error)}. Fix: free disk space or change output_dir.",
            settings=["output_dir"],
        ) from error


class Weights:
    """The variables of a checkpoint that this package wrote.

    Args:
      path: path of the checkpoint, without the ending `.index`.

    Attributes:
      path: the same path.
      shapes: the shape of each variable, by name.
      title: for imported weights, the name of the network in `weights.json`; "" for a checkpoint of a run.

    Raises:
      CheckpointError: the checkpoint is damaged, or belongs to another program.
      DataError: one of its files is a pipe, a socket or a device.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        check_none_special(path)
        try:
            with literal_prefix(path) as prefix:
                shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
        except (*checkpoint_files.DAMAGED, ValueError) as error:
            raise _unusable(path, f"this checkpoint is damaged: {reason(error)}") from error
        self._keys = variable_keys(shapes)
        self.shapes = {name: tuple(shapes[key]) for name, key in sorted(self._keys.items())}
        self.title = _title(Path(path).parent / FACTS)
        if not self._keys:
            raise _unusable(path, f"this checkpoint has no variables of this package, but {[*shapes][:_SHOWN]}")

    def read(self, names: list[str]) -> Iterator[tuple[str, np.ndarray]]:
        """Yields some variables, pairs of name and value.

        Raises:
          CheckpointError: the checkpoint is damaged.
        """
        with literal_prefix(self.path) as prefix:
            reader = tf.train.load_checkpoint(prefix)
            for name in names:
                try:
                    value = reader.get_tensor(self._keys[name])
                except checkpoint_files.DAMAGED as error:
                    raise _unusable(self.path, f"this checkpoint is damaged: '{name}': {reason(error)}") from error
                yield name, value


def _unusable(path: str | Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: {why}. Fix: use another checkpoint, the folder of a run, or a folder that import_weights wrote, as "
        "initial_weights.",
        settings=["initial_weights"],
    )


def find_weights(path: str | Path) -> str:
    """Returns the path of the checkpoint that a user names as initial weights, without the ending `.index`.

    Args:
      path: a folder of imported weights; the folder of a run, of which the last checkpoint is used; or the path of a
        checkpoint, such as `run/ckpt-300`.

    Raises:
      CheckpointError: there is no such checkpoint.
      DataError: the file that names the last checkpoint is a pipe, a socket or a device.
      OSError: a checkpoint cannot be opened.
    """
    folder = Path(path)
    name = str(path).removesuffix(".index")
    if not folder.is_dir() and Path(f"{name}.index").is_file():
        return name
    checkpoint_files.check_access(folder)
    check_none_special(folder / "checkpoint")
    if found := last_checkpoint(folder):
        return found
    raise _unusable(path, "this folder holds no checkpoint" if folder.is_dir() else "there is no such checkpoint")


def _title(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["title"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
