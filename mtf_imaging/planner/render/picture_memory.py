"""device memory as stacked bars, for a layout picture."""

from collections.abc import Sequence

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.files.figures import Rectangle

# Okabe and Ito's palette without the colors of slices and halos; additional parts are gray.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#f0e442", "#999999")
_EDGE, _TEXT = "#24405c", "#222222"


def memory_rows(kept: Sequence, recomputed: Sequence = ()) -> list[tuple[str, ...]]:
    """Returns the rows of the table below the bars: the purpose and size of each bar, and the total.

    >>> memory_rows([("weights", 2**30), ("activations", 2**31)])
    [('weights', '1.0 GiB'), ('activations', '2.0 GiB'), ('total', '3.0 GiB')]
    """
    bars = [dict(parts) for parts in (kept, recomputed) if parts]
    names = dict.fromkeys(name for bar in bars for name in bar)
    rows = [(name, *(format_bytes(bar.get(name, 0)) for bar in bars)) for name in names]
    return [*rows, ("total", *(format_bytes(sum(bar.values())) for bar in bars))]


def draw_memory(axes, picture) -> None:
    """Draws one bar for kept activations, one for recomputed activations, and a line at the device memory."""
    width, height = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.text(16, height - 6, "Memory per device in training", fontsize=10.5, fontweight="bold", va="top")
    bars = [("kept", dict(picture.memory)), ("recomputed", dict(picture.memory_recomputed))]
    bars = [(name, parts) for name, parts in bars if parts]
    rows = memory_rows(picture.memory, picture.memory_recomputed)
    colors = {row[0]: _COLORS[min(i, len(_COLORS) - 1)] for i, row in enumerate(rows[:-1])}
    foot = 48 + 19 * len(rows)
    room = height - foot - 66
    most = max([picture.device_memory or 0, *(sum(parts.values()) for _, parts in bars)])
    columns = [width - 134, width - 42] if len(bars) == 2 else [width - 100]
    for (name, parts), x in zip(bars, columns):
        y = foot
        for part, number in parts.items():
            high = number / most * room if most else 0
            axes.add_patch(Rectangle((x - 26, y), 52, high, facecolor=colors[part], edgecolor="white", linewidth=0.6))
            y += high
        axes.plot([x - 34, x + 34], [foot, foot], color=_EDGE, linewidth=1)
        axes.text(x, foot - 14, name if len(bars) == 2 else "", fontsize=9, ha="center", va="center", color=_TEXT)
    _table(axes, rows, colors, columns, foot - 34)
    if picture.device_memory:
        y = foot + picture.device_memory / most * room
        axes.plot([16, width - 16], [y, y], color="black", linewidth=1.4, linestyle=(0, (5, 3)))
        text = f"{picture.device_name}:\n{format_bytes(picture.device_memory)}"
        above = y + 34 < height - 26
        axes.text(16, y + (5 if above else -5), text, fontsize=9, va="bottom" if above else "top", color="black")


def _table(axes, rows, colors, columns, y):
    for row in rows:
        weight = "normal" if row[0] in colors else "bold"
        if row[0] in colors:
            axes.add_patch(Rectangle((16, y - 6), 12, 12, facecolor=colors[row[0]]))
        axes.text(34, y, row[0], fontsize=9, va="center", color=_TEXT, fontweight=weight)
        for text, x in zip(row[1:], columns):
            axes.text(x + 34, y, text, fontsize=9, ha="right", va="center", color=_TEXT, fontweight=weight)
        y -= 19
