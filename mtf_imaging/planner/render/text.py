"""The explanation of a layout as text: a summary and a table of operations."""

import os
import sys

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.plain_text import counted, text_table
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.plan import OpCost, Plan
from mtf_imaging.planner.cost.step_time import traffic_totals
from mtf_imaging.planner.cost.uneven import LIMIT
from mtf_imaging.planner.render.field_text import field_lines, prediction_lines, room
from mtf_imaging.planner.render.recipe_text import format_seconds, recipe_lines

_MOST_SPLITS = 8
_BOLD, _GREEN, _RED, _DIM, _OFF = "\033[1m", "\033[32m", "\033[31m", "\033[2m", "\033[0m"


def text(explained: Explained, verbose: bool = False, colors: bool = False) -> str:
    """Returns the summary and the table of operations.

    Args:
      explained: the explanation to show.
      verbose: whether the table lists all operations instead of only operations with halos.
      colors: whether to use the escape sequences of a terminal.
    """
    summary = "\n".join(_summary(explained, _paint if colors else lambda text, *_: text))
    return f"{summary}\n\n{_table(explained.plan, verbose)}"


def use_colors() -> bool:
    """Returns whether to color printed text: on a terminal, unless NO_COLOR is set (no-color.org)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def groups(plan: Plan) -> dict[str, list[OpCost]]:
    """Groups the operations of a plan by forward operation, which comes first; the update is one group."""
    result = {}
    for op in plan.ops:
        name = "the optimizer" if op.phase == "update" else op.name.split("/gradients/")[0]
        result.setdefault(name, []).append(op)
    return result


def _paint(text, color):
    return f"{color}{text}{_OFF}"


def _summary(explained, paint):
    plan, hardware, time = explained.plan, explained.hardware, explained.time
    layout = plan.layout
    mesh = "one processor"
    if layout.mesh_shape:
        mesh = f"mesh {layout.mesh_string}, layout " + (layout.rules_string or '""')
    yield paint(f"{mesh}: {counted(plan.processors, 'processor')} on {counted(plan.devices, 'device')}", _BOLD)
    if plan.parts > 1:
        again = ", with an extra forward pass for sums over the batch" if plan.forward_passes > 1 else ""
        yield f"a batch of {explained.batch_size} in {plan.parts} micro-batches{again}"
    if explained.repeated:
        yield f"no rule uses {' or '.join(explained.repeated)}, so processors repeat the same work there"
    yield from _uneven_lines(explained, paint)
    yield from field_lines(explained, paint)
    if plan.changes:
        yield ""
        yield "changes of the layout within the network"
        yield from (f"  {change}" for change in plan.changes)
    if plan.turns:
        yield from _turn_lines(plan)
    yield ""
    yield "memory per device"
    for name, variant in (("activations kept", explained.kept), ("activations recomputed", explained.recomputed)):
        if variant is not None:
            yield _memory_line(explained, name, variant, paint)
    if not plan.turns:
        yield f"  the peak is at {_short(plan.peak.at.name)}; largest tensors: {_largest(plan)}"
    yield ""
    yield "per step"
    ends = plan.interior, plan.border
    for phase in ("forward", "backward"):
        interior, border = (format_bytes(plan.sent(end, phase)) for end in ends)
        exchanges, sums = plan.count(phase=phase), plan.count(("sum",), phase)
        yield (
            f"  {phase:9} {_flops(plan.total(lambda op: op.flops, phase))} per processor; halos: an interior processor "
            f"sends {interior}, a corner processor {border}, in {exchanges} exchanges; {counted(sums, 'all-reduce')}"
        )
    moved = plan.sent(plan.interior, kinds=("gather", "all-to-all"))
    if moved:
        yield f"  gathered slices: each processor sends {format_bytes(moved)}"
    if plan.sends_variables:
        state = f" and {format_bytes(plan.state_sent)} of optimizer state" if plan.state_sent else ""
        yield f"  each device receives {format_bytes(plan.weights_sent)} of weights{state}"
    yield from _link_lines(plan)
    if time is not None:
        total = f"{format_seconds(time.total)} per step on {hardware.name}, {time.exchange_share:.0%} of it exchange"
        named = {name: seconds for name, seconds in time._asdict().items() if seconds or name == "compute"}
        parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in named.items())
        yield f"  {paint(total, _BOLD)}: {parts}"
        yield paint(
            f"  assumed: {hardware.flops_of(explained.dtype) / 1e12:.3g} TFLOP/s in {explained.dtype} "
            f"({hardware.share:.0%} of the data sheet), {hardware.achieved_bandwidth / 1e9:,.0f} GB/s of memory "
            f"({hardware.bandwidth_share:.0%}),",
            _DIM,
        )
        yield paint(f"    {_assumed_links(plan, hardware)}, no overlap with computation", _DIM)
    else:
        yield "  Set hardware, for example h200, to estimate the step time and to check whether the memory suffices."
    if explained.prediction is not None:
        yield ""
        yield from prediction_lines(explained.prediction, explained.hardware)
    if explained.recipe_cost is not None:
        yield ""
        yield from recipe_lines(explained.recipe_cost)
    yield ""
    yield from _start_up_lines(explained, paint)


_TRANSPORTS = {
    "ring": "sums travel around a ring",
    "direct": "sums go to one device and back, gradients only to the device that keeps the weight",
}


def _link_lines(plan):
    connected = plan.interconnect
    if plan.devices == 1:
        return
    within, between = traffic_totals(plan)
    if connected.devices_per_host > 1:
        yield f"  within a host: {format_bytes(round(within))} over the link of the busiest device"
    if connected.num_hosts > 1:
        each = counted(connected.devices_per_host, "device")
        network = format_bytes(round(between))
        yield f"  between {connected.num_hosts} hosts of {each}: {network} over the network of the busiest host"
    yield f"  transport: {connected.transport}; {_TRANSPORTS[connected.transport]}"


def _assumed_links(plan, hardware):
    text = f"{hardware.link / 1e9:.3g} GB/s sent per device, {hardware.latency * 1e6:.3g} us per exchange"
    if plan.interconnect.num_hosts > 1:
        latency = f"{hardware.network_latency * 1e6:.3g} us"
        text += f"; between hosts {hardware.network / 1e9:.3g} GB/s per host, {latency} per exchange"
    return text


def _start_up_lines(explained, paint):
    """Yields a table of the start-up costs of each mesh implementation, and a notice if placement costs too much."""
    every = explained.start_ups
    rows = [
        ("start-up (estimate)", *every),
        ("  nodes per process", *(f"{start.nodes:,}" for start in every.values())),
        ("  time to start", *(_duration(start.seconds) for start in every.values())),
        ("  memory per process", *(format_bytes(start.process_memory) for start in every.values())),
        ("  memory per host", *(format_bytes(start.host_memory) for start in every.values())),
    ]
    yield from text_table(rows, (20, 0))
    placement = every.get("placement")
    if placement and placement.takes_too_long and explained.plan.interconnect.mesh_impl == "placement":
        yield paint(
            f"  notice: placement builds {placement.nodes:,} nodes in one process, which takes about "
            f"{_duration(placement.seconds)} and {format_bytes(placement.graph_memory)}. "
            "Fix: use mesh_impl collective.",
            _RED,
        )


def _duration(seconds):
    return f"{seconds / 60:,.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def uneven_summary(plan: Plan) -> list[str]:
    """Returns lines about uneven slices: the share of the work on their tails, and the dimensions."""
    splits = plan.uneven_splits
    if not splits:
        return []
    more = [f"  and {len(splits) - _MOST_SPLITS} more"] if len(splits) > _MOST_SPLITS else []
    head = f"uneven slices: {plan.wasted:.1%} of the work is spent on voxels that do not exist"
    return [head, *(f"  {split}" for split in splits[:_MOST_SPLITS]), *more]


def _uneven_lines(explained, paint):
    """Yields the uneven slices, a notice if they waste much work, and one per dimension with growing halos."""
    uneven = explained.unevenness
    lines = uneven_summary(explained.plan)
    if lines:
        yield ""
        yield from lines
    if explained.plan.wasted > LIMIT:
        sizes = ", ".join(f"{dim}:{size} instead of {uneven.image[dim]}" for dim, size in uneven.better.items())
        coarse = any(split.slices.whole < uneven.image.get(split.dim, 0) for split in explained.plan.uneven_splits)
        yield paint(f"  notice: more than {LIMIT:.0%} of the work is wasted. {_fix(sizes, coarse)}", _RED)
    for growing in uneven.growing:
        sizes = " or ".join(f"{growing.dim}:{size}" for size in growing.better)
        coarse = growing.window.output_size(growing.whole) < uneven.image.get(growing.dim, 0)
        yield paint(f"  notice: {growing}. {_fix(sizes, coarse)}", _RED)


def _fix(sizes, coarse):
    """Returns the fixes for a notice; `coarse` states whether it concerns a coarse level of the network."""
    fixes = [f"use {sizes}"] if sizes else []
    fixes += ["use fewer processors"] + (["gather coarse levels with gather_below"] if coarse else [])
    return f"Fix: {', or '.join(fixes)}."


def _turn_lines(plan):
    costs = plan.turns
    yield ""
    yield f"processors along {' and '.join(plan.layout.sequential)} take {costs.turns} turns"
    yield (
        f"  a turn needs {format_bytes(costs.memory)}: {format_bytes(costs.inputs)} of inputs, "
        f"{format_bytes(costs.tensors)} of tensors, and {format_bytes(costs.reads)} that it reads"
    )
    moved = f"a step writes {format_bytes(costs.written)} and reads {format_bytes(costs.read)}"
    yield f"  {format_bytes(costs.waiting)} wait in offload_dir or in host memory; {moved}"


def _memory_line(explained, name, plan, paint):
    line = f"  {name:22} {format_bytes(plan.memory):>10}"
    peak = "of a turn" if plan.turns else "at the peak"
    parts = ((plan.weights, "weights"), (plan.state, "optimizer"), (plan.temporary, peak))
    line += " = " + " + ".join(f"{format_bytes(size)} {what}" for size, what in parts)
    fits = explained.fits(plan)
    if fits is None:
        return line
    place = room(explained.hardware)
    return line + (paint(f": fits in {place}", _GREEN) if fits else paint(f": does not fit in {place}", _RED))


def _largest(plan):
    return ", ".join(f"{_short(name)} {format_bytes(size)}" for name, size in plan.peak.largest[:3])


def _short(name):
    """Shortens the name of an operation and marks gradients with "(backward)"."""
    forward, _, backward = name.removesuffix(":0").partition("/gradients/")
    return f"{forward} (backward)" if backward else forward


_HEAD = ("operation", "whole", "slice", "halo", "sends forward", "backward", "sums", "FLOP", "results")


def _table(plan, verbose):
    rows, rest = [], []
    for name, ops in groups(plan).items():
        (rows if verbose or any(any(sum(h) for h in op.halo.values()) for op in ops) else rest).append((name, ops))
    if not verbose and not rows:  # without halos, list the operations that compute the most
        rows = sorted(rest, key=lambda group: -sum(op.flops for op in group[1]))[:20]
        rest = [group for group in rest if group not in rows]
    lines = [_HEAD, *(_row(plan, name, ops) for name, ops in rows)]
    if rest:
        lines.append(_row(plan, f"{len(rest)} others", [op for _, ops in rest for op in ops], is_total=True))
    notes = [
        "halo: voxels (before, after); sends: bytes per step of an interior / a corner processor; "
        "results: bytes of the forward pass, kept or recomputed"
    ]
    if not verbose:
        notes.append("verbose lists every operation")
    return "\n".join([*text_table(lines, left=4), *notes])


def _row(plan, name, ops, is_total=False):
    first = ops[0]
    halo = " ".join(f"{dim}:{before},{after}" for dim, (before, after) in first.halo.items() if before or after)
    sends = [_sends(plan, [op for op in ops if op.phase == phase]) for phase in ("forward", "backward")]
    sums = sum(e.kind == "sum" for op in ops for e in op.exchanges)
    return (
        name,
        "" if is_total else first.whole,
        "" if is_total else " x ".join(map(str, first.slice)),
        "" if is_total else halo,
        *sends,
        str(sums or ""),
        _flops(sum(op.flops * plan.times(op.phase) for op in ops)),
        format_bytes(sum(op.nbytes for op in ops if op.phase == "forward")),
    )


def _sends(plan, ops):
    kinds = ("halo", "gather", "all-to-all")
    interior, border = (
        sum(op.sent(at, plan.grid.mesh, kinds) * plan.times(op.phase) for op in ops)
        for at in (plan.interior, plan.border)
    )
    return f"{format_bytes(interior)} / {format_bytes(border)}" if interior or border else ""


def _flops(number):
    for power, name in ((12, "T"), (9, "G"), (6, "M")):
        if number >= 10**power:
            return f"{number / 10**power:.3g} {name}FLOP"
    return f"{number:,} FLOP"
