"""Compares how well our training and a plain Keras program learn in about the same CPU time.

    python -m benchmarks.learning --cases FOLDER --output_dir DIR                    # documented and Keras: 40 minutes
    python -m benchmarks.learning --cases FOLDER --output_dir DIR --contenders all   # every row: 3 hours
    python -m benchmarks.learning --cases FOLDER --output_dir DIR --steps 400        # equal steps, not equal CPU time

FOLDER contains LiTS cases in train/ and held-out cases in test/. Every run has one core of its own. A pilot measures
the CPU seconds of the start and of a step of each contender; the number of steps is what fits into --cpu_seconds.
The seconds in the results follow from the pilot; they are not measured in the runs themselves.
Held-out cases are scored ten times during training, which is not part of the CPU time, and by `mtf-imaging score`
afterwards. Results go to learning.csv and
learning_snapshots.csv. The same command continues after an interruption, and only
prints the table if every run is finished.
"""

import argparse
import concurrent.futures
import json
import os
import queue
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.learning import contenders, table
from benchmarks.learning.contenders import Contender
from mtf_imaging.files.atomic import write_bytes

ROOT = Path(__file__).parents[2]
KERAS = Path(__file__).with_name("keras_unet.py")
SNAPSHOTS = 10
_MAIN = "documented,keras_whole,keras_patches"
_PILOT = (6, 30)  # steps of two short runs, whose difference is the cost of a step
_ROUNDS = 3  # of both; the fastest count, because other programs only ever slow a run down
_LOST = "case,x,y,z\n"


class Runner:
    """Runs contenders on one core each.

    Args:
      cases: folder with the cases in train/ and test/.
      output_dir: folder of all results.
      spacing_csv: the table of voxel sizes that our commands read, for files whose headers lack them; or None.
    """

    def __init__(self, cases: Path, output_dir: Path, spacing_csv: Path | None) -> None:
        self._cases, self.output_dir = cases, output_dir
        self._table = ["--spacing_csv", spacing_csv] if spacing_csv else []

    def convert(self, conversion: Sequence[str]) -> None:
        """Converts the cases once; the held-out records get the grid of the others."""
        train, test = self._records(conversion)
        if (test / "dataset.json").exists():
            return
        _ours("convert", "--input_dir", self._cases / "train", "--output_dir", train, *conversion, *self._table)
        grid = json.loads((train / "dataset.json").read_text())["resolution"]
        spacing = conversion[: 2 * (conversion[0] == "--spacing")]
        words = ["--resolution", grid, *spacing, *self._table]
        _ours("convert", "--input_dir", self._cases / "test", "--output_dir", test, *words)

    def pilot(self, contender: Contender, core: int) -> tuple[float, float]:
        """Returns the CPU seconds of the start and of a step; measured once, then read from pilot.json."""
        path = self.output_dir / "pilot" / f"{contender.name}.json"
        if not path.exists():
            seconds: dict[int, float] = {}
            for steps in _PILOT * _ROUNDS:
                folder = self.output_dir / "pilot" / f"{contender.name}-{steps}"
                shutil.rmtree(folder, ignore_errors=True)
                once = self._train(contender, 0, steps, folder, core, snapshots=0)
                seconds[steps] = min(once, seconds.get(steps, once))
                shutil.rmtree(folder, ignore_errors=True)
            few, many = _PILOT
            per_step = (seconds[many] - seconds[few]) / (many - few)
            _write(path, json.dumps([seconds[few] - few * per_step, per_step]))
        start, per_step = json.loads(path.read_text())
        return start, per_step

    def run(self, contender: Contender, seed: int, steps: int, cpu: Callable[[int], float], core: int) -> None:
        """Trains and scores one contender with one seed, and writes result.json and snapshots.json to its folder."""
        folder = self.output_dir / f"{contender.name}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        self._train(contender, seed, steps, folder, core, SNAPSHOTS)
        predictions = folder
        if contender.is_keras:
            rows = table.read(folder / "snapshots.csv")
        else:
            predictions = folder / "evaluation/predictions"
            words = ["--model_dir", folder, "--input_dir", self._cases / "test", *self._table]
            _ours("evaluate", *words, "--output_dir", folder / "evaluation", core=core)
            rows = table.read(folder / "eval/scores.csv")
        scores = folder / "scores"
        _ours("score", "--reference_dir", self._cases / "test", "--prediction_dir", predictions, "--output_dir", scores)
        official = json.loads((scores / "metrics.json").read_text())["official"]
        snapshots = [[int(row["step"]), float(row["liver"]), float(row["lesion"])] for row in rows]
        result = {
            "contender": contender.name,
            "seed": seed,
            "steps": steps,
            "cpu_seconds": round(cpu(steps), 1),
            "liver": round(official["liver_dice_per_case"], 4),
            "lesion": round(official["lesion_dice_per_case"], 4),
        }
        for row in snapshots:
            row.insert(1, round(cpu(row[0]), 1))
        _write(folder / "snapshots.json", json.dumps(snapshots))
        _write(folder / "result.json", json.dumps(result))
        for path in [*folder.glob("ckpt-*"), folder / "best"]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        print(f"{contender.name}, seed {seed}: lesion {result['lesion']:.3f}, liver {result['liver']:.3f}", flush=True)

    def _train(self, contender: Contender, seed: int, steps: int, folder: Path, core: int, snapshots: int) -> float:
        """Trains, and returns the CPU seconds of the process."""
        if contender.is_keras:
            words = ["--train", self._cases / "train", "--test", self._cases / "test", "--output", folder]
            words += ["--steps", steps, "--seed", seed, "--snapshots", snapshots, *contender.settings]
            return _command([KERAS, *words], core)
        train, test = self._records(contender.conversion)
        words = ["--data_dir", train, "--model_dir", folder, "--gin_file", contenders.JOB, "--num_steps", steps]
        words += ["--seed", seed, *(["--eval_dir", test] if snapshots else [])]
        every = max(1, steps // snapshots) if snapshots else steps
        for binding in [*contender.bindings(steps), f"train.checkpoint_every = {steps}", f"train.eval_every = {every}"]:
            words += ["--gin_param", binding]
        return _ours("train", *words, core=core)

    def _records(self, conversion: Sequence[str]) -> tuple[Path, Path]:
        name = "_".join(word.strip("-") for word in conversion)
        return self.output_dir / "records" / name / "train", self.output_dir / "records" / name / "test"


def _ours(command: str, *words: object, core: int | None = None) -> float:
    return _command(["-m", "mtf_imaging.cli.main", command, *words], core)


def _command(words: Sequence[object], core: int | None) -> float:
    """Runs Python, on one core if it is given, and returns its CPU seconds."""
    pin = None if core is None else lambda: os.sched_setaffinity(0, {core})
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"TF_ENABLE_ONEDNN_OPTS": "1"},  # our commands set it, so the Keras program gets it, too
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


def _lost_sizes(cases: Path) -> str | None:
    """Returns a table with the voxel size of the other cases for those whose headers have lost it; None if none has."""
    import nibabel
    import numpy as np

    lost, sizes = [], []
    for path in sorted(cases.glob("*/volume-*")):
        header = nibabel.load(path)
        keys = path.name.removeprefix("volume-").split(".")[0]
        if np.array_equal(header.affine, np.eye(4)):
            lost.append(keys)
        else:
            sizes.append(header.header.get_zooms()[:3])
    x, y, z = np.median(sizes, axis=0)
    return _LOST + "".join(f"{key},{x:g},{y:g},{z:g}\n" for key in lost) if lost else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="folder with the cases in train/ and test/")
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--contenders", default=_MAIN, help=f"names, or all: {', '.join(contenders.ALL)}")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--cpu_seconds", type=float, default=240.0, help="of a training, with its start")
    parser.add_argument("--steps", type=int, help="steps of every training, instead of equal CPU time")
    parser.add_argument("--cores", default=",".join(map(str, sorted(os.sched_getaffinity(0)))))
    flags = parser.parse_args()
    names = list(contenders.ALL) if flags.contenders == "all" else flags.contenders.split(",")
    unknown = [name for name in names if name not in contenders.ALL]
    if unknown:
        parser.error(f"unknown contender {', '.join(unknown)}. Fix: choose from {', '.join(contenders.ALL)}.")
    output_dir = flags.output_dir.resolve()
    output_dir.mkdir(parents=True, exist_ok=True)
    cases, sizes = flags.cases.resolve(), _lost_sizes(flags.cases)
    if sizes:
        _write(output_dir / "spacing.csv", sizes)
    runner = Runner(cases, output_dir, output_dir / "spacing.csv" if sizes else None)
    chosen = [contenders.ALL[name] for name in names]
    pilots = {contender.name: contenders.ALL[contender.cost_of or contender.name] for contender in chosen}
    for conversion in {contender.conversion for contender in chosen if contender.conversion is not None}:
        runner.convert(conversion)
    cores: queue.Queue[int] = queue.Queue()
    for core in flags.cores.split(","):
        cores.put(int(core))

    def on_a_core(call: Callable[[int], object]) -> object:
        core = cores.get()
        try:
            return call(core)
        finally:
            cores.put(core)

    with concurrent.futures.ThreadPoolExecutor(cores.qsize()) as pool:
        each = dict.fromkeys(pilots.values())
        list(pool.map(lambda contender: on_a_core(lambda core: runner.pilot(contender, core)), each))
        futures = []
        for seed in map(int, flags.seeds.split(",")):
            for contender in chosen:
                if (output_dir / f"{contender.name}-{seed}" / "result.json").exists():
                    continue
                start, per_step = runner.pilot(pilots[contender.name], 0)
                steps = flags.steps or max(SNAPSHOTS, int((flags.cpu_seconds - start) / per_step))
                cpu = lambda step, start=start, per_step=per_step: start + step * per_step  # noqa: E731
                call = lambda core, c=contender, s=seed, n=steps, f=cpu: runner.run(c, s, n, f, core)  # noqa: E731
                futures.append(pool.submit(on_a_core, call))
        for future in futures:
            future.result()
    table.write(output_dir)
    print(table.text(output_dir / "learning.csv"))


if __name__ == "__main__":
    main()
