"""Reads networks from files without running code in them."""

import functools
import importlib
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from mtf_imaging.errors import CheckpointError, ConfigError, reason
from mtf_imaging.networks.conversion import Weight
from mtf_imaging.networks.graph import CALLS, VARIABLE, Node, upstream
from mtf_imaging.networks.sources import PLACEHOLDERS, GraphSource, add_weight, is_flag
from mtf_imaging.spelling import did_you_mean
from mtf_imaging.training.checkpoints.weight_files.keras_file import KerasFile

FIX = "Fix: give a .keras, .h5, .pb or .onnx file, or the folder of a SavedModel or of a model of nnU-Net."
_CONFIGURATION = "model_config"
_LAMBDA = re.compile(r'"class_name":\s*"Lambda"')
_SIGNATURE = "serving_default"
_INITIALIZATION = "__saved_model_init_op"
_VALUE = "VARIABLE_VALUE"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"  # where a checkpoint describes its objects
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
_READ = re.compile(r"(/ReadVariableOp(_\d+)?)?(/resource)?$")  # what freezing appends to the name of a layer


def keras_model(path: Path) -> Any:
    """Returns the model in a `.keras` or `.h5` file.

    Raises:
      CheckpointError: the file is damaged, or refers to other files.
      ConfigError: Keras cannot load the model, for instance because it contains Python code.
    """
    KerasFile(str(path))  # raises the error if values are outside the file
    keras = importlib.import_module("keras")
    try:
        if _LAMBDA.search(_hdf5_configuration(path)):  # some versions of Keras run their code
            raise ValueError("it contains a Lambda layer.")
        return keras.models.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # damaged files raise errors of any type
        raise ConfigError(
            f"{path}: Keras {keras.__version__} cannot load this model: {reason(error)} Fix: if you trust the file, "
            "load the model with its custom objects, with safe_mode=False or with tf_keras, and pass the model."
        ) from error


def _hdf5_configuration(path: Path) -> str:
    """Returns the description of the layers in an HDF5 file; nothing for a `.keras` file."""
    if zipfile.is_zipfile(path):
        return ""
    with h5py.File(path, "r") as file:
        text = file.attrs.get(_CONFIGURATION, "")
    return text.decode() if isinstance(text, bytes) else str(text)


def frozen_graph(path: Path, names: Sequence[str] | None = None) -> GraphSource:
    """Returns the network in a frozen graph, whose inputs are its placeholders.

    The constants that a frozen graph reads like variables become variables.

    Args:
      path: the file.
      names: names of the nodes that are outputs; None for those that nothing uses.
    """
    definition = tf.compat.v1.GraphDef()
    try:
        definition.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's own class depends on its implementation
        raise CheckpointError(f"{path}: not a graph of TensorFlow, or damaged: {error}. {FIX}") from error
    graph = _imported(path, definition)
    operations = graph.get_operations()
    used = {tensor.op.name for op in operations for tensor in op.inputs}
    known = {op.name: op for op in operations if op.outputs}
    for name in names or ():
        if name not in known:
            raise ConfigError(
                f"outputs: {path} has no node '{name}'.{did_you_mean(name, known)} Fix: use the name of a node.",
                ["outputs"],
            )
    sinks = [op for name, op in known.items() if name not in used and not _is_input(op)]
    sources = {
        op.name: upstream(operations, op.outputs, _is_input)
        for op in ([known[name] for name in names] if names else sinks)
    }
    # Sinks that depend on no input are left over from training.
    outputs = {name: known[name].outputs[0] for name, own in sources.items() if any(map(_is_input, own))}
    inputs = {op.name: op.outputs[0] for own in sources.values() for op in own if _is_input(op)}
    read = {op.inputs[0].op.name for op in operations if op.type == "Identity"}
    statistics = {
        source.op.inputs[0].op.name
        for op in operations
        if op.type.startswith("FusedBatchNorm")
        for source in list(op.inputs)[3:]
        if source.op.type == "Identity"
    }
    weights: dict[str, Weight] = {}
    leaves: dict[str, Node] = {}
    for op in operations:
        if op.type == "Const" and op.name in read and op.outputs[0].dtype.is_floating:
            value, name = tf.make_ndarray(op.get_attr("value")), _READ.sub("", op.name)
            name = add_weight(weights, name, value, op.name not in statistics)
            leaves[op.name] = Node(op.name, VARIABLE, attributes={"is_value": True}, value=name)
    if not inputs or not outputs:
        raise CheckpointError(f"{path}: this graph has no {'outputs' if inputs else 'placeholders'}. {FIX}")
    return GraphSource(f"graph '{path.name}'", graph, inputs, outputs, weights, lambda op: leaves.get(op.name))


def _is_input(op: tf.Operation) -> bool:
    """Returns whether an operation of a frozen graph is an input, perhaps with a pipeline as its default."""
    is_fed = op.type == "Placeholder" or (op.type in PLACEHOLDERS and op.inputs[0].op.type != "Const")
    return is_fed and not is_flag(op)


def saved_model(path: Path) -> GraphSource:
    """Returns the network in the folder of a SavedModel, whose functions for loading are not run."""
    file = path / "saved_model.pb"
    title = f"SavedModel '{path.name}'"
    try:
        description = saved_model_pb2.SavedModel.FromString(file.read_bytes()).meta_graphs[0]
    except Exception as error:
        raise CheckpointError(f"{file}: not a SavedModel, or damaged: {error}. {FIX}") from error
    signatures = [name for name in description.signature_def if name != _INITIALIZATION]
    if _SIGNATURE in signatures:
        signatures = [_SIGNATURE]
    if len(signatures) != 1:
        raise ConfigError(
            f"{title}: it has the signatures {', '.join(signatures) or 'none'}. Fix: save it with one, called "
            f"'{_SIGNATURE}'."
        )
    signature = description.signature_def[signatures[0]]
    graph = _imported(path, description.graph_def)
    inputs = {name: graph.get_tensor_by_name(each.name) for name, each in sorted(signature.inputs.items())}
    outputs = {name: graph.get_tensor_by_name(each.name) for name, each in sorted(signature.outputs.items())}
    reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    stored = _stored_variables(description, reader, outputs.values())
    shapes = reader.get_variable_to_shape_map()
    weights: dict[str, Weight] = {}
    leaves: dict[str, Node] = {}
    for op in graph.get_operations():
        key, own, is_trained = stored.get(op.name, (op.name, op.name, True))
        if op.type in _VARIABLES and key in shapes:
            spec = tf.TensorSpec(shapes[key], op.get_attr("dtype"))
            name = add_weight(weights, own, spec, is_trained, functools.partial(reader.get_tensor, key))
            leaves[op.name] = Node(op.name, VARIABLE, attributes={"is_value": op.type != "VarHandleOp"}, value=name)
    return GraphSource(title, graph, inputs, outputs, weights, lambda op: leaves.get(op.name))


def _imported(path: Path, definition: Any) -> tf.Graph:
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.import_graph_def(definition, name="")
    except (ValueError, tf.errors.OpError) as error:
        raise CheckpointError(f"{path}: TensorFlow cannot read this graph: {reason(error)}") from error
    return graph


def _stored_variables(description: Any, reader: Any, outputs: Iterable[tf.Tensor]) -> dict[str, tuple[str, str, bool]]:
    """Returns {name of a variable's operation: (its key in the checkpoint, its name, whether it is trained)}.

    The function of a signature gets its variables in the order that the object graph stores. Without a function, as in
    TensorFlow 1, the names are the keys.
    """
    if not reader.has_tensor(_OBJECTS):
        return {}
    objects = trackable_object_graph_pb2.TrackableObjectGraph.FromString(reader.get_tensor(_OBJECTS))
    saved, found = description.object_graph_def, {}
    for call in {tensor.op for tensor in outputs if tensor.op.type in CALLS}:
        function = saved.concrete_functions[call.get_attr("f").name]
        captured = list(call.inputs)[len(call.inputs) - len(function.bound_inputs) :]
        for tensor, number in zip(captured, function.bound_inputs, strict=True):
            attributes = objects.nodes[number].attributes if number < len(objects.nodes) else []
            for each in attributes:
                if each.name == _VALUE:
                    found[tensor.op.name] = each.checkpoint_key, each.full_name, saved.nodes[number].variable.trainable
    return found
