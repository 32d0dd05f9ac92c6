"""Weight files of other programs: TensorFlow, PyTorch, safetensors and Keras. PyTorch need not be installed."""

import zipfile
from pathlib import Path

from mtf_imaging.files.reading import check_not_special
from mtf_imaging.training.checkpoints.weight_files.keras_file import HDF5_MAGIC, KERAS_MEMBER, KerasFile
from mtf_imaging.training.checkpoints.weight_files.pytorch import LEGACY_START, PyTorchFile
from mtf_imaging.training.checkpoints.weight_files.safetensors import ENDING, SafetensorsFile
from mtf_imaging.training.checkpoints.weight_files.tensorflow_checkpoint import TensorFlowCheckpoint, find_checkpoint
from mtf_imaging.training.checkpoints.weight_files.weight_file import FAULTS, WeightFile, damaged

__all__ = ["WeightFile", "open_weights"]

# The endings of files that are not TensorFlow checkpoints, and the expected kind of file.
_OTHERS = {
    **dict.fromkeys((".pt", ".pth"), "a file of torch.save"),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), "a Keras file"),
    ENDING: "a safetensors file",
}


def open_weights(checkpoint: str | Path) -> WeightFile:
    """Opens a file with weights.

    Args:
      checkpoint: a file that `torch.save` wrote, a `.safetensors` file, a Keras `.keras` or HDF5 file, the path of a
        TensorFlow checkpoint, or a folder of TensorFlow checkpoints, of which the last is opened.

    Raises:
      CheckpointError: there is no such file, or it is damaged.
      DataError: it is a pipe, a socket or a device.
    """
    path = Path(checkpoint)
    check_not_special(path)
    kind = _OTHERS.get(path.suffix)
    if not path.is_file():
        return TensorFlowCheckpoint(find_checkpoint(checkpoint))
    try:
        with path.open("rb") as file:
            start = file.read(len(LEGACY_START))
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                is_keras = KERAS_MEMBER in archive.namelist()
            return KerasFile(str(path)) if is_keras else PyTorchFile(str(path))
    except FAULTS as error:
        raise damaged(str(path), "a file with weights", error) from error
    if path.suffix == ENDING:
        return SafetensorsFile(str(path))
    if start.startswith(HDF5_MAGIC):
        return KerasFile(str(path))
    if start == LEGACY_START:
        return PyTorchFile(str(path))
    if kind:
        raise damaged(str(path), kind, "its first bytes are those of no format that is known")
    return TensorFlowCheckpoint(find_checkpoint(checkpoint))
