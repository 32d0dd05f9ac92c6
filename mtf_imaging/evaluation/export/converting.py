"""Converts the signatures of a network to the files of another format, and loads each file in its runtime."""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.portable import portable_operations
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.export.formats import ModelFormat
from mtf_imaging.evaluation.export.signature import DEFAULT, Signature
from mtf_imaging.training.building import building

OPSET = 18  # the newest one that tf2onnx writes; ONNX Runtime reads it since version 1.14
_logger = logging.getLogger(__name__)
_UNSUPPORTED = re.compile(r"Tensorflow op \[.*: (\w+)\] is not supported|Failed to convert node '.*OP=(\w+)", re.DOTALL)
_FLOAT64 = re.compile(r"tensor<(?:[?\d]+x)*f64>")
_MLIR_OPS = re.compile(r"'tf\.(\w+)' op|operation 'tf\.(\w+)'")


class RefusedGraphError(Exception):
    """The error for a graph that a converter or a runtime does not accept; its text names the operations."""


class Converted(NamedTuple):
    """The files of a network.

    Attributes:
      signatures: the signatures that have a file.
      files: the contents of the files, by name.
      refused: the reasons why signatures have no file, by signature name.
    """

    signatures: tuple[Signature, ...]
    files: dict[str, bytes]
    refused: dict[str, str]


@contextlib.contextmanager
def portable_unless_saved(model_format: ModelFormat) -> Iterator[None]:
    """Makes networks and signatures within a `with` block suitable for the converter of a format, if it has one."""
    if not model_format.ending:
        yield
        return
    with portable_operations(tf.float64 if "float64" in model_format.dtypes else tf.float32):
        yield


def convert_signatures(signatures: Sequence[Signature], model_format: ModelFormat, progress: bool = False) -> Converted:
    """Converts each signature to a file of a format.

    Args:
      signatures: the signatures, the default one first, of networks that were built within `portable_operations`.
      model_format: the format.
      progress: whether to show progress on stderr.

    Raises:
      ConfigError: the converter or the runtime does not accept the default signature.
    """
    convert = {"onnx": _to_onnx, "tflite": _to_tflite}[model_format.name]
    files, refused = {}, {}
    converting = building(f"converting the network to {model_format.title}", progress=progress)
    with converting, portable_unless_saved(model_format):
        for one in signatures:
            try:
                files[f"{one.name}{model_format.ending}"] = convert(one.function())
            except RefusedGraphError as error:
                if one.name == DEFAULT:
                    raise ConfigError(
                        f"model_format = {model_format.name!r}: {model_format.converter} does not accept this "
                        f"network: {error}. Fix: use model_format = 'saved_model', or another network.",
                        ["model_format"],
                    ) from error
                refused[one.name] = str(error)
                _logger.warning(
                    "%s does not accept the signature '%s' (%s); the model lacks it",
                    model_format.converter, one.name, error,
                )  # fmt: skip
    return Converted(tuple(one for one in signatures if one.name not in refused), files, refused)


def _to_onnx(function: tf.types.experimental.ConcreteFunction) -> bytes:
    import onnx  # these are optional
    import onnxruntime
    import tf2onnx

    names = {tensor.name: tensor.name.partition(":")[0] for tensor in function.inputs}
    outputs = zip(function.outputs, sorted(function.structured_outputs), strict=True)
    names |= {tensor.name: name for tensor, name in outputs}
    with _errors_of("tf2onnx") as errors:
        try:
            proto, _ = tf2onnx.convert.from_graph_def(
                function.graph.as_graph_def(),
                name="network",
                input_names=[tensor.name for tensor in function.inputs],
                output_names=[tensor.name for tensor in function.outputs],
                opset=OPSET,
                tensors_to_rename=names,
            )
        except Exception as error:  # tf2onnx raises errors of many types for unknown operations
            raise RefusedGraphError(_operations(_UNSUPPORTED, errors) or str(error)) from error
    if unsupported := _operations(_UNSUPPORTED, errors):
        raise RefusedGraphError(unsupported)
    try:
        onnx.checker.check_model(proto)
        data = proto.SerializeToString()
        onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    except Exception as error:  # the file checks raise errors of many types, too
        raise RefusedGraphError(f"ONNX Runtime cannot load it ({_first_line(error)})") from error
    return data


def _to_tflite(function: tf.types.experimental.ConcreteFunction) -> bytes:
    from ai_edge_litert.interpreter import Interpreter  # optional

    with _without_stderr():
        try:
            data = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module()).convert()
        except Exception as error:  # ConverterError is not a public name
            reason = "it does not compute in float64" if _FLOAT64.search(str(error)) else ""
            # Omit the cause, whose text is the whole graph.
            raise RefusedGraphError(reason or _operations(_MLIR_OPS, [str(error)]) or _first_line(error)) from None
        try:
            Interpreter(model_content=data)
        except Exception as error:
            raise RefusedGraphError(f"LiteRT cannot load it ({_first_line(error)})") from error
    return data


def _operations(pattern: re.Pattern[str], messages: Sequence[str]) -> str:
    """Returns the names of the operations in a converter's messages; "" if there are none."""
    names = {name for message in messages for groups in pattern.findall(message) for name in groups if name}
    return f"it has no equivalent of {', '.join(sorted(names))}" if names else ""


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Discards the output of libraries on stderr, because the converter prints the whole graph if it refuses one."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


@contextlib.contextmanager
def _errors_of(name: str) -> Iterator[list[str]]:
    """Yields the list of errors that a package logs within the block, and hides all of its messages."""
    logger, errors = logging.getLogger(name), []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                errors.append(record.getMessage())

    kept = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [Collector()], False
    try:
        yield errors
    finally:
        logger.handlers, logger.propagate = kept
