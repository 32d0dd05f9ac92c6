"""The checkpoint that scored best."""

import math
from collections.abc import Mapping
from pathlib import Path

from mtf_imaging.program.program import Program
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints


class BestCheckpoint:
    """Keeps one checkpoint in a folder, `ckpt-STEP`: that of the highest score, the earliest of equal ones.

    The one before is deleted when the new one is whole.

    Args:
      directory: the folder; made with the first checkpoint.
      program: the `Program`.
    """

    def __init__(self, directory: str | Path, program: Program) -> None:
        self._directory, self._program = Path(directory), program

    def keep(self, scores: Mapping[int, float]) -> int | None:
        """Saves the program if no kept checkpoint scored as high.

        Args:
          scores: {step: score} of all evaluations of the run so far. A checkpoint of another step belongs to a run
            that was started over, and is deleted.

        Returns:
          The step of the best checkpoint, or None where there is none.
        """
        now = int(self._program.step)
        kept = checkpoint_files.steps(self._directory)
        candidates = sorted(step for step in {*kept, now} if step in scores)
        best = max(candidates, key=lambda step: _comparable(scores[step]), default=None)
        if best is not None and best not in kept:
            Checkpoints(self._directory, self._program, keep=2).save()  # the one before goes only now
        checkpoint_files.sweep(self._directory)
        checkpoint_files.delete_others(self._directory, best)
        return best


def _comparable(score: float) -> float:
    return -math.inf if math.isnan(score) else score
