"""The detection report as one HTML page, in the same frame as the reports of volumes and photos."""

from collections.abc import Mapping
from typing import Any

from mtf_imaging.evaluation.report.distribution import Dot, distribution
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.report.shell import checkbox, fill, image_pages_style, package_text, page_html
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.report import tables as object_tables
from mtf_imaging.kinds.objects.report.curve_plots import curve_legend, precision_recall
from mtf_imaging.kinds.objects.report.layers import ObjectLayers
from mtf_imaging.kinds.objects.report.pictures import object_section
from mtf_imaging.kinds.objects.scoring.coco import CURVES
from mtf_imaging.kinds.objects.scoring.scores import ObjectScores, object_metrics, worst_first
from mtf_imaging.plain_text import counted

WORST, BEST = 30, 10  # images with pictures
_MAX_OPEN = 12  # if there are more category curves, they are folded away


def pictured(scores: ObjectScores) -> list[int]:
    """Returns the numbers of the images that get pictures: those with the lowest and highest F1."""
    order = [number for number in worst_first(scores.images) if scores.images[number].f1 is not None]
    without = [number for number in range(len(scores.images)) if scores.images[number].f1 is None]
    if len(order) <= WORST + BEST:
        return order + without[: WORST + BEST - len(order)]
    return order[:WORST] + order[-BEST:]


def object_report_html(
    scores: ObjectScores,
    layers: Mapping[str, ObjectLayers],
    description: ObjectDescription,
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """Returns the text of the page, which `shell.html` frames.

    Args:
      scores: the scores of one or more images.
      layers: the pictures of some of these images by key.
      description: the categories.
      provenance: the provenance of the scores, see `Provenance.as_json`; None for none.
    """
    metrics, kinds, images = object_metrics(scores), [*scores.by_kind], scores.images
    dots = [Dot(one.key, one.f1, f"#c{n}") for n, one in enumerate(images, start=1) if one.f1 is not None]
    plot = distribution(dots, "mean", "F1", "image") if dots else tag("p", "No objects and no detections.")
    sections = (object_section(n + 1, images[n], layers.get(images[n].key)) for n in worst_first(images))
    main = fill(
        "report.html",
        __package__,
        overview=object_tables.object_overview(metrics, kinds),
        measures=object_tables.measure_table(metrics, kinds),
        categories=join(*(object_tables.category_table(metrics, kind) for kind in kinds)),
        legend=curve_legend(CURVES),
        curves=join(*(_mean_plot(scores, kind) for kind in kinds)),
        category_curves=_category_plots(scores, kinds, description),
        by_image=tag("figure", plot, class_="half"),
        counted=_counted_text(scores),
        kind=kinds[-1],
        images=object_tables.image_table(images),
        shown=_shown_text(len(images), len(layers)),
        masks=checkbox("mask", "masks") if scores.masks is not None else "",
        boxes=join(
            *(checkbox(f"category{n}", object_tables.swatch(n), name) for n, name in enumerate(description.names))
        ),
        pictures=join(*sections),
    )
    count = counted(len(images), "image")
    shared, own = image_pages_style(), package_text("report.css", __package__)
    style = f"{shared}{own}{_category_style(len(description.names))}"
    title = "Detection report"
    frame = {"count": count, "heading": title, "lead": f"{count}.", "style": style, "title": title}
    return page_html(**frame, main=main, provenance=provenance)


def _mean_plot(scores: ObjectScores, kind: str) -> Markup:
    """Returns the plot of means over all categories."""
    curves = {name: by_category[""] for name, by_category in scores.by_kind[kind].curves.items() if "" in by_category}
    if not curves:
        return tag("p", "There are no objects.", class_="note")
    return tag("figure", precision_recall(curves, f"{kind}, mean of the categories"), class_="half")


def _category_plots(scores: ObjectScores, kinds: list[str], description: ObjectDescription) -> Markup:
    """Returns a plot for each category with objects, folded away if there are many."""
    figures = []
    for name in description.names:
        for kind in kinds:
            curves = {curve: values[name] for curve, values in scores.by_kind[kind].curves.items() if name in values}
            if curves:
                figures.append(tag("figure", precision_recall(curves, f"{name} ({kind})"), class_="half"))
    plots_of_all = tag("div", *figures, class_="plots many")
    return tag("details", tag("summary", "Categories"), plots_of_all, open=len(figures) <= _MAX_OPEN or None)


def _category_style(number: int) -> str:
    """Returns the CSS rules that hide the shapes of unchecked categories."""
    return "".join(f".hide-category{n} .shapes .category{n} {{ display: none; }}\n" for n in range(number))


def _counted_text(scores: ObjectScores) -> str:
    """Returns the sentences about the minimum score of detections that count."""
    if scores.threshold is None:
        why = "No detection matches an object, so no score maximizes F1."
        return f"{why} In this and the following parts, all detections count."
    text = f"detections count from a score of {scores.threshold:.3f}, which maximizes F1 over all images."
    return f"In this and the following parts, {text}"


def _shown_text(count: int, shown: int) -> str:
    """Returns the sentence about images without pictures, or "" if there are none."""
    if shown >= count:
        return ""
    return f"Only {counted(shown, 'image')}, with the lowest and the highest F1, have pictures. "
