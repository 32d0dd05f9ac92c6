"""What was measured, beside what is modelled: for people, and as a dict for programs."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from mtf_imaging.memory import format_bytes
from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.report import format_seconds

_HEAD = ("setup", "build", "step", "ratio", "memory", "moved", "step", "memory", "moved", "step", "memory")


def text(bench: Bench, equal: bool) -> str:
    """The table, and what it was measured on.

    Args:
      bench: what is shown.
      equal: whether all setups computed the same.
    """
    return "\n".join([*_machine(bench), "", *_table(bench), *_notes(bench, equal)])


def _machine(bench):
    hardware = bench.hardware
    yield (
        f"{hardware.name}: {format_bytes(int(hardware.memory))}; {hardware.flops_of(bench.dtype) / 1e9:.3g} GFLOP/s in "
        f"a {bench.dtype} convolution of the job and its gradients; {hardware.link / 1e9:.3g} GB/s copied; "
        f"{hardware.latency * 1e6:.3g} us an operation"
    )
    names = max((row.devices for row in bench.rows), key=len, default=[])
    if len(names) == 1:
        yield f"one device, {names[0]}: all processors share it, so the model has nothing go over links"
    elif names:
        yield f"{len(names)} devices: {', '.join(names)}"


def _table(bench):
    lines = [_HEAD, *(_line(bench, row) for row in bench.rows if row.error is None)]
    if len(lines) > 1:
        widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
        aligned = [f"<{widths[0]}", *(f">{width}" for width in widths[1:])]
        shown = ["  ".join(map(format, line, aligned)) for line in lines]
        over = {2: "measured", 6: "modelled", 9: "modelled / measured"}
        above = ""
        for column, title in over.items():
            above = above.ljust(sum(widths[:column]) + 2 * column) + title
        yield from [above, *shown]
    for row in bench.rows:
        if row.error is not None:
            yield f"{row.setup.name}: not measured: {_in_a_line(row.error)}"


def _in_a_line(error):
    """The first fault, where there are several."""
    first, *rest = error.splitlines()
    if first.endswith(":") and rest:
        first = f"{first} {rest.pop(0).strip()}"
    return f"{first} ..." if rest else first


def _line(bench, row):
    modelled, error = bench.modelled(row), bench.error(row)
    return (
        row.setup.name,
        format_seconds(row.build),
        *_measures(row.seconds, row.peak, row.moved, row.ratio),
        *_measures(*modelled.values()),
        *("?" if share is None else f"{share:.2f}" for share in error.values()),
    )


def _measures(seconds, memory, moved, *ratio):
    shown = [format_seconds(seconds), *(f"{value:.2f}" for value in ratio)]
    return [*shown, *("?" if value is None else format_bytes(value) for value in (memory, moved))]


def _notes(bench, equal) -> Iterator[str]:
    measured = [row for row in bench.rows if row.error is None]
    if not measured:
        return
    yield (
        f"step: the median of {len(measured[0].steps)}; ratio: to {measured[0].setup.name}, within a round; memory: of "
        "a step, above what the process held before; moved: what processors send each other, all together"
    )
    shares = [bench.error(row) for row in measured]
    means = [_geometric_mean([share[what] for share in shares if share[what]]) for what in ("seconds", "memory_bytes")]
    said = ", ".join(f"{name} {mean:.2f}" for name, mean in zip(("step", "memory"), means) if mean)
    yield f"modelled / measured, over all: {said}"
    if len(measured) > 1 and equal:
        loss, norm = measured[0].loss, measured[0].gradient_norm
        yield f"the same first loss, {loss:.7g}, and gradient norm, {norm:.4g}, under each"


def _geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def as_dict(bench: Bench, differences: Sequence[str]) -> dict:
    """The same for programs: JSON's types alone, bytes and seconds as numbers.

    Args:
      bench: what is shown.
      differences: as `compare.unequal` gives them.
    """
    return {
        "hardware": dataclasses.asdict(bench.hardware),
        "dtype": bench.dtype,
        "batch_size": bench.batch_size,
        "micro_batches": bench.parts,
        "equal": not differences,
        "differences": list(differences),
        "setups": [_row_dict(bench, row) for row in bench.rows],
    }


def _row_dict(bench, row):
    return {
        **row.setup._asdict(),
        "error": row.error,
        "devices": row.devices,
        "build_seconds": row.build,
        "step_seconds": row.seconds,
        "steps_seconds": row.steps,
        "ratio": row.ratio,
        "memory_bytes": row.peak,
        "moved_bytes": row.moved,
        "loss": row.loss,
        "gradient_norm": row.gradient_norm,
        "modelled": bench.modelled(row),
        "modelled_by_measured": bench.error(row),
    }
