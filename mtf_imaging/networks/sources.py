"""Where networks come from: Keras models, TensorFlow functions, and graphs in files."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import ConfigError, NotSupportedError, ShapeError, reason
from mtf_imaging.networks import graph as graphs
from mtf_imaging.networks.conversion import Weight
from mtf_imaging.networks.graph import CONSTANT, INPUT, VARIABLE, Graph, Node
from mtf_imaging.networks.network import Shape

Signature = Sequence[tf.TensorSpec]
PLACEHOLDERS = ("Placeholder", "PlaceholderWithDefault")
_IMAGE = "image"


def unused_name(name: str, taken: Iterable[str]) -> str:
    """Returns a name that a variable may have, with a number if it is taken."""
    taken = set(taken)
    base = re.sub(r"[^A-Za-z0-9_./-]", "_", name.partition(":")[0]).lstrip("_/-") or "variable"
    return next(each for each in (base, *(f"{base}_{i}" for i in range(1, len(taken) + 2))) if each not in taken)


def input_names(names: Sequence[str]) -> list[str]:
    if len(names) == 1:
        return [_IMAGE]
    return [re.sub(r"\W", "_", name.partition(":")[0]) for name in names]


def add_weight(
    weights: dict[str, Weight], name: str, value: Any, trainable: bool, read: Callable[[], np.ndarray] | None = None
) -> str:
    """Adds a variable under a name that is not used yet, and returns the name.

    Args:
      weights: the variables by name.
      name: the name of the variable in its network.
      value: an array or a variable, or a `tf.TensorSpec` if `read` returns the value.
      trainable: whether it is trained.
      read: returns the first value.
    """
    own = unused_name(name, weights)
    read = read or functools.partial(np.asarray, value)
    weights[own] = Weight(own, tuple(value.shape), tf.as_dtype(value.dtype), trainable, read)
    return own


def _known(title: str, argument: str, specs: Any) -> Any:
    """Returns the shapes and dtypes of inputs.

    Raises:
      ConfigError: there are none.
    """
    if not specs:
        raise ConfigError(
            f"{title}: the shapes of its inputs are unknown. Fix: call mi.networks.load({argument}, "
            "signature=[tf.TensorSpec([None, None, None, None, 1])])."
        )
    return specs


class _LiveSource:
    """A network whose code is there, so that it is traced again for each size.

    Args:
      title: the network, for error messages.
      original: the network.
      specs: its inputs.
      variables: its variables.
    """

    def __init__(self, title: str, original: Any, specs: Sequence[Any], variables: Iterable[Any]) -> None:
        self.title, self._original, self._variables = title, original, list(variables)
        names = input_names([x.name or f"input_{i}" for i, x in enumerate(specs)])
        self.signature: dict[str, tuple[Shape, tf.DType]] = {
            name: (tuple(x.shape), tf.as_dtype(x.dtype)) for name, x in zip(names, specs, strict=True)
        }
        self.weights: dict[str, Weight] = {}
        for each in self._variables:
            add_weight(self.weights, getattr(each, "path", each.name), each, each.trainable)
        own = [getattr(variable, "value", variable) for variable in self._variables]
        own = [v if isinstance(v, tf.Variable) else variable for v, variable in zip(own, self._variables)]
        self._handles = {id(v.handle): name for v, name in zip(own, self.weights)}

    def _traced(
        self, function: Callable[..., Any], shapes: Mapping[str, tuple[int, ...]], names: Sequence[str] | None
    ) -> Graph:
        """Returns the graph of a `tf.function`. `names` are those of its outputs if they have no names of their own."""
        specs = {key: tf.TensorSpec(shape, self.signature[key][1], name=key) for key, shape in shapes.items()}
        concrete = function.get_concrete_function(*specs.values())  # type: ignore[attr-defined]
        captured = {inner.name: outer for outer, inner in concrete.graph.captures}
        arguments = [x for x in concrete.inputs if x.name not in captured]
        leaves = {x.op.name: Node(x.op.name, INPUT, value=name) for x, name in zip(arguments, specs, strict=True)}
        for inner, outer in captured.items():
            name = inner.partition(":")[0]
            if id(outer) in self._handles:
                leaves[name] = Node(name, VARIABLE, value=self._handles[id(outer)])
            elif outer.dtype != tf.resource:
                leaves[name] = Node(name, CONSTANT, value=outer.numpy())
            else:
                raise ConfigError(
                    f"{self.title}: it reads the resource '{inner}', which is not a variable. Fix: remove it."
                )
        structure, number = concrete.structured_outputs, len(concrete.outputs)
        keys = list(names) if names and len(names) == number else [f"output_{i}" for i in range(number)]
        keys = sorted(structure) if isinstance(structure, dict) else keys
        outputs = dict(zip(keys, concrete.outputs, strict=True))
        return graphs.read(concrete.graph, lambda op: leaves.get(op.name), outputs)

    def export(self, values: Mapping[str, np.ndarray]) -> Any:
        for variable, name in zip(self._variables, self.weights, strict=True):
            if name in values:
                variable.assign(values[name])
        return self._original


class KerasSource(_LiveSource):
    """A model of Keras 2 or 3.

    Args:
      model: the model.
      signature: a `tf.TensorSpec` for each input of a model of an own class.
    """

    def __init__(self, model: Any, signature: Signature | None) -> None:
        title = f"Keras model '{model.name}'"
        symbolic = _known(title, "model", signature or getattr(model, "inputs", None))
        super().__init__(title, model, symbolic, model.variables)
        # A Sequential model has inputs, but no structure of them.
        structure = None if signature else getattr(model, "input", None)
        self._structure = list(symbolic) if structure is None else structure

    def trace(self, shapes: Mapping[str, tuple[int, ...]], training: bool) -> Graph:
        # `call` does not compare the sizes with those with which the model was built.
        call = self._original.call if getattr(self._original, "inputs", None) else self._original

        def function(*tensors: tf.Tensor) -> Any:
            arguments = tf.nest.pack_sequence_as(self._structure, tensors)
            one = isinstance(arguments, list | tuple) and len(arguments) == 1
            return call(arguments[0] if one else arguments, training=training)

        try:
            names = getattr(self._original, "output_names", None)
            return self._traced(tf.function(function, autograph=False), shapes, names)
        except ValueError as error:
            described = ", ".join(f"{key} {list(shape)}" for key, shape in shapes.items())
            raise ShapeError(
                f"{self.title}: Keras cannot compute it for {described}: {reason(error)} Fix: use the sizes with "
                "which the network was built, or sizes that its levels divide."
            ) from error


class FunctionSource(_LiveSource):
    """A `tf.function`.

    Args:
      function: the function.
      signature: a `tf.TensorSpec` for each argument; None for its own input signature.
    """

    def __init__(self, function: Any, signature: Signature | None) -> None:
        title = f"tf.function '{getattr(function, '__name__', 'function')}'"
        specs = _known(title, "function", signature or getattr(function, "input_signature", None))
        own = function.python_function
        super().__init__(title, own, specs, tf.function(own).get_concrete_function(*specs).variables)

    def trace(self, shapes: Mapping[str, tuple[int, ...]], training: bool) -> Graph:
        return self._traced(tf.function(self._original), shapes, None)


def is_flag(op: tf.Operation) -> bool:
    """Returns whether an operation is a boolean input, which tells a graph of TensorFlow 1 whether it is trained."""
    return op.type in PLACEHOLDERS and op.outputs[0].dtype.is_bool


class GraphSource:
    """A graph in a file, for prediction and training without the code of the original.

    Args:
      title: the network, for error messages.
      graph: the graph.
      inputs: the inputs by name.
      outputs: the outputs by name.
      weights: the variables by name.
      leaf: see `graph.read`.
    """

    def __init__(
        self,
        title: str,
        graph: tf.Graph,
        inputs: Mapping[str, tf.Tensor],
        outputs: Mapping[str, tf.Tensor],
        weights: Mapping[str, Weight],
        leaf: Callable[[tf.Operation], Node | None],
    ) -> None:
        self.title, self.weights = title, weights
        names = dict(zip(inputs, input_names(list(inputs)), strict=True))
        self.signature: dict[str, tuple[Shape, tf.DType]] = {}
        for key, tensor in inputs.items():
            if tensor.shape.rank is None:
                raise ConfigError(
                    f"{title}: the input '{key}' has an unknown number of axes. Fix: save the network with a signature "
                    "such as tf.TensorSpec([None, None, None, None, 1]), or choose outputs that do not need this input."
                )
            self.signature[names[key]] = tuple(tensor.shape), tensor.dtype
        leaves = {tensor.op.name: Node(tensor.op.name, INPUT, value=names[key]) for key, tensor in inputs.items()}

        def read(training: bool) -> Graph:
            flag = np.array(training)
            return graphs.read(
                graph,
                lambda op: leaves.get(op.name) or (Node(op.name, CONSTANT, value=flag) if is_flag(op) else leaf(op)),
                outputs,
                updates=False,
            )

        self._read = functools.lru_cache(None)(read)
        self._is_trainable = any(map(is_flag, graphs.upstream(graph.get_operations(), outputs.values())))
        read(False)  # raises the errors of the file

    def trace(self, shapes: Mapping[str, tuple[int, ...]], training: bool) -> Graph:
        if training and not self._is_trainable:
            raise NotSupportedError(
                f"{self.title}: the file contains only the graph for prediction, without dropout and with fixed batch "
                "norms. Fix: call the network with training=False, or load the Keras model."
            )
        return self._read(training)

    def export(self, values: Mapping[str, np.ndarray]) -> NoReturn:
        raise NotSupportedError(
            f"{self.title}: weights cannot be written into a graph. Fix: load the Keras model, or use the checkpoint "
            "of the program."
        )
