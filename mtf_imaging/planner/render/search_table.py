"""The result of a search as a table, with the reason that each layout is slower than the first."""

from collections.abc import Sequence

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.plain_text import text_table
from mtf_imaging.planner.render.recipe_text import format_seconds
from mtf_imaging.planner.search.equal import equal_layouts, split_axes
from mtf_imaging.planner.search.search import Found, Searched

_EQUAL = "equal layouts"
_HEAD = ("", "mesh shape", "layout", _EQUAL, "step", "exchange", "memory", "why")


def search_table(searched: Searched, top: int | None = None) -> str:
    """Returns a table of the first layouts, with the number of layouts that are not ranked.

    Layouts that differ only by swapped axes share a row; see `equal_layouts`.

    Args:
      searched: the result of the search.
      top: the number of rows to show; default: all.
    """
    groups = equal_layouts(searched)
    shown = groups[:top]
    rows = [_row(rank, group, searched.best) for rank, group in enumerate(shown, 1)]
    columns = [(head, *cells) for head, *cells in zip(_HEAD, *rows, strict=True) if any(cells)]  # omits empty ones
    lines = text_table(list(zip(*columns, strict=True)), left=len(columns))
    if len(groups) > len(shown):
        lines.append(f"and {len(groups) - len(shown)} more; increase top to list them")
    if any(len(group) > 1 for group in shown):
        lines.append(f"{_EQUAL}: the number of layouts with the same cost, and the axes that each of them splits")
    if searched.skipped:
        layout, reason = next(iter(searched.skipped.items()))
        others = f" and {len(searched.skipped) - 1} more" if len(searched.skipped) > 1 else ""
        lines.append(f"skipped: {layout}{others}. {reason}")
    return "\n".join(lines)


def _row(rank: int, group: Sequence[Found], best: Found | None) -> tuple[str, ...]:
    found = group[0]
    axes = " / ".join(",".join(split_axes(equal.layout)) for equal in group)
    mesh_shape, layout = (word or '""' for word in (found.layout.mesh_string, found.layout.rules_string))
    return (
        str(rank) if found.fits else "-",
        mesh_shape,
        layout + (" in turns" if found.plan.turns else "") + (" (recomputed)" if found.recompute else ""),
        f"{len(group)}: {axes}" if len(group) > 1 else "",
        format_seconds(found.time.total),
        f"{found.time.exchange_share:.0%}",
        format_bytes(found.plan.memory),
        _why(found, best),
    )


def _why(found: Found, best: Found | None) -> str:
    if not found.fits:
        return "does not fit"
    if found.plan.turns:
        return f"fits in {found.plan.turns.turns} turns; {format_bytes(found.plan.turns.waiting)} wait"
    if found is best:
        return "the fastest that fits"
    slower = found.time.total / best.time.total - 1
    if slower < 0.0005:
        return "equally fast"
    more = {name: getattr(found.time, name) - getattr(best.time, name) for name in found.time._fields}
    name = max(more, key=more.get)
    ratio = _ratio(getattr(found.time, name), getattr(best.time, name))
    reasons = {
        "links": f"sends {ratio} bytes",
        "network": f"sends {ratio} bytes between hosts",
        "latency": f"{ratio} exchanges",
    }
    return f"{slower:.1%} slower: {reasons.get(name) or _more_work(found, best, name)}"


def _more_work(found: Found, best: Found, bound: str) -> str:
    """Returns why operations that are limited by arithmetic or by memory take longer."""
    if found.recompute > best.recompute:
        return "recomputes activations"
    if bound == "memory":
        more = f"{found.time.memory / best.time.memory - 1:.1%} more memory" if best.time.memory else "memory"
        return f"reads and writes {more}"
    wasted = found.plan.wasted
    return f"uneven slices waste {wasted:.0%} of the work" if wasted > best.plan.wasted + 0.005 else "computes more"


def _ratio(more: float, less: float) -> str:
    return f"{more / less:.1f} times as many" if less else "more"
