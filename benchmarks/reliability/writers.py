"""The commands that write files, and the comparison of their output with an undisturbed command's."""

import contextlib
import dataclasses
import fnmatch
import os
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.reliability import commands
from benchmarks.reliability.good import TINY

Files = dict[str, bytes]
_TABLES = ("*losses.csv", "*scores.csv", "*folds.csv", "*predictions.jsonl")
_EVENTS = "*tfevents*"


@dataclasses.dataclass(frozen=True)
class Writer:
    """A command that writes files.

    Attributes:
      line: the command line. {good} is the folder with the good data and {out} the output folder.
      again: additional words for the command after it was disturbed.
      complete: the file or folder that the command writes last, relative to the output folder. If it exists, the
        command has finished, and a second run may refuse to replace it.
      rewritten: names of files to which a repeated command adds content, and which are not compared.
    """

    line: str
    again: str = ""
    complete: str = ""
    rewritten: str = ""

    def words(self, good: Path, out: Path, again: bool = False) -> list[str]:
        """Returns the words of the command line."""
        line = f"{self.line} {self.again if again else ''}"
        return [word.replace("{good}", str(good)).replace("{out}", str(out)) for word in line.split()]


_TRAINING = " ".join(TINY).replace("--num_steps 2", "--num_steps 6 --gin.train.checkpoint_every=2")
_TWO_STEPS = " ".join(TINY)
_CONFIG = "*config.gin"  # a resumed run also states the facts that it read from the records
_CASES = "{good}/more_cases"
WRITERS = {
    "convert": Writer(f"convert --input_dir {_CASES} --output_dir {{out}}/records --resolution 16 --workers 2"),
    "train": Writer(f"train --data_dir {{good}}/records --model_dir {{out}}/run {_TRAINING}", rewritten=_CONFIG),
    "evaluate": Writer(f"evaluate --model_dir {{good}}/run --input_dir {_CASES} --output_dir {{out}}/evaluation"),
    "predict": Writer(
        f"predict --model_dir {{good}}/run --input {_CASES} --output {{out}}/segmentations",
        rewritten="*predictions.jsonl",
    ),
    "predict_windows": Writer(  # continues within a volume
        f"predict --model_dir {{good}}/run --input {_CASES} --output {{out}}/segmentations --gin_file "
        "{good}/in_files.gin --resolution 24 --window 8",
        rewritten="*predictions.jsonl",
    ),
    "score": Writer(
        "score --reference_dir {good}/cases --prediction_dir {good}/predictions --output_dir {out}/scores --workers 1"
    ),
    "export": Writer("export --model_dir {good}/run --output {out}/model", complete="model"),
    "plan": Writer(
        f"plan --data_dir {_CASES} --num_devices 1 --hardware a100 --workers 1 --output {{out}}/plan.gin",
        again="--overwrite",
    ),
    "cross_validate": Writer(
        "cross_validate --data_dir {good}/records --input_dir {good}/cases --output_dir {out}/cv --num_folds 2"
        f" --workers 1 {_TWO_STEPS}",
        rewritten=_CONFIG,
    ),
    "import_weights": Writer("import_weights --checkpoint {good}/slim/model.ckpt --output_dir {out}/weights"),
    "phantom": Writer("phantom --output_dir {out}/cases --num_cases 8 --kind objects"),
}


def content(folder: Path) -> Files:
    """Returns the bytes of every file below a folder, by relative path; for a link, its target."""
    files = {}
    for parent, folders, names in os.walk(folder):
        for name in (*names, *(name for name in folders if Path(parent, name).is_symlink())):
            path = Path(parent, name)
            # Workers of a killed command may still rename or remove their files while this looks.
            with contextlib.suppress(FileNotFoundError):
                data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
                files[str(path.relative_to(folder))] = data
    return files


def settled(folder: Path) -> Files:
    """Returns the content of a folder after all workers of a killed command have ended."""
    before, now = None, content(folder)
    while now != before:
        time.sleep(0.3)
        before, now = now, content(folder)
    return now


def is_hidden(name: str) -> bool:
    """Returns whether a file is hidden or in a hidden folder; no command reads such files."""
    return any(part[0] == "." for part in Path(name).parts)


class Undisturbed:
    """The output of an undisturbed command.

    The command runs twice. Differences between both runs, such as a time in a file, are not compared.

    Args:
      writer: the command.
      good: the folder with the good data.
      place: an empty folder to run in.
      limit: the time limit in seconds.

    Attributes:
      seconds: the time of the faster run.
      files: the content of the output.
      varying: the names of the files that differ between both runs.
    """

    def __init__(self, writer: Writer, good: Path, place: Path, limit: float) -> None:
        self.writer, self.good = writer, good
        outputs, seconds = [], []
        for number in range(2):
            out = place / f"whole-{number}" / "out"  # a path of the same length as in disturbed runs
            out.mkdir(parents=True)
            result = commands.run(writer.words(good, out), out, limit)
            if result.code:
                raise SystemExit(f"{writer.line} failed, exit code {result.code}:\n{result.text[-3000:]}")
            outputs.append(_without_events(content(out)))
            seconds.append(result.seconds)
        self.seconds, self.files = min(seconds), outputs[0]
        names = {*outputs[0], *outputs[1]}
        self.varying = {name for name in names if outputs[0].get(name) != outputs[1].get(name)}
        self.varying |= {name for name in names if fnmatch.fnmatch(name, writer.rewritten)}

    def is_complete(self, out: Path) -> bool:
        """Returns whether the command has finished writing, and refuses to replace its output."""
        return bool(self.writer.complete) and (out / self.writer.complete).exists()

    def find_half_written(self, files: Mapping[str, bytes]) -> str:
        """Returns an incomplete file with a final name, or ""."""
        visible = {name: data for name, data in files.items() if not is_hidden(name)}
        for name, data in visible.items():
            if name in self.varying or name not in self.files or any(fnmatch.fnmatch(name, p) for p in _TABLES):
                continue
            if data != self.files[name] and not _is_replaced(name):
                return name
        for name in self.files:
            record = _record(name)
            if record and name not in visible and any(_record(other) == record for other in visible):
                return name
        return ""

    def find_difference(self, files: Mapping[str, bytes]) -> str:
        """Returns the difference in the output of a repeated command, or ""."""
        files = _without_events(files)
        if left := [name for name in files if ".partial-" in name and name not in self.files]:
            return f"left {left[0]}"
        for name in sorted({*files, *self.files} - self.varying):
            if is_hidden(name) and name.endswith(".lock"):
                continue
            if files.get(name) != self.files.get(name):
                what = "missing" if name not in files else "unexpected" if name not in self.files else "different"
                return f"{name} is {what}"
        return ""


def _record(name: str) -> str:
    """Returns the record folder of a file, or ""."""
    return next((str(parent) for parent in Path(name).parents if parent.name.endswith(".zarr")), "")


def _is_replaced(name: str) -> bool:
    """Returns whether a command writes a file several times, so that an earlier version is complete, too."""
    return Path(name).name in ("checkpoint", "progress.png", "config.gin") or name.endswith((".json", ".html", ".csv"))


def _without_events(files: Mapping[str, bytes]) -> Files:
    """Leaves out TensorBoard event files, whose names contain the time."""
    return {name: data for name, data in files.items() if not fnmatch.fnmatch(name, _EVENTS)}
