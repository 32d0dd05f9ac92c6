"""TensorFlow checkpoints, in both formats."""

import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import CheckpointError
from mtf_imaging.files.literal import literal_prefix
from mtf_imaging.files.reading import check_none_special
from mtf_imaging.training.checkpoints.weight_files.weight_file import WeightFile

_ENDINGS = (".index", ".meta")


class TensorFlowCheckpoint(WeightFile):
    """A checkpoint of TensorFlow, at a path as `find_checkpoint` returns it.

    Raises:
      DataError: one of its files is a pipe, a socket or a device.
    """

    kind = "a TensorFlow checkpoint"

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        check_none_special(self.path)
        with literal_prefix(self.path) as prefix:
            shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
        return {name: tuple(shape) for name, shape in sorted(shapes.items())}

    def _array(self, name: str) -> np.ndarray:
        with literal_prefix(self.path) as prefix:
            return np.asarray(tf.train.load_checkpoint(prefix).get_tensor(name))


def find_checkpoint(checkpoint: str | Path) -> str:
    """Returns the path of a checkpoint in the form that TensorFlow takes, without endings.

    Args:
      checkpoint: the path of a checkpoint or of one of its files; or a folder, of which the last checkpoint is used.

    Raises:
      CheckpointError: there is no checkpoint.
      DataError: the file that names the last checkpoint is a pipe, a socket or a device.
    """
    path = Path(checkpoint)
    if path.is_dir():
        check_none_special(path / "checkpoint")  # the file in which TensorFlow names the last checkpoint
        with literal_prefix(path / "any") as prefix:
            folder = os.path.dirname(prefix)
            last = tf.train.latest_checkpoint(folder)
        if last:
            return f"{path}{last.removeprefix(folder)}" if last.startswith(folder) else str(last)
        indexes = sorted(path.glob("*.index"))
        if len(indexes) == 1:
            return str(indexes[0].with_suffix(""))
        found = ", ".join(index.stem for index in indexes) or "no checkpoint"
        raise _no_checkpoint(checkpoint, f"this folder holds {found}")
    name = str(checkpoint)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    name = name.partition(".data-")[0]
    # TensorFlow's first checkpoint format is a single file.
    if Path(f"{name}.index").is_file() or Path(name).is_file():
        return name
    raise _no_checkpoint(checkpoint, f"there is no such file: neither {name}.index nor {name}")


def _no_checkpoint(checkpoint: str | Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{checkpoint}: {why}. Fix: give the path of a file, or of a TensorFlow checkpoint without the endings .index "
        "and .data-00000-of-00001.",
        settings=["checkpoint"],
    )
