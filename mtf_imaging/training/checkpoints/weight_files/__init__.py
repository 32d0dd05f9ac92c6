"""Weight files of other programs: TensorFlow, PyTorch, safetensors and Keras. PyTorch need not be installed."""

from mtf_imaging.training.checkpoints.weight_files.opening import open_weights
from mtf_imaging.training.checkpoints.weight_files.weight_file import WeightFile

__all__ = ["WeightFile", "open_weights"]
