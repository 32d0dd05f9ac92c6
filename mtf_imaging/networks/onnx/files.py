"""Reads ONNX files without running code in them, and without reading values outside their folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import ConfigError, DataError, NotSupportedError, reason
from mtf_imaging.networks.files import FIX
from mtf_imaging.networks.onnx.registry import Branch, OnnxNode
from mtf_imaging.networks.onnx.source import OnnxSource

_OPSETS = range(13, 23)
_FIX = "Fix: export the network again, and keep its files in one folder."


def onnx_network(path: Path) -> OnnxSource:
    """Returns the network in an ONNX file.

    Raises:
      DataError: there is no such file, it is damaged, or it refers to files outside its folder.
      ConfigError: the package `onnx` is not installed.
      NotSupportedError: its opset or operators are unknown. The error lists all of them.
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise ConfigError(
            f"{path}: reading ONNX files needs the package 'onnx'. Fix: pip install 'mtf-imaging[onnx]'."
        ) from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
    except Exception as error:  # protobuf's own class depends on its implementation
        raise DataError(f"{path}: not an ONNX network, or damaged: {reason(error)}. {FIX}") from error
    if not (model.ir_version and model.graph.node and model.graph.output):
        raise DataError(f"{path}: not an ONNX network, or damaged: it has no nodes or no outputs. {FIX}")
    reader = _Reader(onnx, path)
    title = f"ONNX network '{path.name}'"
    opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
    if opset not in _OPSETS:
        raise NotSupportedError(
            f"{title}: its opset is {opset}, but opsets {_OPSETS[0]} to {_OPSETS[-1]} are supported. Fix: export it "
            "with one of these, or convert it with onnx.version_converter."
        )
    if model.graph.sparse_initializer:
        raise NotSupportedError(f"{title}: it has sparse initializers. Fix: store them as dense tensors.")
    graph = reader.graph(model.graph)
    inputs = {each.name: reader.shape(each) for each in model.graph.input if each.name not in graph.constants}
    _check_names(path, graph, {*graph.constants, *inputs})
    return OnnxSource(title, opset, graph, inputs, lambda values: _exported(model, graph.constants, values))


def _check_names(path: Path, graph: Branch, known: set[str]) -> None:
    """Checks that every value is computed before it is used."""
    for node in [*graph.nodes, OnnxNode(path.name, "The output of", tuple(graph.outputs), (), {})]:
        if unknown := [name for name in node.inputs if name and name not in known]:
            raise DataError(f"{path}: {node} uses '{unknown[0]}', which no node before it computes. {_FIX}")
        known |= {*node.outputs}


def _exported(model: Any, constants: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> Any:
    """Returns a model with other values of constants."""
    import onnx

    copy = type(model)()
    copy.CopyFrom(model)
    tensors = {
        name: onnx.numpy_helper.from_array(value.astype(constants[name].dtype).reshape(constants[name].shape), name)
        for name, value in values.items()
    }
    for tensor in copy.graph.initializer:
        if tensor.name in tensors:
            tensor.CopyFrom(tensors[tensor.name])
    for node in copy.graph.node:
        if node.op_type == "Constant" and node.output[0] in tensors:
            del node.attribute[:]
            node.attribute.append(onnx.helper.make_attribute("value", tensors[node.output[0]]))
    return copy


class _Reader:
    """Reads the parts of a model.

    Args:
      onnx: the package.
      path: the file.
    """

    def __init__(self, onnx: Any, path: Path) -> None:
        self._onnx, self._path, self._folder = onnx, path, path.resolve().parent

    def array(self, tensor: Any) -> np.ndarray:
        """Returns the value of a tensor, whose bytes must be in the file or in a file in its folder."""
        where = f"{self._path}: the tensor '{tensor.name}'"
        external = self._onnx.external_data_helper
        self._dtype(where, tensor.data_type)
        try:
            if external.uses_external_data(tensor):  # only from files in the folder, within their sizes
                external.load_external_data_for_tensor(tensor, str(self._folder))
            value = np.asarray(self._onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError, AttributeError, OSError, self._onnx.checker.ValidationError) as error:
            raise DataError(f"{where} cannot be read: {reason(error)}. {_FIX}") from error
        if value.shape != tuple(tensor.dims):
            raise DataError(f"{where} has the shape {list(tensor.dims)}, but {value.size} values. {_FIX}")
        return value

    def _dtype(self, where: str, number: int) -> np.dtype:
        """Returns the dtype with a number in ONNX."""
        try:
            dtype = np.dtype(self._onnx.helper.tensor_dtype_to_np_dtype(number))
            tf.as_dtype(dtype)
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"{where} has the data type {number} of ONNX, which TensorFlow does not have. Fix: export the network "
                "in float32."
            ) from error
        return dtype

    def graph(self, proto: Any) -> Branch:
        """Returns a graph with its tensors as NumPy arrays; the nodes of constants become constants."""
        constants = {tensor.name: self.array(tensor) for tensor in proto.initializer}
        nodes = []
        for number, node in enumerate(proto.node):
            operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
            name = node.name or f"{node.op_type}_{number}"
            attributes = {each.name: self._setting(each) for each in node.attribute}
            if operator == "Constant" and len(node.output) == 1 and len(attributes) == 1:
                ((kind, value),) = attributes.items()
                dtype = {"value_float": np.float32, "value_floats": np.float32}.get(kind, np.int64)
                constants[node.output[0]] = value if kind == "value" else np.asarray(value, dtype)
                continue
            nodes.append(OnnxNode(name, operator, tuple(node.input), tuple(node.output), attributes))
        return Branch(nodes, constants, [each.name for each in proto.output])

    def _setting(self, attribute: Any) -> Any:
        """Returns the value of an attribute, as a Python value, a NumPy array or a `Branch`."""
        if attribute.type == attribute.TENSOR:
            return self.array(attribute.t)
        if attribute.type == attribute.GRAPH:
            return self.graph(attribute.g)
        value = self._onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        return value if isinstance(value, int | float) else list(value)

    def shape(self, value: Any) -> tuple[list[int | None], Any]:
        """Returns the shape of an input, with None for free sizes, and its dtype."""
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
            raise ConfigError(
                f"{self._path}: the number of axes of the input '{value.name}' is unknown. Fix: export the network "
                "with the shapes of its inputs."
            )
        dtype = self._dtype(f"{self._path}: the input '{value.name}'", tensor.elem_type)
        return [dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim], dtype
