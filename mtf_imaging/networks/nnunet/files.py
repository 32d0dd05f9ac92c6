"""Finds and reads the files of a trained model of nnU-Net.

nnUNetTrainer__nnUNetPlans__3d_fullres/
  plans.json, dataset.json
  fold_0/checkpoint_final.pth
"""

from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError
from mtf_imaging.files.run_folder import fold_folders
from mtf_imaging.networks.nnunet.network import NnunetSource
from mtf_imaging.networks.nnunet.plans import PLANS, find_plans, read_architecture, read_configuration
from mtf_imaging.training.checkpoints.weight_files.pytorch import PyTorchFile

_CHECKPOINTS = ("checkpoint_final.pth", "checkpoint_best.pth")  # the first one is that with which nnU-Net predicts
_SUFFIX = ".pth"


def is_nnunet(path: Path) -> bool:
    """Returns whether a path is the folder of a model of nnU-Net, the folder of a fold, or a checkpoint."""
    return path.suffix == _SUFFIX or (path / PLANS).is_file() or bool(checkpoints(path))


def checkpoints(path: Path) -> list[Path]:
    """Returns the checkpoint of each fold, as nnU-Net finds them.

    The fold `fold_all`, which was trained on all cases, is used only without others.

    Args:
      path: the folder of a model, the folder of a fold, or a checkpoint.
    """
    if path.suffix == _SUFFIX:
        return [path]
    folds = [path, *fold_folders(path).values()]
    every = ([fold / name for fold in own] for own in (folds, [path / "fold_all"]) for name in _CHECKPOINTS)
    found = ([each for each in names if each.is_file()] for names in every)
    return next(filter(None, found), [])


def setting(file: PyTorchFile, *keys: str) -> Any:
    """Returns a setting in a checkpoint; None if it is not there."""
    value = file.content
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def stated_configuration(file: PyTorchFile) -> str | None:
    """Returns the name of the configuration that a checkpoint states."""
    name = setting(file, "init_args", "configuration")
    return name if isinstance(name, str) else None


def nnunet_network(path: Path) -> NnunetSource:
    """Returns the network of a trained model of nnU-Net 2.

    Args:
      path: the folder of the model, the folder of a fold, or a checkpoint.

    Raises:
      CheckpointError: the checkpoint is damaged, or its weights are not those that the plans describe.
      DataError: files are missing, there are several folds, or the plans are malformed.
      NotSupportedError: the network is not a U-Net of nnU-Net.
    """
    plans, found = find_plans(path), checkpoints(path)
    if len(found) != 1 or not found[0].is_file():
        folds = ", ".join(each.parent.name for each in found)
        what, example = "there is no checkpoint", plans.parent / "fold_0" / _CHECKPOINTS[0]
        if len(found) > 1:
            what, example = f"there are the folds {folds}", found[0]
        raise DataError(f"{path}: {what}. Fix: pass the path of one checkpoint, such as {example}.")
    file = PyTorchFile(str(found[0]))
    _, configuration = read_configuration(plans, stated_configuration(file))
    return NnunetSource(f"nnU-Net '{plans.parent.absolute().name}'", read_architecture(plans, configuration), file)
