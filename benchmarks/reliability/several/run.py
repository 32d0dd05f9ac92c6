"""The shared training of the processes: its data, its command, and the comparison with uninterrupted runs."""

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.reliability import commands
from benchmarks.reliability.several.group import Group, environments
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.files.partial import is_partial

MOST = 4  # processes
STEPS, _EVERY = 12, 3
_TOLERANCE = 1e-9  # tolerance of weights, if layouts or numbers of processes differ
_LIMIT_S = 240.0
_JOB = f"""
import mtf_imaging.models.unet3d
job.task = @unet3d.LiverTumorSegmentation()
job.dtype = "float64"
LiverTumorSegmentation.network = @UNet3D()
UNet3D.base_filters = 2
UNet3D.depth = 1
UNet3D.convs = 1
UNet3D.dropout_rate = 0.3
setup.batch_size = 2
train.optimizer = @Adam()
train.checkpoint_every = {_EVERY}
train.checkpoints_kept = 2
Adam.learning_rate = 0.01
"""
# Eight voxels on three processors make uneven slices. One process computes the same mesh as four.
_LAYOUTS = {3: ("rows:3", "x:rows")}
_SQUARE = "rows:2,cols:2", "x:rows,y:cols"
RECORDS = "records"


class Training:
    """A training of a few steps, with an uninterrupted run for each number of processes.

    Args:
      folder: folder of the data and the uninterrupted runs; existing ones are reused.
      timeout: seconds after which a process counts as lost.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder, self.timeout = folder, timeout
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.gin").write_text(_JOB)
        for kind, number, first in (("cases", 2, 0), ("held_out_cases", 1, 2)):
            if not (folder / kind).exists():
                write_phantom(folder / kind, number, seed=1, first_case=first)
        for source, records in (("cases", RECORDS), ("held_out_cases", "held_out")):
            if not (folder / records).exists():
                self._command(
                    "convert", "--input_dir", source, "--output_dir", records, "--resolution", 8, "--workers", 1
                )

    def unbroken(self, num: int) -> Path:
        """Returns the folder of the uninterrupted run; the first call for a number of processes runs it.

        Args:
          num: number of processes.
        """
        model_dir = self.folder / f"unbroken-{num}"
        if (model_dir / f"ckpt-{STEPS}.index").exists():
            return model_dir
        if reason := self.complete(num, model_dir, self.folder, scores=True):
            raise SystemExit(f"{model_dir}: the unbroken run failed: {reason}")
        return model_dir

    def words(self, num: int, model_dir: Path, scores: bool = False) -> list[object]:
        """Returns the words of the command.

        Args:
          num: number of processes.
          model_dir: run folder.
          scores: whether held-out cases are scored, which takes almost as long as the rest.
        """
        mesh, layout = _LAYOUTS.get(num, _SQUARE)
        words = ["train", "--gin_file", self.folder / "job.gin", "--num_steps", STEPS, "--model_dir", model_dir]
        words += ["--data_dir", RECORDS, *(["--eval_dir", self.folder / "held_out"] if scores else [])]
        return [*words, "--mesh_shape", mesh, "--layout", layout]

    def complete(self, num: int, model_dir: Path, place: Path, scores: bool = False) -> str:
        """Runs or resumes the training to its end, and returns the reason for a failure, or "".

        Args:
          num: number of processes.
          model_dir: run folder.
          place: folder for the outputs, with a link to the records.
          scores: whether held-out cases are scored.
        """
        with Group(self.words(num, model_dir, scores), environments(num, self.timeout), place) as group:
            group.wait(_LIMIT_S)
            for end in group.ends():
                if end.code != 0 or "Traceback" in end.text:
                    return f"process {end.index} of {num}: exit code {end.code}: {last_words(end.text)}"
        return ""

    def place(self, path: Path) -> Path:
        """Creates an empty working folder with a link to the records, and returns it."""
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        (path / RECORDS).symlink_to(self.folder / RECORDS)
        return path

    def find_difference(self, model_dir: Path, num: int, exact: bool) -> str:
        """Returns the difference between a finished run and the uninterrupted one, or "".

        Args:
          model_dir: run folder.
          num: number of processes in the uninterrupted run.
          exact: whether the weights must be equal bit for bit.
        """
        other = self.unbroken(num)
        values, others = _weights(model_dir), _weights(other)
        if values.keys() != others.keys():
            return "other variables"
        for name, value in others.items():
            difference = float(np.abs(values[name] - value).max())
            if difference > (0.0 if exact else _TOLERANCE):
                return f"weights of {name} differ by {difference:.1e}"
        for table in ("losses.csv", "eval/scores.csv"):
            if (model_dir / table).exists() and _first_column(model_dir / table) != _first_column(other / table):
                return f"{table} has other steps"
        left = [str(path.relative_to(model_dir)) for path in model_dir.rglob("*") if is_partial(path)]
        return f"left {left[0]}" if left else ""

    def _command(self, *words: object) -> None:
        result = commands.run(words, self.folder, _LIMIT_S)
        if result.code:
            raise SystemExit(f"{self.folder}: {words[0]} failed, exit code {result.code}:\n{result.text[-3000:]}")


def find_half_written(model_dir: Path) -> str:
    """Returns a file of a run that has its final name but is incomplete, or "".

    Args:
      model_dir: run folder, which does not have to exist.
    """
    import tensorflow as tf  # imported here because it takes seconds

    for index in sorted(model_dir.rglob("ckpt-*.index")):
        try:
            reader = tf.train.load_checkpoint(str(index.with_suffix("")))
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        except (tf.errors.OpError, RuntimeError, IndexError):
            return index.name
    for path in sorted(model_dir.rglob("*.csv")):
        lines = path.read_text().splitlines(keepends=True)
        is_whole = all(line[-1] == "\n" and line.count(",") == lines[0].count(",") for line in lines)
        if not is_whole and not is_partial(path):
            return path.name
    for path in sorted(model_dir.rglob("*.json")):
        try:
            json.loads(path.read_text())
        except ValueError:
            return path.name
    return ""


def last_words(text: str, most: int = 300) -> str:
    """Returns the end of an output on one line."""
    return " ".join(text.split())[-most:]


def _weights(model_dir: Path) -> dict[str, np.ndarray]:
    """Returns the weights and the optimizer state in the last checkpoint of a run."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(model_dir))
    names = [name for name in reader.get_variable_to_shape_map() if "/_named/" in name]
    return {name: reader.get_tensor(name) for name in names}


def _first_column(path: Path) -> Sequence[str]:
    with open(path, newline="") as file:
        return [row[0] for row in csv.reader(file)]
