"""Feeds commands bad inputs, kills them and deprives them of resources, and writes docs/evidence/reliability.md.

    python -m benchmarks.reliability bad_inputs --output_dir DIR       # 20 minutes on 2 cores
    python -m benchmarks.reliability bad_inputs --output_dir DIR --only dicom convert   # some of them
    python -m benchmarks.reliability kills --output_dir DIR            # 20 kills of every command that writes
    python -m benchmarks.reliability full_disk --output_dir DIR        # as root, because it mounts file systems
    python -m benchmarks.reliability environment --output_dir DIR      # as root, too
    python -m benchmarks.reliability processes --output_dir DIR        # 40 faults of several processes, and single ones
    python -m benchmarks.reliability mutations --output_dir DIR        # 300 random faults in each of 26 kinds of file
    python -m benchmarks.reliability page --output_dir DIR             # copies the results, and writes the page

Results are added to CSV files in DIR one by one. The same command continues after an interruption. --again repeats
measurements that already have a result. The exit code is 1 if something failed.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.reliability import bad_inputs, environment, full_disk, kills, mutations, page, processes

_PARTS = {"kills": kills.measure, "full_disk": full_disk.measure, "environment": environment.measure}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("bad_inputs", "processes", "mutations", *_PARTS, "page"))
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for good data, inputs and results")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="WORD",
        help="words of bad inputs or environments, names of commands, names or numbers of trials",
    )
    parser.add_argument("--again", action="store_true", help="measure what has a result once more")
    parser.add_argument("--minutes", type=float, help="begin nothing after this time")
    parser.add_argument("--at_once", type=int, default=2, help="number of bad inputs at the same time")
    parser.add_argument("--kills", type=int, default=20, help="number of kills of each command")
    parser.add_argument("--mutations", type=int, default=300, help="number of mutations of each kind of file")
    parser.add_argument("--trials", type=int, default=40, help="number of drawn trials of several processes")
    parser.add_argument("--seed", type=int, default=processes.SEED, help="seed of the drawn trials")
    flags = parser.parse_args()
    output_dir = flags.output_dir.resolve()
    options = (output_dir, flags.only, flags.again, flags.minutes)
    if flags.part == "page":
        page.copy(output_dir)
        page.write()
        return
    if flags.part == "bad_inputs":
        failures = bad_inputs.measure(*options, at_once=flags.at_once)
    elif flags.part == "kills":
        failures = kills.measure(*options, number=flags.kills)
    elif flags.part == "mutations":
        failures = mutations.measure(*options, number=flags.mutations)
    elif flags.part == "processes":
        failures = processes.measure(*options, number=flags.trials, seed=flags.seed)
    else:
        failures = _PARTS[flags.part](*options)
    print(f"{len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
