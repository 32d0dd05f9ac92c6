"""Safetensors files: a length, a description in JSON, and the bytes of the tensors."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.training.checkpoints.weight_files.weight_file import damaged, damaged_array

ENDING = ".safetensors"
_KIND = "a safetensors file"
_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": tf.bfloat16.as_numpy_dtype,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_LENGTH = 8  # bytes of the description's length, a little-endian number


class SafetensorsFile:
    """A safetensors file.

    Args:
      path: the path of the file.

    Attributes:
      path: the same path.
      shapes: the shape of each tensor, by name. Only tensors of numbers with 8 to 64 bits are included.

    Raises:
      CheckpointError: it is not such a file, or is damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with Path(path).open("rb") as file:
                length = int.from_bytes(file.read(_LENGTH), "little")
                if length > Path(path).stat().st_size:
                    raise ValueError(f"its description should have {length} bytes")
                header = json.loads(file.read(length))
            self._start = _LENGTH + length
            self._entries = {
                name: entry
                for name, entry in sorted(header.items())
                if name != "__metadata__" and entry["dtype"] in _DTYPES
            }
            self.shapes = {name: tuple(map(int, entry["shape"])) for name, entry in self._entries.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(path, _KIND, error) from error

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor; see `WeightFile`."""
        entry = self._entries[name]
        try:
            first, last = entry["data_offsets"]
            with Path(self.path).open("rb") as file:
                file.seek(self._start + first)
                return np.frombuffer(file.read(last - first), _DTYPES[entry["dtype"]]).reshape(self.shapes[name])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged_array(self.path, name, error) from error
