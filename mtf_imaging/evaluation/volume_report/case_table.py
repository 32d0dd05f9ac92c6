"""The report's table with one row per case."""

from mtf_imaging.data.description.description import ANY_RULES, LITS, LITS_RULES, Description
from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.report.tables import Groups, left_edges, number_cell, sortable_table
from mtf_imaging.evaluation.volume_scores.case import CaseScore
from mtf_imaging.evaluation.volume_scores.measures import MEASURES, TITLES
from mtf_imaging.evaluation.volume_scores.metrics_files import case_values, column_names, lesion_columns
from mtf_imaging.evaluation.volume_scores.overlap import Overlap

# The measures by which cases can be sorted, in ascending order; the first one gives the initial order.
_SORTED_BY = {LITS_RULES: ("lesion_dice", "liver_dice"), ANY_RULES: ("mean_dice",)}
_COUNTS = {
    "true_positives": ("found", "reference lesions detected at an intersection over union above 0.5"),
    "false_negatives": ("missed", "reference lesions not detected at an intersection over union above 0.5"),
    "false_positives": ("false", "predicted lesions that do not detect a reference lesion"),
}
_LARGEST = ("mm", "diameter of a sphere with the volume of the largest reference lesion")
_BURDEN = {
    "burden": ("pred.", "lesion voxels / liver voxels of the prediction"),
    "reference_burden": ("ref.", "lesion voxels / liver voxels of the reference"),
}


def case_rows(scores: list[CaseScore], metrics: dict, description: Description = LITS) -> list[dict]:
    """Returns each case's values by column: the columns of `metrics.csv` and the size of the largest lesion."""
    rows = []
    for case in scores:
        row = case_values(case, metrics["cases"][case.key], description)
        for mask, column in lesion_columns(description).items():
            sizes = [lesion.diameter for lesion in case.lesions_by_mask[mask] if lesion.overlap.reference]
            row[f"{column}_largest_mm"] = max(sizes, default=None)
        rows.append(row)
    return rows


def worst_first(rows: list[dict], description: Description = LITS) -> list[int]:
    """Returns the case numbers in ascending order of lesion Dice, then liver Dice; for any labels, of mean Dice."""
    keys = _SORTED_BY[description.rules]
    return sorted(range(len(rows)), key=lambda n: [rows[n][key] for key in keys])


def case_table(scores: list[CaseScore], rows: list[dict], description: Description = LITS) -> Markup:
    """Returns the table with one row per case, the worst case first; `report.js` changes the order."""
    groups = _groups(description)
    sorted_by = _SORTED_BY[description.rules][0]
    edges = left_edges(groups)
    masks = {f"{column}_{name}": mask for mask, column in column_names(description).items() for name in TITLES}
    body = []
    for number in worst_first(rows, description):
        values = rows[number]
        link = tag("a", values["case"], href=f"#c{number + 1}")
        cells = [tag("th", link, scope="row", data_value=number)]
        for key in list(edges)[1:]:
            why = _why_undefined(key, masks.get(key), scores[number].overlaps)
            cells.append(number_cell(values[key], key, why, data_key=key, class_=edges[key]))
        body.append(tag("tr", *cells, data_case=values["case"]))
    return sortable_table(groups, body, sorted_by)


def _groups(description: Description) -> Groups:
    """Returns the columns: for LiTS, those of lesions before those of livers."""
    is_lits, measures, columns = description.rules == LITS_RULES, MEASURES[description.rules], column_names(description)
    if is_lits:
        columns = dict(reversed(columns.items()))
    dice = {} if is_lits else {"mean_dice": ("mean", "mean Dice over the masks")}
    dice |= {f"{column}_dice": (mask, TITLES["dice"][1]) for mask, column in columns.items()}
    groups = [("", {"case": ("case", "links to the pictures of the case")}), ("Dice", dice)]
    for mask, column in lesion_columns(description).items():
        counts = {f"{column}_{name}": title for name, title in _COUNTS.items()}
        groups.append((f"{mask}: lesions, IoU > 0.5", counts | {f"{column}_largest_mm": _LARGEST}))
    if is_lits:
        groups.append(("burden", _BURDEN))
    units = "distances in mm" if is_lits else "distances in mm, volumes in mL"
    for mask, column in columns.items():
        groups.append((f"{mask}, {units}", {f"{column}_{name}": TITLES[name] for name in measures[1:]}))
    return groups


def _why_undefined(key: str, mask: str | None, overlaps: dict[str, Overlap]) -> str:
    if key.endswith("largest_mm"):
        return "undefined: the reference has no lesion"
    if mask is None:
        return "undefined: no liver in the reference or in the prediction"
    empty = [who for who in ("reference", "prediction") if not getattr(overlaps[mask], who)]
    return f"undefined: no {mask} in the {' and the '.join(empty)}"
