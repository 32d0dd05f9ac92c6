"""The volume report as one HTML page.

The page does not contain times or paths, so equal scores produce equal bytes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.evaluation.cleanup.stored_choice import NO_RULES, RulesReport
from mtf_imaging.evaluation.report.colors import mask_classes, mask_colors, mask_style
from mtf_imaging.evaluation.report.distribution import Dot, distribution
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.report.shell import fill, package_text, page_html
from mtf_imaging.evaluation.report.tables import shown, titled_table
from mtf_imaging.evaluation.volume_report import case_table, pictures, plots, summary_tables
from mtf_imaging.evaluation.volume_report.image_planes import shows_ct
from mtf_imaging.evaluation.volume_report.overlay import Overlays
from mtf_imaging.evaluation.volume_scores.case import CaseScore
from mtf_imaging.evaluation.volume_scores.metrics_files import metrics_dict
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.plain_text import counted


def write_report(
    output_dir: str | Path,
    scores: list[CaseScore],
    overlays: list[Overlays],
    description: Description = LITS,
    provenance: Mapping[str, Any] | None = None,
    rules: RulesReport = NO_RULES,
) -> None:
    """Writes `report.html` to a folder; an existing file is replaced atomically.

    Args:
      output_dir: the folder.
      scores: the scores of one or more cases.
      overlays: the overlays of the same cases.
      description: the meaning of the labels and channels, and the scoring rules.
      provenance: the provenance of the scores, see `Provenance.as_json`; None for none.
      rules: the rules that were applied to the predictions, or chosen on them.
    """
    metrics = metrics_dict(scores, description)
    rows = case_table.case_rows(scores, metrics, description)
    order = case_table.worst_first(rows, description)
    sections = [pictures.case_section(n + 1, scores[n], overlays[n], description) for n in order]
    figures = []
    for mask in description.masks:
        dots = [Dot(case.key, case.overlaps[mask].dice, f"#c{n + 1}") for n, case in enumerate(scores)]
        figures.append(tag("figure", distribution(dots, mask), class_="half"))
    count = counted(len(scores), "case")
    parts = {
        "by_case": join(*figures),
        "cases": case_table.case_table(scores, rows, description),
        "without_ct": _without_image(overlays, "CT" if shows_ct(description) else "image"),
        "pictures": join(*sections),
        "overview": summary_tables.overview(metrics, description),
        "measures": summary_tables.measure_tables(metrics, description),
    }
    if description.rules == LITS_RULES:
        template, parts = "report.html", parts | _lits_parts(scores, metrics)
        heading, style = "Liver and lesion segmentation", ""
        lead = f"{count}. The figures below are the official scores of the LiTS challenge."
    else:
        template, parts = "report_any.html", parts | _mask_parts(scores, metrics, description)
        heading, style = "Segmentation report", f"\n{package_text('report_any.css')}{mask_style(description)}"
        lead = f"{count}."
    main = fill(template, __package__, **parts) + _calibration_section(rules) + _rules_section(rules)
    page = page_html(count=count, heading=heading, lead=lead, main=main, style=style, provenance=provenance)
    write_bytes(Path(output_dir) / "report.html", page.encode())


def _lits_parts(scores: list[CaseScore], metrics: dict) -> dict[str, Markup]:
    """Returns the parts of the LiTS page, by name in the template."""
    return {
        "official": summary_tables.official_tables(metrics),
        "scatter": plots.scatter(scores, "lesion"),
        "legend": plots.legend(),
    }


def _mask_parts(scores: list[CaseScore], metrics: dict, description: Description) -> dict[str, Markup | str]:
    """Returns the parts of the page for any labels, by name in the template."""
    legend = tag("figcaption", plots.legend(), class_="legend")
    scatters = (
        tag("figure", tag("b", mask), plots.scatter(scores, mask, f"{mask}: lesion Dice by size"), legend)
        for mask in description.lesions
    )
    gray_values = "windowed from -160 to 240 HU" if shows_ct(description) else "from the 0.5th percentile to the 99.5th"
    return {
        "tolerance": f"{metrics['surface_tolerance_mm']:g}",
        "scatters": join(*scatters),
        "channel": tag("span", description.channels[0]),
        "gray_values": gray_values,
        "boxes": _mask_boxes(description),
    }


def _mask_boxes(description: Description) -> Markup:
    """Returns a checkbox per mask that hides its outlines."""
    colors, classes = mask_colors(description), mask_classes(description)
    boxes = []
    for mask in description.masks:
        line = tag("path", d="M3 8h30", class_=f"reference {classes[mask]}")
        swatch = tag("svg", line, viewBox="0 0 36 16", class_="swatch", data_color=colors[mask])
        box = tag("input", type="checkbox", checked=True, data_hides=classes[mask])
        boxes.append(tag("label", box, swatch, mask))
    return join(*boxes)


def _without_image(overlays: list[Overlays], image: str) -> str:
    count = sum(any(view.image is None for view in one.views) for one in overlays)
    if not count:
        return ""
    which = "any case" if count == len(overlays) else f"{count} of {len(overlays)} cases"
    return tag("p", f"No {image} was found for {which}, so outlines are on plain gray.", class_="note", id="without_ct")


def _calibration_section(rules: RulesReport) -> Markup:
    """Returns the section about the reliability of the probabilities; it is empty without probabilities."""
    own = rules.reliability
    if own is None:
        return Markup("")
    rows = []
    for name in own.bins:
        cells = f"{own.error(name):.2g}", shown(own.expected_volume(name))
        rows.append(tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells)))
    curves = (tag("figure", plots.reliability_curve(own, name), class_="half") for name in own.bins)
    note = (
        "A network is well calibrated if its points lie on the dashed line. The expected calibration error is the mean "
        "distance over all voxels, most of which are background. The expected volume is the sum of the probabilities, "
        "relative to the volume of the mask: below 1, the network is too cautious."
    )
    head = ("mask", "expected calibration error", "expected volume")
    return tag(
        "section",
        tag("h2", "Calibration"),
        titled_table("All voxels of the cases", head, rows),
        tag("div", *curves, class_="plots even"),
        tag("p", note, class_="note"),
        id="calibration",
    )


def _rules_section(rules: RulesReport) -> Markup:
    """Returns the section about the rules; it is empty if no rules were applied or chosen."""
    if not rules.applied and rules.choice is None:
        return Markup("")
    parts = [tag("h2", "Postprocessing")]
    if rules.applied:
        parts.append(tag("p", f"Rules that were applied to the predictions: {', '.join(rules.applied)}."))
    choice = rules.choice
    if choice is not None:
        chosen = ", ".join(map(str, choice.rules)) or "none, because no rule increases the mean Dice"
        parts.append(tag("p", f"Rules chosen on these {choice.num_cases} held-out cases: {chosen}."))
        rows = []
        for name, before in choice.without.items():
            honest = shown(choice.cross_validated and choice.cross_validated[name])
            cells = (f"{before:.3f}", f"{choice.chosen[name]:.3f}", honest)
            rows.append(tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells)))
        head = ("mask", "without rules", "with rules", "cross-validated")
        parts.append(titled_table("Mean Dice of the cases", head, rows))
        note = (
            "All other scores on this page are those without rules. The Dice with rules is optimistic, because the "
            "rules were chosen on the same cases. For the cross-validated Dice, the rules of each part of the cases "
            "were chosen on the other parts."
        )
        parts.append(tag("p", note, class_="note"))
    return join(*parts)
