"""Plans the comparisons; a comparison is one step and its contenders."""

import argparse
import dataclasses
from collections.abc import Iterator

from benchmarks.partition.contender import REFERENCE, Contender
from benchmarks.partition.networks import Step

_WEAK = ("1x1", "2x1", "2x2", "4x2", "4x4")
_REFERENCE = Contender(REFERENCE)
_FIELDS = ("batch", "base_filters", "depth", "convs", "dtype", "forward")  # of a step, which are options


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A step and its contenders.

    Attributes:
      title: the title; comparisons with the same title share a table.
      step: the step.
      contenders: the contenders, the reference first.
    """

    title: str
    step: Step
    contenders: tuple[Contender, ...]


def comparisons(arguments: argparse.Namespace) -> Iterator[Comparison]:
    """Yields the comparisons that a command line requests."""
    for network in arguments.networks:
        if not arguments.weak:
            others = [c for c in dict.fromkeys(arguments.contenders) if c != _REFERENCE]
            for first in range(0, max(1, len(others)), arguments.together):
                group = others[first : first + arguments.together]
                yield _comparison(arguments, network, arguments.resolution, group)
            continue
        for mesh in map(Contender.parse, _WEAK):
            sizes = tuple(arguments.weak * n for n in (*mesh.mesh, 1))
            yield _comparison(arguments, network, sizes, [mesh])


def _comparison(arguments, network, sizes, contenders):
    fields = {name: getattr(arguments, name) for name in _FIELDS}
    step = Step(network, sizes, **fields)
    voxels = f"{arguments.weak}^3 voxels per processor" if arguments.weak else f"{format_sizes(sizes)} voxels"
    title = f"{network}, {voxels}, {step.base_filters} filters, batch {step.batch}, {step.dtype}"
    title += ", forward pass" * step.forward
    return Comparison(title, step, (_REFERENCE, *contenders))


def format_sizes(sizes) -> str:
    """Formats sizes for a title.

    >>> format_sizes((64, 32, 16))
    '64 x 32 x 16'
    """
    return " x ".join(map(str, sizes))
