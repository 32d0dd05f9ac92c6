"""The table of the report with one row per case."""

from mtf_imaging.evaluation.report.cells import MEASURES, number_cell
from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.scoring.case import CaseScore
from mtf_imaging.evaluation.scoring.metrics import case_values
from mtf_imaging.evaluation.scoring.overlap import Overlap
from mtf_imaging.evaluation.scoring.summary import DISTANCES

_SORTED_BY = "lesion_dice"  # the initial order of the table
_CASE_MEASURES = ("voe", "rvd", *DISTANCES)  # in addition to the Dice columns
_COUNTS = {
    "lesions_true_positives": ("found", "reference lesions detected at an intersection over union above 0.5"),
    "lesions_false_negatives": ("missed", "reference lesions not detected at an intersection over union above 0.5"),
    "lesions_false_positives": ("false", "predicted lesions that do not detect a reference lesion"),
}


def case_rows(scores: list[CaseScore], metrics: dict) -> list[dict]:
    """Returns the values of each case by column: the columns of `metrics.csv` and `largest_mm`."""
    rows = []
    for case in scores:
        sizes = [lesion.diameter for lesion in case.lesions if lesion.overlap.reference]
        rows.append(case_values(case, metrics["cases"][case.key]) | {"largest_mm": max(sizes, default=None)})
    return rows


def worst_first(rows: list[dict]) -> list[int]:
    """Returns the case numbers sorted by lesion Dice, then liver Dice, in ascending order."""
    return sorted(range(len(rows)), key=lambda n: (rows[n]["lesion_dice"], rows[n]["liver_dice"]))


def case_table(scores: list[CaseScore], rows: list[dict]) -> Markup:
    """Returns the table with one row per case, the worst case first; `report.js` changes the order."""
    groups = [
        ("", {"case": ("case", "links to the pictures of the case")}),
        ("Dice", {"lesion_dice": ("lesion", MEASURES["dice"][1]), "liver_dice": ("liver", MEASURES["dice"][1])}),
        ("lesions, IoU > 0.5", _COUNTS),
        ("largest", {"largest_mm": ("mm", "diameter of a sphere with the volume of the largest reference lesion")}),
        (
            "burden",
            {
                "burden": ("pred.", "lesion voxels / liver voxels of the prediction"),
                "reference_burden": ("ref.", "lesion voxels / liver voxels of the reference"),
            },
        ),
        *(
            (f"{mask}, distances in mm", {f"{mask}_{name}": MEASURES[name] for name in _CASE_MEASURES})
            for mask in ("lesion", "liver")
        ),
    ]
    head = tag("tr", *(tag("th", name, colspan=len(columns), scope="colgroup") for name, columns in groups))
    columns = {key: column for _, group in groups for key, column in group.items()}
    starts = {next(iter(group)) for _, group in groups}
    buttons = (
        tag(
            "th",
            tag("button", name, type="button", title=what),
            data_key=key,
            scope="col",
            class_=_edge(key, starts),
            aria_sort="ascending" if key == _SORTED_BY else None,
        )
        for key, (name, what) in columns.items()
    )
    body = []
    for number in worst_first(rows):
        values = rows[number]
        link = tag("a", values["case"], href=f"#c{number + 1}")
        cells = [tag("th", link, scope="row", data_value=number)]
        for key in list(columns)[1:]:
            why = _why_undefined(key, scores[number].overlaps)
            cells.append(number_cell(values[key], key, why, data_key=key, class_=_edge(key, starts)))
        body.append(tag("tr", *cells, data_case=values["case"]))
    parts = tag("thead", head, tag("tr", *buttons)), tag("tbody", *body)
    return tag("table", *parts, id="cases", class_="numbers", data_sorted=_SORTED_BY)


def _edge(key, starts):
    return "edge" if key in starts and key != "case" else None


def _why_undefined(key: str, overlaps: dict[str, Overlap]) -> str:
    mask = key.split("_")[0]
    if key == "largest_mm":
        return "undefined: the reference has no lesion"
    if mask not in overlaps:
        return "undefined: no liver in the reference or in the prediction"
    empty = [who for who in ("reference", "prediction") if not getattr(overlaps[mask], who)]
    return f"undefined: no {mask} in the {' and the '.join(empty)}"
