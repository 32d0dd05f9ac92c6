"""The report's summary tables for any labels, with one row per mask."""

from mtf_imaging.data.description.description import ANY_RULES, Description
from mtf_imaging.evaluation.case_report.summary_tables import detection_table
from mtf_imaging.evaluation.report.cells import metric_cell, shown, titled_table
from mtf_imaging.evaluation.report.colors import mask_colors
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.scoring.measures import DISTANCES, MEASURES, TITLES


def mask_overview(metrics: dict, description: Description) -> Markup:
    """Returns the headline figures: the mean Dice over cases, for all masks and for each mask."""
    figures = {"all masks": metrics["mean"], **{mask: metrics[mask] for mask in description.masks}}
    return join(
        *(
            tag("div", tag("b", shown(values["dice_per_case"])), tag("span", name), tag("small", "Dice per case"))
            for name, values in figures.items()
        )
    )


def mask_tables(metrics: dict, description: Description) -> Markup:
    """Returns the table of all masks, and tables of the lesions in the masks that are marked as lesions."""
    names = ("dice_per_case", "dice_global", *MEASURES[ANY_RULES][1:])
    colors = mask_colors(description)
    rows = [_row("mean", "mean of the masks", metrics["mean"], names)]
    rows += [_row(mask, join(_swatch(colors[mask]), mask), metrics[mask], names) for mask in description.masks]
    tables = [titled_table("Overlap and surfaces", ("mask", *map(_head, names), "undefined"), rows)]
    if description.lesions:
        names = MEASURES[ANY_RULES]
        rows = []
        for mask in description.lesions:
            means = metrics[mask]["detected_lesions"]
            rows.append(_row(f"{mask}.detected_lesions", f"{mask} ({means['count']})", means, names))
        tables.append(titled_table("Detected lesions", ("mask", *map(_head, names), "undefined"), rows))
    for mask in description.lesions:
        tables.append(detection_table(f"{mask}: single lesions", metrics[mask]["detection"], f"{mask}.detection"))
    return join(*tables)


def _row(path: str, title: str, means: dict, names: tuple[str, ...]) -> Markup:
    """Returns the row of a mask; a measure that is not in `means` leaves an empty cell."""
    why = "undefined for all cases or lesions"
    cells = (metric_cell(means[name], f"{path}.{name}", why) if name in means else tag("td") for name in names)
    counts = {name: count for name, count in means.get("undefined", {}).items() if count}
    undefined = [
        tag("span", f"{TITLES[name][0]} {count}", data_metric=f"{path}.undefined.{name}", data_value=count)
        for name, count in counts.items()
    ]
    texts = (join(", " if number else "", text) for number, text in enumerate(undefined))
    return tag("tr", tag("th", title, scope="row"), *cells, tag("td", *texts, class_="undefined"))


def _head(name: str) -> Markup:
    unit = " (mm)" if name in DISTANCES else " (mL)" if name.endswith("_ml") else ""
    title, what = TITLES[name]
    return tag("span", f"{title}{unit}", title=what)


def _swatch(color: str) -> Markup:
    return tag("span", style=f"background:{color}", class_="swatch color")
