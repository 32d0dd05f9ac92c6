"""The result of a search as a table, with the reason why each layout is slower than the first."""

from mtf_imaging.planner.render.text import format_seconds
from mtf_imaging.planner.search.search import Found, Searched
from mtf_imaging.program.memory import format_bytes

_HEAD = ("", "mesh shape", "layout", "step", "exchange", "memory", "why")


def search_table(searched: Searched, top: int) -> str:
    """Returns a table of the first `top` layouts, with the number of layouts that are not ranked.

    Args:
      searched: the result of the search.
      top: the number of layouts to show.
    """
    shown = searched.found[:top]
    rows = [_HEAD]
    for rank, found in enumerate(shown, 1):
        mesh_shape, layout = (word or '""' for word in (found.layout.mesh_string, found.layout.rules_string))
        rows.append(
            (
                str(rank) if found.fits else "-",
                mesh_shape,
                layout + (" (recomputed)" if found.recompute else ""),
                format_seconds(found.time.total),
                f"{found.time.exchange_share:.0%}",
                format_bytes(found.plan.memory),
                _why(found, searched.best),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = (
        []
        if not shown
        else ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    )
    if len(searched.found) > top:
        lines.append(f"and {len(searched.found) - top} more; increase top to list them")
    if searched.skipped:
        layout, reason = next(iter(searched.skipped.items()))
        others = f" and {len(searched.skipped) - 1} more" if len(searched.skipped) > 1 else ""
        lines.append(f"skipped: {layout}{others}. {reason}")
    return "\n".join(lines)


def _why(found: Found, best: Found | None) -> str:
    if not found.fits:
        return "does not fit"
    if found is best:
        return "the fastest that fits"
    slower = found.time.total / best.time.total - 1
    if slower < 0.0005:
        return "equally fast"
    parts = zip(found.time._fields, found.time, best.time, strict=True)
    name = max(parts, key=lambda part: part[1] - part[2])[0]
    reason = {
        "compute": "recomputes activations" if found.recompute > best.recompute else _more_work(found, best),
        "memory": "recomputes activations" if found.recompute > best.recompute else _more_access(found, best),
        "links": f"sends {_ratio(found.time.links, best.time.links)} bytes",
        "network": f"sends {_ratio(found.time.network, best.time.network)} bytes between hosts",
        "latency": f"{_ratio(found.time.latency, best.time.latency)} exchanges",
    }[name]
    return f"{slower:.1%} slower: {reason}"


def _more_work(found, best):
    wasted = found.plan.wasted
    return f"uneven slices waste {wasted:.0%} of the work" if wasted > best.plan.wasted + 0.005 else "computes more"


def _more_access(found, best):
    return (
        f"reads and writes {found.time.memory / best.time.memory - 1:.1%} more memory"
        if best.time.memory
        else "reads memory"
    )


def _ratio(more, less):
    return f"{more / less:.1f} times as many" if less else "more"
