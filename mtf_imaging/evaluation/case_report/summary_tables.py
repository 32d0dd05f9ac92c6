"""The report's summary tables: all values of `metrics.json` except the scores of single cases."""

from mtf_imaging.data.description.description import LITS, LITS_RULES
from mtf_imaging.evaluation.report.cells import metric_cell, shown, titled_table
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.scoring.measures import DISTANCES, MEASURES, TITLES
from mtf_imaging.evaluation.scoring.official import OFFICIAL_MEASURES
from mtf_imaging.evaluation.scoring.summary import IOUS

_OFFICIAL_BURDEN = {"RMSE_Tumorburden": "root mean square error", "MAXERROR_Tumorburden": "largest signed error"}
_OFFICIAL_NAMES = {
    "dice_per_case": ("Dice per case", "mean Dice of whole masks over cases"),
    "dice_global": ("Dice global", "Dice of all cases combined"),
    "jaccard": ("Jaccard", "shared voxels / union"),
    "rvd": ("RVD", "relative volume difference, (reference - prediction) / prediction"),
    "msd": ("MSD (mm)", "maximum symmetric surface distance"),
}
_UNDIVIDED = "undefined: the denominator is 0"


def overview(metrics: dict) -> Markup:
    """Returns the headline figures: the official scores, with detection at the challenge's IoU threshold first."""
    figures = (
        ("lesion_dice_per_case", "Lesion Dice", "per case"),
        ("lesion_dice_global", "Lesion Dice", "global"),
        ("liver_dice_per_case", "Liver Dice", "per case"),
        ("lesion_recall", "Lesion recall", "at IoU > 0.5"),
        ("lesion_precision", "Lesion precision", "at IoU > 0.5"),
        ("lesion_recall_greater_zero", "Lesion recall", "at IoU > 0"),
        ("lesion_precision_greater_zero", "Lesion precision", "at IoU > 0"),
    )
    return join(
        *(
            tag("div", tag("b", shown(metrics["official"][key])), tag("span", name), tag("small", what))
            for key, name, what in figures
        )
    )


def official(metrics: dict) -> Markup:
    """Returns the tables of the official scores."""
    scores = metrics["official"]

    def row(names, title, what=None):
        cells = (metric_cell(scores[name], f"official.{name}", _UNDIVIDED) for name in names)
        return tag("tr", tag("th", title, title=what, scope="row"), *cells)

    detection = [
        row([f"lesion_{measure}{suffix}" for measure in ("precision", "recall")], title)
        for title, suffix in (("IoU > 0.5", ""), ("IoU > 0", "_greater_zero"))
    ]
    measures = [row([f"{mask}_{name}" for mask in LITS.masks], *_official_name(name)) for name in OFFICIAL_MEASURES]
    burden = [row([name], title) for name, title in _OFFICIAL_BURDEN.items()]
    return join(
        titled_table("Lesion detection", ("", "precision", "recall"), detection),
        titled_table("Overlap and surfaces", ("", "liver", "lesion"), measures),
        titled_table("Tumor burden", (), burden),
    )


def our_measures(metrics: dict) -> Markup:
    """Returns the tables of our own measures."""
    detection = detection_table("Detection of single lesions", metrics["detection"], "detection")
    return join(_overlap_table(metrics), detection, _burden_table(metrics))


def _official_name(name: str) -> tuple[str, str]:
    """Returns the title and explanation of an official measure."""
    if name in _OFFICIAL_NAMES:
        return _OFFICIAL_NAMES[name]
    title, what = TITLES[name]
    return title + (" (mm)" if name in DISTANCES else ""), what


def _overlap_table(metrics: dict) -> Markup:
    """Returns the table of means for livers, for each case's lesions as one mask, and for detected lesions."""
    columns = {name: metrics[name] for name in ("liver", "lesion", "detected_lesions")}
    rows = []
    for measure in ("dice_per_case", "dice_global", *MEASURES[LITS_RULES]):
        name, what = TITLES[measure]
        unit = " (mm)" if measure in DISTANCES else ""
        head = tag("th", name, unit, title=what, scope="row")
        means = (
            metric_cell(column[measure], f"{part}.{measure}", "undefined for all cases or lesions")
            if measure in column
            else tag("td")
            for part, column in columns.items()
        )
        rows.append(tag("tr", head, *means, _undefined_counts(columns, measure)))
    count = columns["detected_lesions"]["count"]
    names = ("", "liver", "lesion", f"detected lesions ({count})", "undefined")
    return titled_table("Overlap and surfaces", names, rows)


def detection_table(title: str, scores_by_iou: dict, prefix: str) -> Markup:
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
        for size, part in {"all": scores, **scores["by_size"]}.items():
            head = f"IoU > {limit:g}" if size == "all" else size
            path = f"{prefix}.{iou}" if size == "all" else f"{prefix}.{iou}.by_size.{size}"
            cells = (metric_cell(part[key], f"{path}.{key}", _UNDIVIDED) for key in keys)
            rows.append(tag("tr", tag("th", head, scope="row"), *cells, class_="part" if size != "all" else None))
    return titled_table(title, ("", "precision", "recall", "F1", "found", "false", "missed"), rows)


def _burden_table(metrics: dict) -> Markup:
    """Returns the table of tumor burden errors."""
    why = "undefined: no case has a liver in both the reference and the prediction"
    names = {"rmse": "root mean square error", "max_error": "largest error", "undefined": "omitted cases"}
    rows = [
        tag("tr", tag("th", name, scope="row"), metric_cell(metrics["tumor_burden"][key], f"tumor_burden.{key}", why))
        for key, name in names.items()
    ]
    return titled_table("Tumor burden", (), rows)


def _undefined_counts(columns, measure):
    """Returns a cell with the number of undefined values in each column."""
    counts = ((part, column["undefined"].get(measure, 0)) for part, column in columns.items())
    texts = [
        tag("span", f"{part.replace('_', ' ')} {count}", data_metric=f"{part}.undefined.{measure}", data_value=count)
        for part, count in counts
        if count
    ]
    return tag("td", join(*(join(", " if n else "", text) for n, text in enumerate(texts))), class_="undefined")
