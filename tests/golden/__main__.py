"""Compares every file that the jobs write with the reference: `python -m tests.golden [--write] [--only KIND ...]`.

Exits with 1 if a file is added, missing or changed. `--keep FOLDER` keeps the files, to look at them.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from tests.golden.jobs import DEMOS, KINDS
from tests.golden.runs import differences, reference, store, written


def main() -> int:
    """Runs the kinds of data, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the reference")
    parser.add_argument("--keep", type=Path, help="a new folder for the files; default: a temporary one")
    parser.add_argument("--only", nargs="+", choices=[*KINDS, *DEMOS], default=[*KINDS, *DEMOS], help="kinds to run")
    options, num = parser.parse_args(), 0
    with contextlib.ExitStack() as stack:
        root = (options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))).resolve()
        for name in options.only:
            begin = time.monotonic()
            found = written(name, root)
            lines = [*differences(reference(name), found)]
            print(*lines, f"{name}: {len(found)} files in {time.monotonic() - begin:.0f} s", sep="\n", flush=True)
            num += len(lines)
            if options.write:
                store(name, found)
    return int(num > 0 and not options.write)


if __name__ == "__main__":
    sys.exit(main())
