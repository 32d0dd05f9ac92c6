"""Draws the results: the time and memory of each contender relative to the reference."""

from pathlib import Path

from benchmarks.partition import table
from benchmarks.partition.contender import REFERENCE

_MEASURES = (("ratio", "step, x tf"), ("memory_ratio", "peak memory, x tf"))


def draw(result: dict, path: Path) -> None:
    """Writes a PNG file with one row of panels for each title."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {
        title: [(name, row) for name, row in rows if "ratio" in row and row["kind"] != REFERENCE]
        for title, rows in table.groups(result).items()
    }
    shown = {title: rows for title, rows in shown.items() if rows}
    if not shown:
        return
    sizes = [1 + len(rows) for rows in shown.values()]
    figure, axes = pyplot.subplots(
        len(sizes), 2, figsize=(10, 0.8 * len(sizes) + 0.3 * sum(sizes)), height_ratios=sizes, squeeze=False
    )
    for (title, rows), panels in zip(shown.items(), axes):
        for (key, label), panel in zip(_MEASURES, panels):
            _bars(panel, rows, key, label)
        panels[0].set_title(title, loc="left", fontsize="medium")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bars(panel, rows, key, label):
    rows = [(name, row) for name, row in rows if key in row]
    names, values = [name for name, _ in rows], [row[key] for _, row in rows]
    errors, ends = None, values
    if key == "ratio":
        lows, ends = zip(*(row["ratio_interval"] for _, row in rows))
        # With few rounds, an interval may not contain the ratio itself.
        errors = [
            [max(0, v - low) for v, low in zip(values, lows)],
            [max(0, high - v) for v, high in zip(values, ends)],
        ]
    bars = panel.barh(names, values, xerr=errors, color="tab:blue", alpha=0.7)
    panel.bar_label(bars, [f" {value:.2f}" for value in values], padding=3, fontsize="small")
    panel.axvline(1, color="black", linewidth=0.8)
    panel.set_xlim(0, 1.25 * max([1.0, *ends]))
    panel.invert_yaxis()
    panel.set_xlabel(label, fontsize="small")
    panel.tick_params(labelsize="small")
