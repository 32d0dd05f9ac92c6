"""Safetensors files, which the library of this format reads and checks."""

import numpy as np
from safetensors import SafetensorError, safe_open

from mtf_imaging.errors import CheckpointError
from mtf_imaging.training.checkpoints.weight_files.weight_file import damaged, damaged_array

ENDING = ".safetensors"


class SafetensorsFile:
    """A safetensors file.

    Args:
      path: the path of the file.

    Attributes:
      path: the same path.
      shapes: the shape of each tensor, by name.

    Raises:
      CheckpointError: it is not such a file, or is damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with safe_open(path, framework="numpy") as file:
                self.shapes = {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}
        except (OSError, SafetensorError) as error:
            raise damaged(path, "a safetensors file", error) from error

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor; see `WeightFile`."""
        try:
            with safe_open(self.path, framework="numpy") as file:
                try:
                    return file.get_tensor(name)
                except AttributeError as error:  # NumPy has no such dtype
                    raise CheckpointError(
                        f"{self.path}: '{name}' has the dtype {file.get_slice(name).get_dtype()}, which NumPy lacks. "
                        "Fix: store it as float32.",
                        settings=["checkpoint"],
                    ) from error
        except (OSError, SafetensorError) as error:
            raise damaged_array(self.path, name, error) from error
