"""The tables in the photo report: the classes, the confusion matrix, and a row per photo."""

import itertools
import re
from collections.abc import Sequence

from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.report.tables import (
    DASH,
    Groups,
    headlines,
    left_edges,
    metric_cell,
    number_cell,
    sortable_table,
    titled_table,
)
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.scoring.scores import CLASS_MEASURES, MEASURES, PhotoScore, worst_first

TITLES = {
    "mean_iou": ("mean IoU", "mean over the classes of intersection over union"),
    "pixel_accuracy": ("pixel accuracy", "correct pixels / all pixels"),
    "mean_class_accuracy": ("mean class accuracy", "mean over the classes of correct pixels / pixels of the reference"),
    "frequency_weighted_iou": ("frequency-weighted IoU", "mean IoU, weighted by the pixels of the reference"),
    "iou": ("IoU", "correct pixels / pixels of the class in the reference or the prediction"),
    "accuracy": ("accuracy", "correct pixels / pixels of the class in the reference"),
    "boundary_f": ("boundary F", "agreement of the class boundaries, mean over the photos with the class"),
    "pixels": ("pixels", "pixels of the class in the reference"),
    "predicted_pixels": ("predicted pixels", "pixels of the class in the prediction"),
    "photos": ("photos", "photos whose reference has the class"),
}
_RIGHT, _WRONG = "0 114 178", "213 94 0"  # red, green and blue of confusion matrix cells
_STRONGEST = 0.7  # opacity of a cell with all pixels of its class; text stays readable in both color schemes


def photo_overview(metrics: dict) -> Markup:
    """Returns the headline figures: the measures over all classes."""
    scopes = ("over classes", "over pixels", "over classes", "by pixels of classes", "over classes")
    return headlines((metrics[name], TITLES[name][0], what) for name, what in zip(MEASURES, scopes, strict=True))


def class_table(metrics: dict, description: PhotoDescription) -> Markup:
    """Returns the table with a row for the means and a row for each class."""
    names = (*CLASS_MEASURES, "photos")
    heads = (tag("span", title, title=what) for title, what in (TITLES[name] for name in names))
    means = {"iou": "mean_iou", "accuracy": "mean_class_accuracy", "boundary_f": "boundary_f"}
    why = "undefined: no photo has the class"
    cells = (metric_cell(metrics[means[name]], means[name], why) if name in means else tag("td") for name in names)
    rows = [tag("tr", tag("th", "mean", scope="row"), *cells)]
    for label, (name, values) in enumerate(metrics["classes"].items()):
        title = join(swatch(description, label), name)
        cells = (metric_cell(values[key], f"classes.{name}.{key}", why) for key in names)
        rows.append(tag("tr", tag("th", title, scope="row"), *cells))
    return titled_table("All photos combined", ("class", *heads), rows)


def swatch(description: PhotoDescription, label: int) -> Markup:
    """Returns a small square in the color of a class."""
    red, green, blue = description.colors[label]
    return tag("span", style=f"background:rgb({red} {green} {blue})", class_="swatch color")


def confusion_table(metrics: dict, description: PhotoDescription) -> Markup:
    """Returns the confusion matrix: one row per reference class, as percentages of its pixels."""
    names = description.classes
    heads = (tag("span", swatch(description, label), name, class_="turned") for label, name in enumerate(names))
    rows = []
    for reference, counts in enumerate(metrics["confusion"]):
        total = sum(counts)
        cells = (
            _confusion_cell(count, total, names[reference], names[prediction], reference == prediction)
            for prediction, count in enumerate(counts)
        )
        rows.append(tag("tr", tag("th", swatch(description, reference), names[reference], scope="row"), *cells))
    return tag("div", titled_table("Reference by row, prediction by column", ("", *heads), rows), class_="confusion")


def _confusion_cell(count: int, total: int, reference: str, prediction: str, is_right: bool) -> Markup:
    if not total:
        return tag("td", DASH, title=f"undefined: no photo has {reference}", class_="undefined", data_value=count)
    share = count / total
    title = f"{count:,} of {total:,} pixels of {reference} ({100 * share:.2f} %) are predicted as {prediction}"
    color = f"background:rgb({_RIGHT if is_right else _WRONG} / {_STRONGEST * share:.3f})" if count else None
    text = f"{100 * share:.1f}" if count else ""
    return tag("td", text, title=title, style=color, data_value=count)


def photo_table(scores: Sequence[PhotoScore], metrics: dict, description: PhotoDescription) -> Markup:
    """Returns the table with one row per photo, the lowest mean IoU first; `report.js` changes the order."""
    columns = class_columns(description)
    groups: Groups = [
        ("", {"photo": ("photo", "links to the pictures of the photo")}),
        ("all classes", {name: TITLES[name] for name in ("mean_iou", "pixel_accuracy", "boundary_f")}),
        ("pixels", {"height": ("height", "in pixels"), "width": ("width", "in pixels")}),
        ("IoU", {column: (name, TITLES["iou"][1]) for name, column in columns.items()}),
    ]
    edges = left_edges(groups)
    rows = []
    for number in worst_first(scores):
        score = scores[number]
        fields = metrics["photos"][score.key]
        height, width = score.size
        values = {name: fields[name] for name in groups[1][1]} | {"height": height, "width": width}
        values |= {column: fields["classes"].get(name, {}).get("iou") for name, column in columns.items()}
        whys = {column: f"undefined: neither image has {name}" for name, column in columns.items()}
        link = tag("a", score.key, href=f"#c{number + 1}")
        cells = [tag("th", link, scope="row", data_value=number)]
        for key, value in values.items():
            why = whys.get(key, "undefined: no pixel counts")
            cells.append(number_cell(value, key, why, data_key=key, class_=edges[key]))
        rows.append(tag("tr", *cells, data_case=score.key))
    return sortable_table(groups, rows, "mean_iou")


def class_columns(description: PhotoDescription) -> dict[str, str]:
    """Returns the name of each class's IoU in the report's address: letters, digits and underscores.

    >>> from mtf_imaging.kinds.photos.description import PhotoDescription
    >>> class_columns(PhotoDescription(("traffic sign", "traffic-sign"), ((0, 0, 0), (9, 9, 9))))
    {'traffic sign': 'iou_traffic_sign', 'traffic-sign': 'iou_traffic_sign_2'}
    """
    columns: dict[str, str] = {}
    for name in description.classes:
        plain = f"iou_{re.sub(r'[^0-9A-Za-z]', '_', name)}"
        names = (plain if number == 1 else f"{plain}_{number}" for number in itertools.count(1))
        columns[name] = next(column for column in names if column not in columns.values())
    return columns
