"""All cases in a few tables: what `metrics.json` holds besides the cases."""

from mtf_imaging.evaluation.report.cells import MEASURES, number_cell, shown
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.scoring.summary import DISTANCES, IOUS

UNOFFICIAL = Markup('<abbr class="unofficial" title="not a measure of the challenge">*</abbr>')


def overview(metrics: dict) -> Markup:
    """The figures that are quoted, large."""
    detection = metrics["detection"]
    figures = (
        ("liver", "dice_per_case", "Liver Dice", "per case"),
        ("lesion", "dice_per_case", "Lesion Dice", "per case"),
        ("lesion", "dice_global", "Lesion Dice", "global"),
        ("iou_above_0", "recall", "Lesions found", "recall at IoU > 0"),
        ("iou_above_0", "precision", "Findings right", "precision at IoU > 0"),
    )
    return join(
        *(
            tag("div", tag("b", shown({**metrics, **detection}[part][key])), tag("span", name), tag("small", what))
            for part, key, name, what in figures
        )
    )


def summary(metrics: dict) -> Markup:
    """All of the tables."""
    return join(_overlap_table(metrics), _detection_table(metrics), _burden_table(metrics))


def _overlap_table(metrics: dict) -> Markup:
    """Means of all measures, of livers, of lesions as one mask a case, of each detected lesion."""
    columns = {name: metrics[name] for name in ("liver", "lesion", "detected_lesions")}
    rows = []
    for measure, (name, what) in MEASURES.items():
        unit = " (mm)" if measure in DISTANCES else ""
        head = tag("th", name, unit, UNOFFICIAL if measure == "hd95" else "", title=what, scope="row")
        means = (
            _metric(column[measure], f"{part}.{measure}", "undefined for all of them")
            if measure in column
            else tag("td")
            for part, column in columns.items()
        )
        rows.append(tag("tr", head, *means, _left_out(columns, measure)))
    count = columns["detected_lesions"]["count"]
    names = ("", "liver", "lesion", f"detected lesions ({count})", "undefined")
    return _table("Overlap and surfaces", names, rows)


def _detection_table(metrics: dict) -> Markup:
    """Lesions one by one, all of them and by size."""
    keys = ("precision", "recall", "f1", "true_positives", "false_positives", "false_negatives")
    rows = []
    for iou, limit in IOUS.items():
        found = metrics["detection"][iou]
        for size, part in {"all": found, **found["by_size"]}.items():
            head = f"IoU > {limit:g}" if size == "all" else join(size, UNOFFICIAL)
            path = f"detection.{iou}" if size == "all" else f"detection.{iou}.by_size.{size}"
            why = "undefined: nothing to divide by"
            cells = (_metric(part[key], f"{path}.{key}", why) for key in keys)
            rows.append(tag("tr", tag("th", head, scope="row"), *cells, class_="part" if size != "all" else None))
    return _table("Lesions one by one", ("", "precision", "recall", "F1", "found", "false", "missed"), rows)


def _burden_table(metrics: dict) -> Markup:
    """Errors of the tumour burden."""
    why = "undefined: no case has a liver in both"
    names = {"rmse": "root mean square error", "max_error": "largest error", "undefined": "cases left out"}
    rows = [
        tag("tr", tag("th", name, scope="row"), _metric(metrics["tumour_burden"][key], f"tumour_burden.{key}", why))
        for key, name in names.items()
    ]
    return _table("Tumour burden", (), rows)


def _table(title, names, rows):
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    head = tag("thead", head) if names else ""
    return tag("table", tag("caption", title), head, tag("tbody", *rows), class_="numbers")


def _left_out(columns, measure):
    """A cell that says of how many the measure is undefined."""
    counts = ((part, column["undefined"].get(measure, 0)) for part, column in columns.items())
    texts = [
        tag("span", f"{part.replace('_', ' ')} {count}", data_metric=f"{part}.undefined.{measure}", data_value=count)
        for part, count in counts
        if count
    ]
    return tag("td", join(*(join(", " if n else "", text) for n, text in enumerate(texts))), class_="undefined")


def _metric(value, path, why):
    """A number's cell, which says where in `metrics.json` it is."""
    return number_cell(value, path, why, data_metric=path)
