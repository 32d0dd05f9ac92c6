"""Compares how well our training and a plain Keras program learn in equal CPU time.

    python -m benchmarks.learning --cases FOLDER --output_dir DIR               # documented and Keras: 40 minutes
    python -m benchmarks.learning --cases FOLDER --output_dir DIR --steps 400   # equal steps instead of equal CPU time
    python -m benchmarks.learning --cases FOLDER --output_dir FOLDS --on folds --contenders choices --seeds 1,2,3 \\
        --steps 400                                                             # the job settings: an hour

FOLDER contains LiTS cases in train/ and held-out cases in test/. `--on folds` does not use test/: each run trains on
two thirds of train/ and is scored on the remaining third, which changes with the seed. Settings are chosen on folds.

Every run has its own core. A pilot measures the CPU seconds of each contender's start and steps; the number of steps is
chosen to fit into --cpu_seconds. The seconds in the results are measured in the runs. Held-out cases
are scored ten times during training, which is not part of the CPU time, and by `mtf-imaging score` afterwards. Results
go to CSV files and a figure in DIR. The same command continues after an interruption, and only prints the table if
every run is finished.
"""

import argparse
import concurrent.futures
import os
import queue
from collections.abc import Callable
from pathlib import Path

from benchmarks.learning import cases, contenders, table
from benchmarks.learning.runner import SNAPSHOTS, Runner

GROUPS = {
    "main": ("documented", "keras_whole", "keras_patches"),
    "choices": tuple(name for name, contender in contenders.ALL.items() if not contender.is_keras),
    "all": tuple(contenders.ALL),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="folder with the cases in train/ and test/")
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--on", choices=(cases.TEST, cases.ON_FOLDS), default=cases.TEST, help="cases to score on")
    known = f"{', '.join(GROUPS)}, or names: {', '.join(contenders.ALL)}"
    parser.add_argument("--contenders", default="main", help=known)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--cpu_seconds", type=float, default=240.0, help="of a training run, with its start")
    parser.add_argument("--steps", type=int, help="steps of every training, instead of equal CPU time")
    parser.add_argument("--cores", default=",".join(map(str, sorted(os.sched_getaffinity(0)))))
    flags = parser.parse_args()
    names = GROUPS.get(flags.contenders) or flags.contenders.split(",")
    unknown = [name for name in names if name not in contenders.ALL]
    if unknown:
        parser.error(f"unknown contender {', '.join(unknown)}. Fix: choose from {known}.")
    for part in ("train", "test"):
        if not any((flags.cases / part).glob("volume-*.nii*")):
            parser.error(
                f"{flags.cases / part} has no volume-N.nii[.gz]. Fix: give a folder of LiTS cases in train/ and test/."
            )
    seeds = [int(seed) for seed in flags.seeds.split(",")]
    output_dir = flags.output_dir.resolve()
    output_dir.mkdir(parents=True, exist_ok=True)
    runner = Runner(flags.cases.resolve(), flags.on, output_dir)
    chosen = [contenders.ALL[name] for name in names]
    for conversion in {contender.conversion for contender in chosen if contender.conversion is not None}:
        for seed in seeds:
            runner.convert(conversion, seed)
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
        pilots = {contender.name: contenders.ALL[contender.cost_of or contender.name] for contender in chosen}
        if not flags.steps:
            each = dict.fromkeys(pilots.values())
            list(pool.map(lambda contender: on_a_core(lambda core: runner.pilot(contender, seeds[0], core)), each))
        futures = []
        for seed in seeds:
            for contender in chosen:
                if runner.is_finished(contender, seed):
                    continue
                if flags.steps:
                    steps = flags.steps
                else:
                    start, per_step = runner.pilot(pilots[contender.name], seed, 0)
                    steps = max(SNAPSHOTS, int((flags.cpu_seconds - start) / per_step))
                call = lambda core, c=contender, s=seed, n=steps: runner.run(c, s, n, core)  # noqa: E731
                futures.append(pool.submit(on_a_core, call))
        for future in futures:
            future.result()
    table.write(output_dir)
    print(table.text(output_dir / table.RESULTS))


if __name__ == "__main__":
    main()
