"""Draws the results: the time and memory of each contender relative to plain TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.partition import table
from benchmarks.partition.contender import REFERENCE, Contender
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.figures import Figure, FigureCanvasAgg

_NETWORKS = {"N1": "U-Net without norms", "N2": "U-Net with norms and dropout"}
_WORDS = {
    "placement": "{mesh}, one device each",
    "nohalo": "{mesh} without halos (wrong results)",
    "collective": "{mesh}, in {processors} processes",
    "upstream": "{mesh}, mesh_tensorflow",
    "torch": "PyTorch, not split",
    "jax": "{mesh}, JAX",
}


@dataclasses.dataclass(frozen=True)
class Bar:
    """One contender, relative to plain TensorFlow.

    Attributes:
      contender: its name on the command line, such as "stacked:2x2", preceded by its volume if a comparison has
        several.
      time: ratio of the step times.
      interval: ends of the 95% interval of this ratio.
      memory: ratio of the peak memories; None if it was not measured.
    """

    contender: str
    time: float
    interval: tuple[float, float]
    memory: float | None


def draw(result: dict, path: Path) -> None:
    """Writes a PNG file with one row of panels for each title; no file if only the reference has results."""
    bars = {
        title: [
            Bar(name, row["ratio"], tuple(row["ratio_interval"]), row.get("memory_ratio"))
            for name, row in rows
            if "ratio" in row and row["kind"] != REFERENCE
        ]
        for title, rows in table.groups(result).items()
    }
    draw_bars({title: rows for title, rows in bars.items() if rows}, path)


def draw_bars(bars: Mapping[str, Sequence[Bar]], path: Path) -> None:
    """Writes a PNG file with one row of panels for each table title; no file without bars."""
    if not bars:
        return
    sizes = [1 + len(rows) for rows in bars.values()]
    height = 0.8 * len(sizes) + 0.3 * sum(sizes)
    figure = Figure(figsize=(10, height), dpi=120, layout="constrained")
    axes = figure.subplots(len(sizes), 2, height_ratios=sizes, squeeze=False, sharey="row")
    for (title, rows), (time, memory) in zip(bars.items(), axes):
        labels = [describe(bar.contender) for bar in rows]
        low = [max(0, bar.time - bar.interval[0]) for bar in rows]  # with few rounds, the interval may exclude
        high = [max(0, bar.interval[1] - bar.time) for bar in rows]  # the ratio itself
        _panel(time, labels, [bar.time for bar in rows], "step time", xerr=[low, high], error_kw={"capsize": 2})
        _panel(memory, labels, [bar.memory or 0 for bar in rows], "peak memory")
        name, _, rest = title.partition(", ")
        time.set_title(f"{_NETWORKS.get(name, name)}: {rest}", loc="left", fontsize="medium")
        time.invert_yaxis()
    figure.supxlabel("plain TensorFlow = 1; shorter is better", fontsize="small")
    with atomic_path(path) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def describe(name: str) -> str:
    """Describes a contender: "stacked:2x2" is "2 x 2", and "stacked:1x1" is "not split"."""
    volume, _, word = name.rpartition(", ")
    contender = Contender.parse(word)
    mesh = " x ".join(map(str, contender.mesh)) if contender.processors > 1 else "not split"
    text = _WORDS.get(contender.kind, "{mesh}").format(mesh=mesh, processors=contender.processors)
    sizes = volume or " x ".join(map(str, contender.sizes))
    return f"{text}, {sizes} voxels" if sizes else text


def _panel(panel, labels, values, measure, **errors):
    bars = panel.barh(labels, values, color="#4a8ec2", **errors)
    # inside the bars, where no lines cross them
    texts = [f"{value:.2f}" if value else "" for value in values]
    for bar, text in zip(bars, texts):
        panel.text(0.02, bar.get_y() + bar.get_height() / 2, text, color="white", va="center", fontsize="small")
    panel.axvline(1, color="black", linewidth=0.8)
    panel.set_xlim(0, 1.1 * max([1.0, *values]))
    panel.set_xlabel(measure, fontsize="small")
    panel.tick_params(labelsize="small")
