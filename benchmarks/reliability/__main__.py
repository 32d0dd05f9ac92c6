"""Feeds commands bad inputs, kills them and takes away what they need, and writes docs/evidence/reliability.md.

    python -m benchmarks.reliability bad_inputs --output_dir DIR                      # 10 minutes on 2 cores
    python -m benchmarks.reliability bad_inputs --output_dir DIR --only dicom convert  # some of them, shown in detail
    python -m benchmarks.reliability kills --output_dir DIR                           # kills of every writing command
    python -m benchmarks.reliability full_disk --output_dir DIR                       # needs permission to mount
    python -m benchmarks.reliability environment --output_dir DIR
    python -m benchmarks.reliability page --output_dir DIR                            # copies the results to the page

Results are added to CSV files in DIR one by one. The same command continues after an interruption. --again measures
what has a result once more. The exit code is 1 if something failed.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.reliability import bad_inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("bad_inputs",))
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for good data, inputs and results")
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD", help="words that a row must contain")
    parser.add_argument("--again", action="store_true", help="measure rows that have a result again")
    parser.add_argument("--minutes", type=float, help="begin nothing after this time")
    parser.add_argument("--at_once", type=int, default=2, help="number of commands at the same time")
    flags = parser.parse_args()
    output_dir = flags.output_dir.resolve()
    failures = bad_inputs.measure(output_dir, flags.only, flags.again, flags.minutes, flags.at_once)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
