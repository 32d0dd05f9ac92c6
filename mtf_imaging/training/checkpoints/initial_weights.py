"""Starts training from the weights of another network, by the names of the variables."""

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mtf_imaging.engine.meshes import group as groups
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import CheckpointError, MtfImagingError, reason
from mtf_imaging.training.averages import average_name
from mtf_imaging.training.checkpoints.slots import owner
from mtf_imaging.training.checkpoints.weights_folder import Weights, find_weights
from mtf_imaging.training.variable_names import NamePatterns

_logger = logging.getLogger(__name__)
_SHOWN = 3
_NUMBERED = re.compile(r"(.*\D)(\d+)")
_Shapes = Mapping[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """The weights with which a network begins, instead of random weights.

    Variables that both networks have are set; the others keep their usual initial values. If the weights have averages,
    the averages are used. Optimizers begin without any state of earlier steps.

    Attributes:
      path: the folder of imported weights, the folder of a run, or the path of a checkpoint; see `find_weights`.
      excluded: scopes and patterns of names whose variables are not set, such as "deeplab/classes" for a network with
        other classes; see `NamePatterns`.
    """

    path: str | Path
    excluded: str | Sequence[str] = ()

    def check_exists(self) -> None:
        """Checks that the weights exist, before a network is built.

        Raises:
          CheckpointError: there are none.
        """
        Weights(find_weights(self.path))

    def check(self, program: Program) -> None:
        """Checks that the weights fit a program, and logs how many variables they share.

        Args:
          program: the `Program`.

        Raises:
          CheckpointError: there are no weights, or they belong to another network.
          ConfigError: an excluded scope has no variables.
        """
        groups.current().first(lambda: self._match(program)[1])

    def apply(self, program: Program) -> None:
        """Sets the variables of a program that has not made a step. The result does not depend on the layout.

        If several processes have joined, all of them call this method. Process 0 chooses the checkpoint, and all
        processes read it.

        Args:
          program: the `Program`.

        Raises:
          CheckpointError: there are no weights, they belong to another network, or a process cannot read them.
          ConfigError: an excluded scope has no variables.
        """
        group = groups.current()
        found: list[Weights] = []

        def choose() -> list:
            weights, names = self._match(program)
            found.append(weights)
            return [weights.path, names]

        path, names = group.first(choose)
        outcomes = group.gather(_assign(program, found[0] if found else path, names))
        for number, why in enumerate(outcomes):
            if why:
                raise CheckpointError(
                    f"{path}: {group.name(number)} cannot read these weights: {why}. "
                    "Fix: put initial_weights on a file system that all processes share.",
                    settings=["initial_weights"],
                )

    def _match(self, program: Program) -> tuple[Weights, list[str]]:
        """Returns the weights, and the names of the variables that they and a program have."""
        weights = Weights(find_weights(self.path))
        wanted = {name: tuple(variable.shape.as_list()) for name, variable in program.variables.items()}
        own, saved = (_without_slots(shapes) for shapes in (wanted, weights.shapes))
        excluded = NamePatterns(self.excluded, "initial_weights_except")
        excluded.check([*own, *saved], "the weights and of the network")
        own, saved = ({n: one[n] for n in one if not excluded.matches(n)} for one in (own, saved))
        names = [name for name in own if name in saved]
        where = f"{weights.path}{f' ({weights.title})' if weights.title else ''}"
        faults = [] if names else [f"no name is in both; the weights have {[*saved][:_SHOWN]}"]
        faults += _differing_numbers(saved, own)
        if weights.title and not faults:  # imported weights; all of them have a place in a network of the same kind
            faults = [f"'{name}' {list(saved[name])} is missing from the network" for name in saved if name not in own]
        faults += [
            f"'{name}' has shape {list(saved[name])} in the weights, but {list(own[name])} in the network"
            for name in names
            if saved[name] != own[name]
        ]
        if faults:
            more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            raise CheckpointError(
                f"{where}: these weights belong to another network: {'; '.join(faults[:_SHOWN])}{more}. Fix: build the "
                "network with the number of blocks, the stem and the filters of the weights, use other "
                "initial_weights, or change the scopes that initial_weights_except leaves out.",
                settings=("initial_weights", "initial_weights_except"),
            )
        absent = {name: shape for name, shape in own.items() if name not in saved}
        unused = {name: shape for name, shape in saved.items() if name not in own}
        rest = f"; {_number(absent)}{_example(absent)}, begin as usual" if absent else ""
        rest += f"; {_number(unused)} of the weights{_example(unused)}, have no place in the network" if unused else ""
        _logger.info("initial weights: %d of %d variables from %s%s", len(names), len(own), where, rest)
        return weights, names


def _assign(program: Program, weights: Weights | str, names: list[str]) -> str:
    """Sets variables of a program. Returns the reason if that fails, else an empty string."""
    try:
        weights = Weights(weights) if isinstance(weights, str) else weights
        variables = program.variables
        sources = {_source(name, weights.shapes): name for name in names}
        for source, value in weights.read([*sources]):
            name = sources[source]
            variables[name].assign(value.astype(variables[name].dtype.as_numpy_dtype))
        return ""
    except (MtfImagingError, OSError) as error:
        return reason(error)


def _without_slots(shapes: _Shapes) -> dict[str, tuple[int, ...]]:
    """Returns the variables that are not slots; the name of a slot begins with the name of another variable."""
    return {name: shape for name, shape in shapes.items() if owner(name, shapes) is None}


def _source(name: str, shapes: _Shapes) -> str:
    """Returns the variable in the weights to which a variable is set: its average, if there is one."""
    average = average_name(name)
    return average if average in shapes else name


def _differing_numbers(saved: Iterable[str], own: Iterable[str]) -> list[str]:
    """Returns the scopes whose numbers differ, such as the blocks of a stage in networks of different depths."""
    first, second = _numbered_scopes(saved), _numbered_scopes(own)
    return [
        f"the weights have '{scope}{max(first[scope])}' as the last '{scope}', but the network has "
        f"'{scope}{max(second[scope])}'"
        for scope in first
        if first[scope] != second.get(scope, first[scope])
    ]


def _numbered_scopes(names: Iterable[str]) -> dict[str, set[int]]:
    """Returns the numbers of numbered scopes, by the name before the number, such as {"resnet/stage": {0, 1}}."""
    numbers: dict[str, set[int]] = {}
    for name in names:
        scopes = name.split("/")[:-1]
        for depth, scope in enumerate(scopes):
            if match := _NUMBERED.fullmatch(scope):
                numbers.setdefault("/".join([*scopes[:depth], match[1]]), set()).add(int(match[2]))
    return numbers


def _number(shapes: _Shapes) -> str:
    return "1 variable" if len(shapes) == 1 else f"{len(shapes)} variables"


def _example(shapes: _Shapes) -> str:
    return f", such as '{next(iter(shapes))}'" if shapes else ""
