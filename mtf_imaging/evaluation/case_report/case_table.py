"""The report's table with one row per case."""

from mtf_imaging.data.description.description import ANY_RULES, LITS, LITS_RULES, Description
from mtf_imaging.evaluation.report.cells import number_cell
from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.report.sortable import Groups, left_edges, sortable_table
from mtf_imaging.evaluation.scoring.case import CaseScore
from mtf_imaging.evaluation.scoring.measures import MEASURES, TITLES
from mtf_imaging.evaluation.scoring.metrics import case_values, column_names
from mtf_imaging.evaluation.scoring.overlap import Overlap

# The measures by which cases can be sorted, in ascending order; the first one gives the initial order.
_SORTED_BY = {LITS_RULES: ("lesion_dice", "liver_dice"), ANY_RULES: ("mean_dice",)}
_COUNTS = {
    "true_positives": ("found", "reference lesions detected at an intersection over union above 0.5"),
    "false_negatives": ("missed", "reference lesions not detected at an intersection over union above 0.5"),
    "false_positives": ("false", "predicted lesions that do not detect a reference lesion"),
}


def case_rows(scores: list[CaseScore], metrics: dict, description: Description = LITS) -> list[dict]:
    """Returns each case's values by column: the columns of `metrics.csv` and the size of the largest lesion."""
    prefixes = _lesion_prefixes(description)
    rows = []
    for case in scores:
        row = case_values(case, metrics["cases"][case.key], description)
        for mask, lesions in case.lesions_by_mask.items():
            sizes = [lesion.diameter for lesion in lesions if lesion.overlap.reference]
            row[_largest_key(prefixes[mask])] = max(sizes, default=None)
        rows.append(row)
    return rows


def worst_first(rows: list[dict], description: Description = LITS) -> list[int]:
    """Returns the case numbers in ascending order of lesion Dice, then liver Dice; for any labels, of mean Dice."""
    keys = _SORTED_BY[description.rules]
    return sorted(range(len(rows)), key=lambda n: [rows[n][key] for key in keys])


def case_table(scores: list[CaseScore], rows: list[dict], description: Description = LITS) -> Markup:
    """Returns the table with one row per case, the worst case first; `report.js` changes the order."""
    groups = _lits_groups() if description.rules == LITS_RULES else _mask_groups(description)
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


def _lits_groups() -> Groups:
    measures = MEASURES[LITS_RULES][1:]
    return [
        ("", {"case": ("case", "links to the pictures of the case")}),
        ("Dice", {"lesion_dice": ("lesion", TITLES["dice"][1]), "liver_dice": ("liver", TITLES["dice"][1])}),
        ("lesions, IoU > 0.5", {f"lesions_{name}": column for name, column in _COUNTS.items()}),
        ("largest", {"largest_mm": _LARGEST}),
        (
            "burden",
            {
                "burden": ("pred.", "lesion voxels / liver voxels of the prediction"),
                "reference_burden": ("ref.", "lesion voxels / liver voxels of the reference"),
            },
        ),
        *(
            (f"{mask}, distances in mm", {f"{mask}_{name}": TITLES[name] for name in measures})
            for mask in ("lesion", "liver")
        ),
    ]


def _mask_groups(description: Description) -> Groups:
    columns = column_names(description)
    dice = {f"{column}_dice": (mask, TITLES["dice"][1]) for mask, column in columns.items()}
    groups = [
        ("", {"case": ("case", "links to the pictures of the case")}),
        ("Dice", {"mean_dice": ("mean", "mean Dice over the masks"), **dice}),
    ]
    for mask, column in columns.items():
        if mask in description.lesions:
            counts = {f"{column}_{name}": title for name, title in _COUNTS.items()}
            groups.append((f"{mask}: lesions, IoU > 0.5", counts | {_largest_key(f"{column}_"): _LARGEST}))
    for mask, column in columns.items():
        values = {f"{column}_{name}": TITLES[name] for name in MEASURES[ANY_RULES][1:]}
        groups.append((f"{mask}, distances in mm, volumes in mL", values))
    return groups


_LARGEST = ("mm", "diameter of a sphere with the volume of the largest reference lesion")


def _lesion_prefixes(description: Description) -> dict[str, str]:
    """Returns the column prefixes for the lesions of a mask."""
    if description.rules == LITS_RULES:
        return {"lesion": ""}
    columns = column_names(description)
    return {mask: f"{columns[mask]}_" for mask in description.lesions}


def _largest_key(prefix: str) -> str:
    return f"{prefix}largest_mm"


def _why_undefined(key: str, mask: str | None, overlaps: dict[str, Overlap]) -> str:
    if key.endswith("largest_mm"):
        return "undefined: the reference has no lesion"
    if mask is None:
        return "undefined: no liver in the reference or in the prediction"
    empty = [who for who in ("reference", "prediction") if not getattr(overlaps[mask], who)]
    return f"undefined: no {mask} in the {' and the '.join(empty)}"
