"""The base class of layers, which gives every layer its scope, and scopes that group layers."""

import abc
import contextlib
import dataclasses
import weakref
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.arguments import ARGUMENTS, checked
from mtf_imaging.errors import ConfigError


class _Place(NamedTuple):
    """The scope of a layer's weights.

    Attributes:
      parent: the scope in which the layer was first called.
      name: name of the layer within this scope.
    """

    parent: tf.compat.v1.VariableScope
    name: str


# {graph: {name of a layer with its scopes: its kind}}
_KINDS: weakref.WeakKeyDictionary[mtf.Graph, dict[str, str]] = weakref.WeakKeyDictionary()


class Layer(abc.ABC):
    """A function of tensors that creates its weights on its first call in a program.

    Further calls in the same program share the weights. In another program, such as the prediction program, a layer
    creates the same names again, so both programs can share a checkpoint.

    Without a name, a layer is numbered in the order of first calls within its scope: `conv`, `conv_1`, `conv_2` and so
    on. Give a name to a layer

    - that not all programs call, such as one that only the loss uses, because it would change the numbers of the
      others;
    - that is created more than once in a program but has one set of weights. A `scope` around the network that is
      entered again has the same effect for all layers in it.

    A derived class defines `call`, and usually `default_name`.

    Args:
      name: scope of the weights. Layers with the same name in the same scope share their weights.
    """

    default_name = "layer"  # the name of layers without a name, before its number
    has_weights = True

    def __init__(self, name: str | None = None) -> None:
        self.name = None if name is None else checked(f"mi.layers.{type(self).__name__}", "name", name)
        self._path = self.name  # with the scopes and the number, once the layer was called
        self._places: weakref.WeakKeyDictionary[mtf.Graph, _Place] = weakref.WeakKeyDictionary()

    def __post_init__(self) -> None:
        """Checks the arguments of a layer that is a dataclass; None selects a default and is always valid."""
        Layer.__init__(self, self.name)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name in ARGUMENTS and (value is not None or field.default is not None):
                setattr(self, field.name, checked(self._title, field.name, value))

    def __getstate__(self) -> dict[str, object]:
        """Returns the attributes without those that calls in a program have changed."""
        return {name: value for name, value in vars(self).items() if name not in ("_path", "_places")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _path=state["name"], _places=weakref.WeakKeyDictionary())

    @abc.abstractmethod
    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        """Computes the result.

        Args:
          x: Tensor[batch, spatial..., channels]
          name: name of the layer, which is the scope of its weights.

        Returns:
          Tensor[batch, spatial..., channels]
        """

    def __call__(self, x: mtf.Tensor) -> mtf.Tensor:
        """Computes the result.

        Args:
          x: Tensor[batch, spatial..., channels]

        Returns:
          Tensor[batch, spatial..., channels]
        """
        if not isinstance(x, mtf.Tensor):
            raise ConfigError(
                f"{self._title}: the input must be a tensor of a program, not {type(x).__name__}. "
                "Fix: call the layer in the function of an mi.Program or in a method of a task."
            )
        if x.graph not in self._places:
            self._places[x.graph] = _Place(tf.compat.v1.get_variable_scope(), self.name or _number(self.default_name))
        parent, name = self._places[x.graph]
        self._path = f"{parent.name}/{name}" if parent.name else name
        self._check_kind(x.graph)
        if parent is tf.compat.v1.get_variable_scope():
            return self.call(x, name)
        with tf.compat.v1.variable_scope(parent, auxiliary_name_scope=False):
            return self.call(x, name)

    @property
    def _title(self) -> str:
        """Class and name, for error messages."""
        return f"mi.layers.{type(self).__name__}" + (f" '{self._path}'" if self._path else "")

    @property
    def _kind(self) -> str:
        """Layers of the same kind have the same weights."""
        return type(self).__name__

    def _check_kind(self, graph: mtf.Graph) -> None:
        """Checks that layers that share weights by their name are of the same kind."""
        if not self.has_weights:
            return
        first = _KINDS.setdefault(graph, {}).setdefault(str(self._path), self._kind)
        if first != self._kind:
            raise ConfigError(
                f"{self._title}: the layer {first} already has this name, and layers with the same name share their "
                f"weights, but this layer is {self._kind}. Fix: give each layer a name of its own."
            )


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """Groups layers: within the `with` block, the names of weights begin with `name/`.

    The numbering of unnamed layers restarts. A scope that is entered a second time in a program has the same
    weights as the first time, so a network in it may be called several times.

    Args:
      name: name of the scope, or several names with slashes.
    """
    with tf.compat.v1.variable_scope(checked("mi.layers.scope", "name", name), auxiliary_name_scope=False):
        yield


def _number(name: str) -> str:
    """Returns a name that is free in the current scope: the name itself, or the name with a number."""
    with tf.compat.v1.variable_scope(None, default_name=name, auxiliary_name_scope=False) as numbered:
        return numbered.name.rpartition("/")[2]
