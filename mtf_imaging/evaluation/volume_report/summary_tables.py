"""The report's summary tables: all values of `metrics.json` except the scores of single cases."""

from collections.abc import Mapping, Sequence
from typing import Any

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.evaluation.report.colors import mask_colors
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.report.tables import headlines, metric_cell, titled_table
from mtf_imaging.evaluation.volume_scores.measures import MEASURES, TITLES, unit_text
from mtf_imaging.evaluation.volume_scores.official import OFFICIAL_MEASURES
from mtf_imaging.evaluation.volume_scores.summary import IOUS

_OFFICIAL_BURDEN = {"RMSE_Tumorburden": "root mean square error", "MAXERROR_Tumorburden": "largest signed error"}
_OFFICIAL_TITLES = TITLES | {
    "dice_per_case": ("Dice per case", "mean Dice of whole masks over cases"),
    "jaccard": ("Jaccard", "shared voxels / union"),
    "rvd": ("RVD", "relative volume difference, (reference - prediction) / prediction"),
    "msd": ("MSD", "maximum symmetric surface distance"),
}
_BURDEN = {"rmse": "root mean square error", "max_error": "largest error", "undefined": "omitted cases"}
_UNDIVIDED = "undefined: the denominator is 0"


def overview(metrics: Mapping[str, Any], description: Description) -> Markup:
    """Returns the headline figures.

    For LiTS they are the official scores, with detection at the challenge's IoU threshold first. For any labels they
    are the mean Dice over cases, for all masks and for each mask.
    """
    if description.rules != LITS_RULES:
        figures = {"all masks": metrics["mean"], **{mask: metrics[mask] for mask in description.masks}}
        return headlines((values["dice_per_case"], name, "Dice per case") for name, values in figures.items())
    official = (
        ("lesion_dice_per_case", "Lesion Dice", "per case"),
        ("lesion_dice_global", "Lesion Dice", "global"),
        ("liver_dice_per_case", "Liver Dice", "per case"),
        ("lesion_recall", "Lesion recall", "at IoU > 0.5"),
        ("lesion_precision", "Lesion precision", "at IoU > 0.5"),
        ("lesion_recall_greater_zero", "Lesion recall", "at IoU > 0"),
        ("lesion_precision_greater_zero", "Lesion precision", "at IoU > 0"),
    )
    return headlines((metrics["official"][key], name, what) for key, name, what in official)


def official_tables(metrics: Mapping[str, Any]) -> Markup:
    """Returns the tables of the official scores."""
    scores = metrics["official"]

    def row(names: Sequence[str], title: str, what: str | None = None) -> Markup:
        cells = (metric_cell(scores[name], f"official.{name}", _UNDIVIDED) for name in names)
        return tag("tr", tag("th", title, title=what, scope="row"), *cells)

    detection = [
        row([f"lesion_{measure}{suffix}" for measure in ("precision", "recall")], title)
        for title, suffix in (("IoU > 0.5", ""), ("IoU > 0", "_greater_zero"))
    ]
    measures = []
    for name in OFFICIAL_MEASURES:
        title, what = _OFFICIAL_TITLES[name]
        measures.append(row([f"{mask}_{name}" for mask in LITS.masks], title + unit_text(name), what))
    return join(
        titled_table("Lesion detection", ("", "precision", "recall"), detection),
        titled_table("Overlap and surfaces", ("", "liver", "lesion"), measures),
        titled_table("Tumor burden", (), [row([name], title) for name, title in _OFFICIAL_BURDEN.items()]),
    )


def measure_tables(metrics: Mapping[str, Any], description: Description) -> Markup:
    """Returns the tables of our own measures: the masks, their detected lesions, and the detection of lesions."""
    is_lits, measures = description.rules == LITS_RULES, MEASURES[description.rules]
    colors = mask_colors(description)
    names = ("dice_per_case", "dice_global", *measures[1:])
    rows = [] if is_lits else [_row("mean", "mean of the masks", metrics["mean"], names)]
    for mask in description.masks:
        swatch = tag("span", style=f"background:{colors[mask]}", class_="swatch color")
        rows.append(_row(mask, join(swatch, mask), metrics[mask], names))
    tables = [titled_table("Overlap and surfaces", ("mask", *map(_head, names), "undefined"), rows)]
    rows, detection = [], []
    for mask in description.lesions:
        # LiTS has one mask of lesions, whose scores `metrics.json` has at its top level.
        scores, path, title = (metrics, "", "") if is_lits else (metrics[mask], f"{mask}.", f"{mask}: ")
        found = scores["detected_lesions"]
        rows.append(_row(f"{path}detected_lesions", f"{title}detected lesions ({found['count']})", found, measures))
        detection.append(_detection_table(f"{title}single lesions", scores["detection"], f"{path}detection"))
    if rows:
        tables.append(titled_table("Detected lesions", ("mask", *map(_head, measures), "undefined"), rows))
    tables += detection
    if is_lits:
        why = "undefined: no case has a liver in both the reference and the prediction"
        cells = {key: metric_cell(metrics["tumor_burden"][key], f"tumor_burden.{key}", why) for key in _BURDEN}
        rows = [tag("tr", tag("th", title, scope="row"), cells[key]) for key, title in _BURDEN.items()]
        tables.append(titled_table("Tumor burden", (), rows))
    return join(*tables)


def _row(path: str, title: str, means: Mapping[str, Any], names: Sequence[str]) -> Markup:
    """Returns the row of a mask; a measure that is not in `means` leaves an empty cell."""
    why = "undefined for all cases or lesions"
    cells = (metric_cell(means[name], f"{path}.{name}", why) if name in means else tag("td") for name in names)
    undefined = [
        tag("span", f"{TITLES[name][0]} {count}", data_metric=f"{path}.undefined.{name}", data_value=count)
        for name, count in means.get("undefined", {}).items()
        if count
    ]
    texts = (join(", " if number else "", text) for number, text in enumerate(undefined))
    return tag("tr", tag("th", title, scope="row"), *cells, tag("td", *texts, class_="undefined"))


def _head(name: str) -> Markup:
    title, what = TITLES[name]
    return tag("span", title + unit_text(name), title=what)


def _detection_table(title: str, scores_by_iou: Mapping[str, Any], prefix: str) -> Markup:
    """Returns the table of lesion detection, for all lesions and by size.

    Args:
      title: the title of the table.
      scores_by_iou: the entry "detection" of `metrics.json`.
      prefix: its path in `metrics.json`.
    """
    keys = ("precision", "recall", "f1", "true_positives", "false_positives", "false_negatives")
    rows = []
    for iou, limit in IOUS.items():
        scores = scores_by_iou[iou]
        parts = {(f"IoU > {limit:g}", f"{prefix}.{iou}", None): scores}
        parts |= {(size, f"{prefix}.{iou}.by_size.{size}", "part"): part for size, part in scores["by_size"].items()}
        for (head, path, css_class), part in parts.items():
            cells = (metric_cell(part[key], f"{path}.{key}", _UNDIVIDED) for key in keys)
            rows.append(tag("tr", tag("th", head, scope="row"), *cells, class_=css_class))
    return titled_table(title, ("", "precision", "recall", "F1", "found", "false", "missed"), rows)
