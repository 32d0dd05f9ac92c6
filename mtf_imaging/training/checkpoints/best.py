"""The checkpoint with the best score."""

import math
from collections.abc import Mapping
from pathlib import Path

from mtf_imaging.engine.program.program import Program
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints


class BestCheckpoint:
    """Keeps the checkpoint with the highest score in a folder, as `ckpt-STEP`.

    Of equal scores, the earliest wins. The previous best checkpoint is deleted once the new one is complete. If several
    processes have joined, only process 0 calls `keep`.

    Args:
      directory: the folder, which is created with the first checkpoint.
      program: the `Program`.
    """

    def __init__(self, directory: str | Path, program: Program) -> None:
        self._directory, self._program = Path(directory), program

    def keep(self, scores: Mapping[int, float]) -> int | None:
        """Saves the program if its score is higher than the score of the kept checkpoint. A NaN score never counts.

        Args:
          scores: {step: score} of all evaluations of the run so far. A checkpoint of a step without a score is left
              over from a run that was restarted from the beginning, and is deleted.

        Returns:
          The step of the best checkpoint, or None if there is no checkpoint.
        """
        checkpoint_files.sweep(self._directory)
        now = int(self._program.step)
        kept = checkpoint_files.steps(self._directory)
        candidates = sorted(step for step in {*kept, now} if not math.isnan(scores.get(step, math.nan)))
        best = max(candidates, key=lambda step: scores[step], default=None)
        if best is not None and best not in kept:
            # The previous one is deleted below, after the new one is complete.
            Checkpoints(self._directory, self._program, keep=2).save_alone()
        checkpoint_files.delete_others(self._directory, best)
        return best
