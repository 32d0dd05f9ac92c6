"""Results as a picture: steps and memory beside the reference's."""

from pathlib import Path

from benchmarks.partition.contender import REFERENCE

_MEASURES = (("ratio", "step, x tf"), ("memory_ratio", "peak memory, x tf"))


def draw(result: dict, path: Path) -> None:
    """Writes a PNG with a row of panels for each comparison."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    comparisons = [c for c in result["comparisons"] if any("ratio" in row for row in c["rows"])]
    if not comparisons:
        return
    sizes = [1 + sum("ratio" in row for row in c["rows"]) for c in comparisons]
    figure, axes = pyplot.subplots(
        len(comparisons), 2, figsize=(10, 0.8 * len(sizes) + 0.3 * sum(sizes)), height_ratios=sizes, squeeze=False
    )
    for comparison, panels in zip(comparisons, axes):
        rows = [row for row in comparison["rows"] if "ratio" in row and row["kind"] != REFERENCE]
        for (key, label), panel in zip(_MEASURES, panels):
            _bars(panel, rows, key, label)
        panels[0].set_title(comparison["title"], loc="left", fontsize="medium")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bars(panel, rows, key, label):
    rows = [row for row in rows if key in row]
    names, values = [row["contender"] for row in rows], [row[key] for row in rows]
    errors, ends = None, values
    if key == "ratio":
        lows, ends = zip(*(row["ratio_interval"] for row in rows))
        errors = [v - low for v, low in zip(values, lows)], [high - v for v, high in zip(values, ends)]
    bars = panel.barh(names, values, xerr=errors, color="tab:blue", alpha=0.7)
    panel.bar_label(bars, [f" {value:.2f}" for value in values], padding=3, fontsize="small")
    panel.axvline(1, color="black", linewidth=0.8)
    panel.set_xlim(0, 1.25 * max([1.0, *ends]))
    panel.invert_yaxis()
    panel.set_xlabel(label, fontsize="small")
    panel.tick_params(labelsize="small")
