"""The weights that training does not change."""

import contextlib
from collections.abc import Iterator, Sequence

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.freezing import freezing
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import ConfigError
from mtf_imaging.training.variable_names import NamePatterns

_SETTING = "frozen"


class Frozen:
    """Freezes the weights of a task whose names match.

    Args:
      patterns: patterns of variable names; see `NamePatterns`.

    Raises:
      ConfigError: the patterns are not strings.
    """

    def __init__(self, patterns: str | Sequence[str] = ()) -> None:
        self._names = NamePatterns(patterns, _SETTING)

    @contextlib.contextmanager
    def applied(self, graph: mtf.Graph) -> Iterator[None]:
        """Freezes the variables that are created within a `with` block.

        Raises:
          ConfigError: a pattern matches no variable, or all weights are frozen.
        """
        if not self._names.patterns:
            yield
            return
        with freezing(graph, self._names.matches):
            yield
        self._names.check((variable.name for variable in graph.all_variables), "the network")
        if not graph.trainable_variables:
            raise ConfigError(
                f"frozen = {', '.join(self._names.patterns)}: this freezes all weights of the network, so there is "
                "nothing to train. Fix: freeze fewer scopes.",
                [_SETTING],
            )


NOTHING_FROZEN = Frozen()


def describe_frozen(program: Program) -> str:
    """Returns a program's number of frozen weights as text; "" if none are frozen."""
    values = sum(program.variables[name].shape.num_elements() for name in program.frozen)
    number = len(program.frozen)
    return f"{values:,} weights in {number} variable{'s' * (number > 1)} are frozen" if number else ""
