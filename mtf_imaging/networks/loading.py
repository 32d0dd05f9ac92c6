"""Loads networks: Keras models, TensorFlow functions, and their files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.networks import files
from mtf_imaging.networks.network import Network
from mtf_imaging.networks.nnunet import is_nnunet, nnunet_network
from mtf_imaging.networks.onnx import onnx_network
from mtf_imaging.networks.sources import FunctionSource, KerasSource, Signature
from mtf_imaging.training.keras.layers import is_model


def load(model: Any, signature: Signature | None = None, outputs: Sequence[str] | None = None) -> Network:
    """Loads a network of Keras, TensorFlow, ONNX or nnU-Net.

    ONNX files and nnU-Net have channels first. Their inputs and outputs here have channels last, as those of all other
    networks: `[batch, x, y, z, channels]`.

    A file runs no code of its own: Lambda layers with Python code are refused, SavedModels are read and not loaded, and
    values outside a file are not read.

    Args:
      model: a Keras model (Keras 3 with the TensorFlow backend, or `tf_keras`), a `tf.function`, or the path of a
        `.keras` or `.h5` file, of a SavedModel's folder, of a frozen graph (`.pb`) or of an ONNX file (`.onnx`, which
        needs the package `onnx`), or of the folder of a trained model of nnU-Net 2 or a checkpoint in it (`.pth`).
      signature: a `tf.TensorSpec` for each input, with None for free sizes. Only a `tf.function` without an input
        signature and a Keras model of an own class need it.
      outputs: names of the nodes of a frozen graph that are outputs; the default are those that nothing uses.

    Returns:
      The network, a function of named tensors.

    Raises:
      ConfigError: `model` is something else, or its inputs are not known.
      CheckpointError: the file is damaged, or refers to other files.
      DataError: there is no such file, an ONNX file or the plans of nnU-Net are damaged, or an ONNX file refers to
        files outside its folder.
      NotSupportedError: operators of an ONNX file, or layers of nnU-Net, are unknown. The error lists all of them.
    """
    if isinstance(model, str | Path):
        path = Path(model)
        if is_nnunet(path):
            return Network(nnunet_network(path))
        if not path.exists():
            raise DataError(f"{path}: there is no such file. Fix: pass the path of a network.")
        if path.suffix == ".onnx":
            return Network(onnx_network(path))
        if path.suffix in (".keras", ".h5", ".hdf5"):
            return Network(KerasSource(files.keras_model(path), signature))
        return Network(files.saved_model(path) if path.is_dir() else files.frozen_graph(path, outputs))
    if is_model(type(model)):
        return Network(KerasSource(model, signature))
    if hasattr(model, "get_concrete_function"):
        return Network(FunctionSource(model, signature))
    raise ConfigError(
        f"mi.networks.load: {model!r:.100} is neither a Keras model, nor a tf.function, nor a path. Fix: pass one of "
        "these."
    )
