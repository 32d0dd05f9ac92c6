"""The formats of exported networks, and their packages and dtypes. The module does not import TensorFlow."""

import importlib.util
from typing import NamedTuple

from mtf_imaging.errors import ConfigError


class ModelFormat(NamedTuple):
    """A format of exported networks.

    Attributes:
      name: the value of the setting, which is also the name of the extra.
      title: its name in texts.
      converter: the program that writes it, in messages.
      packages: the packages that write and load it.
      dtypes: the dtypes of activations that its runtime supports.
      ending: the ending of its files, with one file per signature; "" if a folder contains all signatures.
    """

    name: str
    title: str
    converter: str
    packages: tuple[str, ...]
    dtypes: tuple[str, ...]
    ending: str

    def check(self, dtype: str) -> None:
        """Checks that a network can be written in this format.

        Args:
          dtype: the dtype of its activations.

        Raises:
          ConfigError: a package is missing, or the runtime does not support the dtype.
        """
        missing = [package for package in self.packages if importlib.util.find_spec(package) is None]
        if missing:
            listed = " and ".join(name.replace("_", "-") for name in missing)
            raise ConfigError(
                f"model_format = {self.name!r} needs {listed}, which is not installed. "
                f"Fix: run pip install {' '.join(name.replace('_', '-') for name in self.packages)}",
                ["model_format"],
            )
        if dtype not in self.dtypes:
            weights = "use {}, which reads the same weights," if dtype == "bfloat16" else "train with {}"
            fix = weights.format(f"dtype = {self.dtypes[0]!r}")
            raise ConfigError(
                f"dtype = {dtype!r}: {self.title} networks compute in {' or '.join(self.dtypes)}. "
                f"Fix: {fix} or use model_format = 'saved_model'.",
                ["dtype", "model_format"],
            )


FORMATS = {
    "saved_model": ModelFormat("saved_model", "SavedModel", "TensorFlow", (), ("float32", "bfloat16", "float64"), ""),
    "onnx": ModelFormat("onnx", "ONNX", "tf2onnx", ("tf2onnx", "onnxruntime"), ("float32", "float64"), ".onnx"),
    "tflite": ModelFormat(
        "tflite", "TFLite", "TensorFlow's TFLite converter", ("ai_edge_litert",), ("float32",), ".tflite"
    ),
}
