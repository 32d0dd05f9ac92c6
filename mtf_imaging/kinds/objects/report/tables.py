"""The tables in the object report: COCO's twelve measures, the categories, and a row per image."""

from collections.abc import Mapping, Sequence
from typing import Any

from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.report.tables import (
    Groups,
    headlines,
    left_edges,
    metric_cell,
    number_cell,
    shown,
    sortable_table,
    titled_table,
)
from mtf_imaging.kinds.objects.pictures import category_color
from mtf_imaging.kinds.objects.scoring.coco import MEASURES
from mtf_imaging.kinds.objects.scoring.scores import COUNTS, ObjectScore, worst_first

_SMALL, _MEDIUM, _LARGE = "below 32 x 32 pixels", "from 32 x 32 to 96 x 96 pixels", "above 96 x 96 pixels"
TITLES = {
    "ap": ("AP", "average precision, mean over IoU thresholds from 0.5 to 0.95"),
    "ap50": ("AP50", "average precision at IoU 0.5"),
    "ap75": ("AP75", "average precision at IoU 0.75"),
    "ap_small": ("AP small", f"AP of objects {_SMALL}"),
    "ap_medium": ("AP medium", f"AP of objects {_MEDIUM}"),
    "ap_large": ("AP large", f"AP of objects {_LARGE}"),
    "ar1": ("AR1", "average recall with one detection per image and category"),
    "ar10": ("AR10", "average recall with 10 detections per image and category"),
    "ar100": ("AR100", "average recall with 100 detections per image and category"),
    "ar_small": ("AR small", f"AR100 of objects {_SMALL}"),
    "ar_medium": ("AR medium", f"AR100 of objects {_MEDIUM}"),
    "ar_large": ("AR large", f"AR100 of objects {_LARGE}"),
    "objects": ("objects", "objects without crowd regions"),
    "found": ("found", "detections with an object, IoU at least 0.5"),
    "false": ("wrong", "detections without an object"),
    "missed": ("missed", "objects without a detection"),
    "f1": ("F1", "2 x found / (2 x found + wrong + missed)"),
}
_WHY = "undefined: there are no such objects"


def object_overview(metrics: Mapping[str, Any], kinds: Sequence[str]) -> Markup:
    """Returns the headline figures.

    Args:
      metrics: the contents of `metrics.json`.
      kinds: "boxes", and "masks" if they were scored.
    """
    figures = [
        (metrics[kind][name], TITLES[name][0], f"of {kind}") for kind in kinds for name in ("ap", "ap50", "ap75")
    ]
    figures += [(metrics[kinds[-1]]["ar100"], "AR100", f"of {kinds[-1]}")]
    score = f"score from {shown(metrics['score_threshold'])}"
    if metrics["score_threshold"] is None:
        score += ", no detection matches an object"
    figures += [(metrics["f1"], "F1", score)]
    return headlines(figures)


def measure_table(metrics: Mapping[str, Any], kinds: Sequence[str]) -> Markup:
    """Returns the table of the twelve measures, with a row for boxes and one for masks."""
    rows = []
    for kind in kinds:
        cells = (metric_cell(metrics[kind][name], f"{kind}.{name}", _WHY) for name in MEASURES)
        rows.append(tag("tr", tag("th", kind, scope="row"), *cells))
    return titled_table("All categories", ("", *_heads(MEASURES)), rows)


def category_table(metrics: Mapping[str, Any], kind: str) -> Markup:
    """Returns the table with a row for each category."""
    columns = (*MEASURES, "objects")
    rows = []
    for number, (name, values) in enumerate(metrics[kind]["categories"].items()):
        cells = (metric_cell(values[key], f"{kind}.categories.{name}.{key}", _WHY) for key in columns)
        rows.append(tag("tr", tag("th", swatch(number), name, scope="row"), *cells))
    return titled_table(f"Categories: {kind}", ("category", *_heads(columns)), rows)


def swatch(category: int) -> Markup:
    """Returns a small square in the color of a category."""
    return tag("span", style=f"background:{category_color(category)}", class_="swatch color")


def image_table(scores: Sequence[ObjectScore]) -> Markup:
    """Returns the table with one row per image, the lowest F1 first; `report.js` changes the order."""
    groups: Groups = [
        ("", {"image": ("image", "links to the pictures of the image")}),
        ("IoU at least 0.5", {name: TITLES[name] for name in ("f1", *COUNTS)}),
        ("pixels", {"height": ("height", "in pixels"), "width": ("width", "in pixels")}),
    ]
    edges = left_edges(groups)
    rows = []
    for number in worst_first(scores):
        score = scores[number]
        height, width = score.size
        values = {name: getattr(score, name) for name in ("f1", *COUNTS)} | {"height": height, "width": width}
        cells = [tag("th", tag("a", score.key, href=f"#c{number + 1}"), scope="row", data_value=number)]
        why = "undefined: the image has neither objects nor detections"
        cells += [number_cell(value, key, why, data_key=key, class_=edges[key]) for key, value in values.items()]
        rows.append(tag("tr", *cells, data_case=score.key))
    return sortable_table(groups, rows, "f1")


def _heads(names: Sequence[str]) -> list[Markup]:
    return [tag("span", title, title=what) for title, what in (TITLES[name] for name in names)]
