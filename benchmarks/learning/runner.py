"""Trains and scores contenders, each on its own core, and stores the result of every run in a file."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.learning import cases, contenders, table
from benchmarks.learning.contenders import Contender
from benchmarks.tables import read_rows
from mtf_imaging.files.atomic import write_bytes

ROOT = Path(__file__).parents[2]
KERAS = Path(__file__).with_name("keras_unet.py")
SNAPSHOTS = 10
_PILOT = (6, 30)  # steps of two short runs, whose difference gives the cost of a step
_ROUNDS = 3  # repetitions of both; the fastest count, because other programs can only slow a run down


class Runner:
    """Runs contenders on one core each.

    Args:
      all_cases: folder with the cases in train/ and test/.
      on: the cases to score on, as in `cases.split`.
      output_dir: folder of all results.
    """

    def __init__(self, all_cases: Path, on: str, output_dir: Path) -> None:
        self._all_cases, self._on, self.output_dir = all_cases, on, output_dir
        self._table: list[object] = []
        sizes = cases.lost_sizes(all_cases)
        if sizes:
            _write(output_dir / "spacing.csv", sizes)
            self._table = ["--spacing_csv", output_dir / "spacing.csv"]

    def convert(self, conversion: Sequence[str], seed: int) -> None:
        """Converts the cases of a seed once; held-out records get the grid of the training records."""
        folder, train, test = self._folders(conversion, seed)
        if (test / "dataset.json").exists():
            return
        _ours("convert", "--input_dir", folder / "train", "--output_dir", train, *conversion, *self._table)
        grid = json.loads((train / "dataset.json").read_text())["resolution"]
        spacing = conversion[: 2 * (conversion[0] == "--spacing")]
        words = ["--resolution", grid, *spacing, *self._table]
        _ours("convert", "--input_dir", folder / "test", "--output_dir", test, *words)

    def pilot(self, contender: Contender, seed: int, core: int) -> tuple[float, float]:
        """Returns the CPU seconds of the start and of a step; measured once, then read from pilot.json."""
        path = self.output_dir / "pilot" / f"{contender.name}.json"
        if not path.exists():
            seconds: dict[int, float] = {}
            for steps in _PILOT * _ROUNDS:
                folder = self.output_dir / "pilot" / f"{contender.name}-{steps}"
                shutil.rmtree(folder, ignore_errors=True)
                once = self._train(contender, seed, steps, folder, core, snapshots=0)
                seconds[steps] = min(once, seconds.get(steps, once))
                shutil.rmtree(folder, ignore_errors=True)
            few, many = _PILOT
            per_step = (seconds[many] - seconds[few]) / (many - few)
            _write(path, json.dumps([seconds[few] - few * per_step, per_step]))
        start, per_step = json.loads(path.read_text())
        return start, per_step

    def is_finished(self, contender: Contender, seed: int) -> bool:
        """Returns whether a run has a result."""
        return (self._run_dir(contender, seed) / table.RESULT).exists()

    def run(self, contender: Contender, seed: int, steps: int, core: int) -> None:
        """Trains and scores one contender with one seed, and writes its result."""
        run_dir, folder = self._run_dir(contender, seed), self._case_dir(seed)
        shutil.rmtree(run_dir, ignore_errors=True)
        self._train(contender, seed, steps, run_dir, core, SNAPSHOTS)
        snapshots, predictions = read_rows(run_dir / "snapshots.csv"), run_dir
        if not contender.is_keras:
            predictions = run_dir / "evaluation/predictions"
            words = ["--model_dir", run_dir, "--input_dir", folder / "test", *self._table]
            _ours("evaluate", *words, "--output_dir", run_dir / "evaluation", core=core)
            by_step = {row["step"]: row for row in read_rows(run_dir / "eval/scores.csv")}
            snapshots = [row | by_step[row["step"]] for row in snapshots]
        words = ["--reference_dir", folder / "test", "--prediction_dir", predictions]
        _ours("score", *words, "--output_dir", run_dir / "scores")
        metrics = json.loads((run_dir / "scores/metrics.json").read_text())
        result = {
            "contender": contender.name,
            "seed": seed,
            "steps": steps,
            "cpu_seconds": float(snapshots[-1]["cpu_seconds"]),
            **_dice(metrics),
            "cases": {key: _dice(case) for key, case in metrics["cases"].items()},
            "snapshots": [[float(row[name]) for name in table.SNAPSHOT_VALUES] for row in snapshots],
        }
        _write(run_dir / table.RESULT, json.dumps(result, indent=1))
        for path in [*run_dir.glob("ckpt-*"), run_dir / "best"]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        print(f"{contender.name}, seed {seed}: lesion {result['lesion']:.3f}, liver {result['liver']:.3f}", flush=True)

    def _train(self, contender: Contender, seed: int, steps: int, run_dir: Path, core: int, snapshots: int) -> float:
        """Trains, writes snapshots.csv if there are snapshots, and returns the CPU seconds of the process."""
        if contender.is_keras:
            folder = self._case_dir(seed)
            words = ["--train", folder / "train", "--test", folder / "test", "--output", run_dir]
            words += ["--steps", steps, "--seed", seed, "--snapshots", snapshots, *contender.settings]
            return _command([KERAS, *words], core)
        _, train, test = self._folders(contender.conversion or (), seed)
        words = ["--data_dir", train, "--model_dir", run_dir, "--gin_file", contenders.JOB, "--num_steps", steps]
        words += ["--seed", seed, *(["--eval_dir", test] if snapshots else [])]
        every = max(1, steps // snapshots) if snapshots else steps
        for binding in [*contender.bindings(steps), f"train.checkpoint_every = {steps}", f"train.eval_every = {every}"]:
            words += ["--gin_param", binding]
        return _command(["-m", "benchmarks.learning.clocked", run_dir / "snapshots.csv", "train", *words], core)

    def _run_dir(self, contender: Contender, seed: int) -> Path:
        return self.output_dir / f"{contender.name}-{seed}"

    def _case_dir(self, seed: int) -> Path:
        return cases.split(self._all_cases, self._on, seed, self.output_dir)

    def _folders(self, conversion: Sequence[str], seed: int) -> tuple[Path, Path, Path]:
        """Returns the folders of the cases, the training records and the held-out records."""
        folder = self._case_dir(seed)
        records = self.output_dir / "records" / "_".join([folder.name, *(word.strip("-") for word in conversion)])
        return folder, records / "train", records / "test"


def _dice(metrics: dict) -> dict[str, float]:
    return {mask: round(metrics["official"][f"{mask}_dice_per_case"], 4) for mask in ("liver", "lesion")}


def _ours(command: str, *words: object, core: int | None = None) -> None:
    _command(["-m", "mtf_imaging.cli.main", command, *words], core)


def _command(words: Sequence[object], core: int | None) -> float:
    """Runs Python, on one core if it is given, and returns its CPU seconds."""
    pin = None if core is None else lambda: os.sched_setaffinity(0, {core})
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"TF_ENABLE_ONEDNN_OPTS": "1"},  # as in our commands, so also for the Keras program
        preexec_fn=pin,
    )
    text = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit code {process.returncode}\n{text.decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def _write(path: Path, text: str) -> None:
    write_bytes(path, text.encode())
