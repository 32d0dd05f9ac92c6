"""Measured and modeled values of a bench as a table and as a dict."""

import dataclasses
import statistics
from collections.abc import Iterator

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.plain_text import text_table
from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.render.recipe_text import format_seconds, recipe_table

_MEASURED = ("step", "ratio", "memory", "tensors", "moved")
_HEAD = ("setup", "build", *_MEASURED, "step", "tensors", "moved", "step", "tensors", "memory")


def text(bench: Bench) -> str:
    """Returns a description of the machine, the step table, and the table of whole training runs.

    Args:
      bench: the result to show.
    """
    costs = {row.setup.name: cost for row in bench.rows if (cost := bench.recipe_cost(row)) is not None}
    training = ["", *recipe_table(costs)] if costs else []
    return "\n".join([*_machine(bench), "", *_table(bench), *_notes(bench), *training])


def _machine(bench):
    hardware = bench.hardware
    yield (
        f"{hardware.name}: {format_bytes(int(hardware.memory))}; {hardware.flops_of(bench.dtype) / 1e9:.3g} GFLOP/s in "
        f"the {bench.dtype} convolutions of the job; {hardware.bandwidth / 1e9:.3g} GB/s in elementwise operations; "
        f"{hardware.link / 1e9:.3g} GB/s in copies; "
        f"{hardware.latency * 1e6:.3g} us per operation"
    )
    names = max((row.devices for row in bench.rows), key=len, default=[])
    if len(names) == 1:
        yield f"one device, {names[0]}: all processors share it, so the model counts no traffic over links"
    elif names:
        yield f"{len(names)} devices: {', '.join(names)}"


def _table(bench):
    lines = [_HEAD, *(_line(bench, row) for row in bench.rows if row.error is None)]
    if len(lines) > 1:
        yield from text_table(lines, titles={2: "measured", 7: "modeled", 10: "model / measured"})
    for row in bench.rows:
        if row.error is not None:
            yield f"{row.setup.name}: not measured: {_first_line(row.error)}"


def _first_line(error):
    """Returns the first fault of an error, with an ellipsis if there are more lines."""
    first, *rest = error.splitlines()
    if first.endswith(":") and rest:
        first = f"{first} {rest.pop(0).strip()}"
    return f"{first} ..." if rest else first


def _line(bench, row):
    estimate, error = bench.estimate(row), bench.error(row)
    return (
        row.setup.name + (" *" if _uneven(row) else ""),
        format_seconds(row.build),
        format_seconds(row.seconds),
        f"{row.ratio:.2f}",
        *map(_bytes, (row.peak, row.tensors, row.moved)),
        format_seconds(estimate["seconds"]),
        *map(_bytes, (estimate["memory_bytes"], estimate["moved_bytes"])),
        *("?" if share is None else f"{share:.2f}" for share in error.values()),
    )


def _uneven(row):
    """Returns the first uneven splits of a setup."""
    return row.plan.uneven_splits[:3] if row.plan else ()


def _bytes(number):
    return "?" if number is None else format_bytes(number)


def _notes(bench) -> Iterator[str]:
    measured = [row for row in bench.rows if row.error is None]
    if not measured:
        return
    yield (
        f"step: median of {len(measured[0].steps)} steps; ratio: step time relative to {measured[0].setup.name} in the "
        "same round; memory: memory that the first step adds to the process"
    )
    yield "tensors: memory of tensors, as reported by TensorFlow; moved: bytes that all processors exchange in a step"
    shares = [bench.error(row) for row in measured]
    stated = {what: [share[what] for share in shares if share[what]] for what in shares[0]}
    averages = ", ".join(f"{what} {statistics.geometric_mean(each):.2f}" for what, each in stated.items() if each)
    yield f"model / measured, mean of all setups: {averages}"
    for row in filter(_uneven, measured):
        splits = ", ".join(map(str, _uneven(row)))
        yield f"* {row.setup.name} has uneven slices, which waste {row.plan.wasted:.1%} of the work: {splits}"
    if len(measured) > 1 and bench.equal:
        loss, norm = measured[0].loss, measured[0].gradient_norm
        yield f"all setups agree: first loss {loss:.7g}, gradient norm {norm:.4g}"


def as_dict(bench: Bench) -> dict:
    """Returns the result as a dict of JSON types, with numbers in bytes and seconds.

    Args:
      bench: the result to convert.
    """
    return {
        "hardware": dataclasses.asdict(bench.hardware),
        "dtype": bench.dtype,
        "batch_size": bench.batch_size,
        "micro_batches": bench.parts,
        "equal": bench.equal,
        "differences": list(bench.differences),
        "setups": [_row_dict(bench, row) for row in bench.rows],
    }


def _row_dict(bench, row):
    cost = bench.recipe_cost(row)
    return {
        "name": row.setup.name,
        "mesh_shape": row.setup.layout.mesh_string,
        "layout": row.setup.layout.rules_string,
        "error": row.error,
        "devices": row.devices,
        "build_seconds": row.build,
        "step_seconds": row.seconds,
        "steps_seconds": row.steps,
        "ratio": row.ratio,
        "memory_bytes": row.peak,
        "tensor_bytes": row.tensors,
        "moved_bytes": row.moved,
        "loss": row.loss,
        "gradient_norm": row.gradient_norm,
        "modelled": bench.estimate(row),
        "modelled_by_measured": bench.error(row),
        "recipe": {"step_time": "measured", **dataclasses.asdict(cost)} if cost else None,
    }
