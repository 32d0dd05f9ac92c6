"""Weight files of other programs: TensorFlow, PyTorch, safetensors and Keras. PyTorch need not be installed."""

import zipfile
from pathlib import Path

from mtf_imaging.files.reading import check_not_special
from mtf_imaging.training.checkpoints.weight_files.keras_file import HDF5_MAGIC, KERAS_MEMBER, KerasFile
from mtf_imaging.training.checkpoints.weight_files.pytorch import LEGACY_START, PyTorchFile
from mtf_imaging.training.checkpoints.weight_files.safetensors import ENDING, SafetensorsFile
from mtf_imaging.training.checkpoints.weight_files.tensorflow_checkpoint import TensorFlowCheckpoint, find_checkpoint
from mtf_imaging.training.checkpoints.weight_files.weight_file import WeightFile, reading

_ENDINGS: dict[str, type[WeightFile]] = {
    **dict.fromkeys((".pt", ".pth"), PyTorchFile),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), KerasFile),
    ENDING: SafetensorsFile,
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
    reader = _ENDINGS.get(path.suffix)
    if not path.is_file():
        return TensorFlowCheckpoint(find_checkpoint(checkpoint))
    with reading(str(path), "this file is not a file with weights, or is damaged"):
        with path.open("rb") as file:
            start = file.read(len(LEGACY_START))
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                reader = KerasFile if KERAS_MEMBER in archive.namelist() else PyTorchFile
        elif reader is not SafetensorsFile and start.startswith(HDF5_MAGIC):
            reader = KerasFile
        elif reader is not SafetensorsFile and start == LEGACY_START:
            reader = PyTorchFile
    return reader(str(path)) if reader else TensorFlowCheckpoint(find_checkpoint(checkpoint))
