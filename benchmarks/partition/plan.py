"""What is compared with what: a comparison is one step, and those who take it in turn."""

import argparse
import dataclasses
from collections.abc import Iterator

from benchmarks.partition.contender import REFERENCE, Contender
from benchmarks.partition.networks import Step

_WEAK = ("1x1", "2x1", "2x2", "4x2", "4x4")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A step, and its contenders, of whom the first is the reference."""

    title: str
    step: Step
    contenders: tuple[Contender, ...]


def comparisons(arguments: argparse.Namespace) -> Iterator[Comparison]:
    """What a command line asks for."""
    fields = {name: getattr(arguments, name) for name in ("batch", "base_filters", "depth", "convs", "dtype")}
    servers = [Contender("servers", (count // 2, 2) if count in (4, 8) else (count,)) for count in arguments.servers]
    for network in arguments.networks:
        if not arguments.weak:
            step = Step(network, arguments.resolution, **fields)
            yield _comparison("", step, [*arguments.contenders, *servers])
            continue
        for mesh in map(Contender.parse, _WEAK):
            sizes = tuple(arguments.weak * n for n in (*mesh.mesh, 1))
            over = [server for server in servers if server.processors == mesh.processors]
            yield _comparison(
                f"weak scaling to {mesh.processors}: ",
                Step(network, sizes, **fields),
                [
                    mesh,
                    *(dataclasses.replace(server, mesh=mesh.mesh) for server in over),
                ],
            )


def _comparison(prefix, step, contenders):
    size = " x ".join(map(str, step.sizes))
    title = f"{prefix}{step.network}, {size} voxels, {step.base_filters} filters, batch {step.batch}, {step.dtype}"
    return Comparison(title, step, tuple(dict.fromkeys([Contender(REFERENCE), *contenders])))
