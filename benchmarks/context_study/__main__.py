"""Compares whole volumes with patches and with half the resolution, at equal steps and at equal CPU time.

    python -m benchmarks.context_study --output_dir context                        # 40 minutes on 2 cores
    python -m benchmarks.context_study --output_dir context --input_dir cases --held_out_dir held_out --spacing 3 \\
        --gin_file unet3d_real_ct --num_steps 200

The cases are phantoms unless --input_dir names a folder of labeled cases. Every training run has its own core. The
CPU seconds of whole volumes are the budget of the other contenders with the same seed. The scores go to context.csv and
context.png. The same command continues after an interruption and keeps finished runs, so it can also add phantoms,
contenders and seeds.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
import queue
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.context_study import table
from benchmarks.context_study.contenders import CONTENDERS, WHOLE, Contender
from benchmarks.context_study.phantoms import PHANTOMS
from benchmarks.context_study.training import Trainings, run_trainings
from benchmarks.flags import whole_numbers
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.sampling.sampling import parse_spacing
from mtf_imaging.jobs.converting import convert

JOB = str(Path(__file__).with_name("job.gin"))
_STEPS = {"marker": 150, "side": 150, "texture": 100}  # roughly as many as whole volumes need
_SEED = 1  # of the phantoms


@dataclasses.dataclass(frozen=True)
class Cases:
    """The cases of one part of the study.

    Attributes:
      name: the name of the part: a kind of phantom, or "cases".
      folder: folder of the records and results.
      train: folder of the cases to train on.
      held_out: folder of the held-out cases.
    """

    name: str
    folder: Path
    train: Path
    held_out: Path

    def records(self, contender: Contender) -> Path:
        """Returns the records folder of a contender."""
        return self.folder / f"records_{contender.coarser}"

    def result(self, contender: Contender, seed: int) -> dict[str, Any] | None:
        """Returns the result of a training run; None if it is not finished."""
        return self.results(contender).get(seed)

    def results(self, contender: Contender) -> dict[int, dict[str, Any]]:
        """Returns the results of all finished training runs, by seed."""
        paths = sorted((self.folder / contender.name).glob("*.json"), key=lambda path: int(path.stem))
        return {int(path.stem): json.loads(path.read_text()) for path in paths}


def write_cases(folder: Path, kind: str, num_cases: int) -> Cases:
    """Writes the phantoms of one kind, of which a sixth is held out."""
    cases = Cases(kind, folder, folder / "train", folder / "held_out")
    num_train = num_cases - max(1, num_cases // 6)
    write_phantom(cases.train, num_train, _SEED, kind=PHANTOMS[kind])
    write_phantom(cases.held_out, num_cases - num_train, _SEED, first_case=num_train, kind=PHANTOMS[kind])
    return cases


def run_in_parallel(jobs: Iterable[Trainings], cores: Sequence[int]) -> None:
    """Runs jobs in processes of their own, each on its own core."""
    free: queue.Queue[int] = queue.Queue()
    for core in cores:
        free.put(core)
    spawn = multiprocessing.get_context("spawn")

    def run(job: Trainings) -> None:
        core = free.get()
        try:  # the process gets its core before TensorFlow counts the cores
            with concurrent.futures.ProcessPoolExecutor(1, spawn, os.sched_setaffinity, (0, {core})) as process:
                process.submit(run_trainings, job).result()
        finally:
            free.put(core)

    pool = concurrent.futures.ThreadPoolExecutor(len(cores))
    try:
        for future in concurrent.futures.as_completed([pool.submit(run, job) for job in jobs]):
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--phantoms", nargs="+", choices=PHANTOMS, default=[*PHANTOMS], help="kinds of phantoms")
    parser.add_argument("--num_cases", type=int, default=60, help="phantoms of each kind, of which a sixth is held out")
    parser.add_argument("--input_dir", type=Path, help="folder of labeled cases to train on, instead of phantoms")
    parser.add_argument("--held_out_dir", type=Path, help="with --input_dir: folder of held-out cases")
    parser.add_argument("--spacing", type=parse_spacing, default="1", help="in mm, as in convert (default: 1)")
    parser.add_argument("--multiple", type=int, default=4, help="of the sizes of records, as in convert (default: 4)")
    parser.add_argument("--spacing_csv", type=Path, help="voxel sizes that headers lack, as in convert")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS], help="and whole volumes")
    parser.add_argument("--seeds", type=whole_numbers, default="1,2,3,4,5", help="of the training runs (%(default)s)")
    parser.add_argument("--num_steps", type=int, help="steps of whole volumes (default: 100 or 150, or as in the job)")
    parser.add_argument("--gin_file", action="append", help="gin file of the job; may be repeated (default: ours)")
    parser.add_argument("--gin_param", action="append", default=[], help="as in train; may be repeated")
    parser.add_argument("--cores", type=whole_numbers, default=",".join(map(str, sorted(os.sched_getaffinity(0)))))
    flags = parser.parse_args()
    if (flags.input_dir is None) != (flags.held_out_dir is None):
        parser.error("--input_dir and --held_out_dir belong together. Fix: give both, or neither for phantoms.")
    out = flags.output_dir
    if flags.input_dir:
        parts = [Cases("cases", out / "cases", flags.input_dir, flags.held_out_dir)]
    else:
        parts = [write_cases(out / kind, kind, flags.num_cases) for kind in flags.phantoms]
    contenders = [contender for name, contender in CONTENDERS.items() if name in {WHOLE.name, *flags.contenders}]
    for part in parts:
        for contender in {contender.coarser: contender for contender in contenders}.values():
            if not (part.records(contender) / "dataset.json").is_file():
                convert(
                    input_dir=part.train,
                    output_dir=part.records(contender),
                    spacing=tuple(mm * contender.coarser for mm in flags.spacing),
                    spacing_table=flags.spacing_csv,
                    multiple=flags.multiple,
                )

    def trainings(part: Cases, contender: Contender) -> Trainings:
        budgets = {}
        for seed in flags.seeds:
            if part.result(contender, seed) is None:
                whole = None if contender == WHOLE else part.result(WHOLE, seed)
                budgets[seed] = whole["at_steps"]["cpu_seconds"] if whole else None
        return Trainings(
            contender,
            part.records(contender),
            part.held_out,
            part.folder / contender.name,
            budgets,
            flags.num_steps or _STEPS.get(part.name),
            tuple(flags.gin_file or [JOB]),
            tuple(flags.gin_param),
            flags.spacing_csv,
        )

    for stage in ([WHOLE], [contender for contender in contenders if contender != WHOLE]):
        jobs = [trainings(part, contender) for part in parts for contender in stage]
        run_in_parallel([job for job in jobs if job.budgets], flags.cores)
    results = [
        {"cases": part.name, "contender": contender.name, "title": contender.title} | result
        for part in parts
        for contender in contenders
        for result in part.results(contender).values()
    ]
    table.write(out / table.TABLE, results)
    runs = table.read(out / table.TABLE)
    table.draw(out / table.FIGURE, runs)
    print(f"\n{table.text(runs)}")


if __name__ == "__main__":
    main()
