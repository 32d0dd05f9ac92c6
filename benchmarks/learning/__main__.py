"""Compares how well our training and a plain Keras program learn in equal CPU time.

    python -m benchmarks.learning --cases FOLDER --output_dir DIR --contenders documented,keras_whole --seeds 1,2,3,4,5
    python -m benchmarks.learning --cases FOLDER --output_dir FOLDS --on folds --contenders documented --seeds 1,2,3

FOLDER contains LiTS cases in train/, and held-out cases in test/ and wide/. `--on folds` uses only train/: each run
trains on two thirds of it and is scored on the remaining third, which changes with the seed. Settings are chosen on
folds.

Runs follow one another, the first seed of all contenders first. The number of steps of each contender is set so that a
run takes about 240 s of CPU; the measured seconds are in the results. Each finished run adds its rows to DIR, so the
same command continues after an interruption, and a finished one prints the table.
"""

import argparse
from pathlib import Path

from benchmarks.flags import whole_numbers
from benchmarks.learning import cases, contenders, table
from benchmarks.learning.runner import Runner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="folder with the cases in train/, test/ and wide/")
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for runs and results")
    parser.add_argument(
        "--on", choices=(cases.HELD_OUT, cases.ON_FOLDS), default=cases.HELD_OUT, help="cases to score on"
    )
    known = ", ".join(contenders.ALL)
    parser.add_argument("--contenders", default="documented,keras_whole,keras_patches", help=known)
    parser.add_argument("--seeds", type=whole_numbers, default="1,2,3,4,5")
    parser.add_argument("--spacing", default=contenders.SPACING, help="voxel size of our records in mm (%(default)s)")
    flags = parser.parse_args()
    names = flags.contenders.split(",")
    if unknown := [name for name in names if name not in contenders.ALL]:
        parser.error(f"unknown contender {', '.join(unknown)}. Fix: choose from {known}.")
    for part in ("train", "test", "wide"):
        if not any((flags.cases / part).glob("volume-*.nii*")):
            parser.error(
                f"{flags.cases / part} has no volume-N.nii[.gz]. Fix: give a folder of LiTS cases in train/, test/ and "
                "wide/."
            )
    output_dir = flags.output_dir.resolve()
    output_dir.mkdir(parents=True, exist_ok=True)
    runner = Runner(flags.cases.resolve(), flags.on, output_dir, flags.spacing)
    for seed in flags.seeds:
        for contender in map(contenders.ALL.__getitem__, names):
            if not runner.is_finished(contender, seed):
                runner.run(contender, seed)
                table.write(output_dir)
    print(table.text(output_dir / table.CASES))


if __name__ == "__main__":
    main()
