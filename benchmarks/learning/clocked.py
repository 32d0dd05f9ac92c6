"""Runs a command of mtf-imaging, and writes the CPU seconds of its training at each evaluation of held-out cases.

    python -m benchmarks.learning.clocked seconds.csv train --data_dir ...

The seconds count the whole process from its start, excluding evaluations.
"""

import sys
import time
from pathlib import Path

from mtf_imaging.cli.main import main
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.jobs.held_out import cases as held_out
from mtf_imaging.training.observers.evaluator import Evaluator

COLUMNS = "step,cpu_seconds"


class ClockedEvaluator(Evaluator):
    """An evaluator that counts the CPU seconds of the process between its evaluations."""

    path: Path
    _spent = 0.0  # CPU seconds in evaluations
    _rows = (COLUMNS,)

    def _run(self, step: int) -> None:
        before = time.process_time()
        super()._run(step)
        self._rows = (*self._rows, f"{step},{before - self._spent:.2f}")
        self._spent += time.process_time() - before
        write_bytes(self.path, ("\n".join(self._rows) + "\n").encode())


if __name__ == "__main__":
    ClockedEvaluator.path = Path(sys.argv[1])
    held_out.Evaluator = ClockedEvaluator  # type: ignore[misc]
    sys.exit(main(sys.argv[2:]))
