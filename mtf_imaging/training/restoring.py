"""Restores the weights of a run into a program, for programs other than the training and prediction programs."""

from pathlib import Path

from mtf_imaging.engine.program.program import Program
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.training.checkpoints.checkpoints import load_weights


def restore_run(model_dir: str | Path, program: Program, checkpoint: str = "last", averages: bool = True) -> int:
    """Sets the variables of a program to the weights of a run. The layouts of the two may differ.

    Variables of the run that the program lacks, such as the slots of the optimizer, are ignored. If several processes
    have joined, all of them make the same call.

    Args:
      model_dir: the folder of the run.
      program: the program. All of its variables must be in the checkpoint.
      checkpoint: "last", or "best" for the checkpoint with the best score on held-out cases.
      averages: whether to use the averages of the weights, if the checkpoint has them.

    Returns:
      The step of the checkpoint.

    Raises:
      ConfigError: `checkpoint` is neither "last" nor "best".
      CheckpointError: there is no checkpoint, it is damaged, or it lacks a variable of the program or has it with
        another shape.
    """
    load_weights(weights_folder(model_dir, checkpoint), program, averages)
    return int(program.step)
