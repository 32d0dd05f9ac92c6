"""Weights that training does not change, and batch norms that keep their moving statistics."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

from mtf_imaging.engine.compat import mtf

_Matches = Callable[[str], bool]
_frozen: contextvars.ContextVar[tuple[_Matches, ...]] = contextvars.ContextVar("_frozen", default=())


@contextlib.contextmanager
def freezing(graph: mtf.Graph, matches: _Matches) -> Iterator[None]:
    """Freezes the variables that are created within a `with` block and whose names match.

    Frozen weights are no longer trainable variables of the graph, so they have no gradients. `batch_norm` uses its
    moving statistics, and does not update them, if their names match.

    Args:
      graph: the graph.
      matches: returns whether a variable with a name is frozen.
    """
    earlier = set(graph.trainable_variables)
    token = _frozen.set((*_frozen.get(), matches))
    try:
        yield
    finally:
        _frozen.reset(token)
    created = [variable for variable in graph.trainable_variables if variable not in earlier]
    graph.make_variables_untrainable([variable for variable in created if matches(variable.name)])


def is_frozen(name: str) -> bool:
    """Returns whether the caller is within a `freezing` block that matches the name of a variable."""
    return any(matches(name) for matches in _frozen.get())


def is_weight(variable: mtf.Variable) -> bool:
    """Returns whether a variable was created to be trained, even if it is frozen."""
    return variable.get_master().trainable
