"""Safetensors files, which the library of this format reads and checks."""

import numpy as np
from safetensors import safe_open

from mtf_imaging.errors import CheckpointError
from mtf_imaging.training.checkpoints.weight_files.weight_file import WeightFile

ENDING = ".safetensors"


class SafetensorsFile(WeightFile):
    """A safetensors file."""

    kind = "a safetensors file"

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        with safe_open(self.path, framework="numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}

    def _array(self, name: str) -> np.ndarray:
        with safe_open(self.path, framework="numpy") as file:
            try:
                return file.get_tensor(name)
            except AttributeError as error:
                raise CheckpointError(
                    f"{self.path}: '{name}' has the dtype {file.get_slice(name).get_dtype()}, which NumPy lacks. "
                    "Fix: store it as float32.",
                    settings=["checkpoint"],
                ) from error
