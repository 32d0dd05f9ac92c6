"""The report as one HTML page.

The page contains no times or paths, so equal scores produce equal bytes.
"""

from importlib import resources
from pathlib import Path
from string import Template

import mtf_imaging
from mtf_imaging.evaluation.report import case_table, pictures, plots, summary_tables
from mtf_imaging.evaluation.report.markup import join, tag
from mtf_imaging.evaluation.report.overlay import Overlays
from mtf_imaging.evaluation.scoring.case import CaseScore
from mtf_imaging.evaluation.scoring.metrics import metrics_dict
from mtf_imaging.files.atomic import write_bytes


def write_report(output_dir: str | Path, scores: list[CaseScore], overlays: list[Overlays]) -> None:
    """Writes `report.html` to a folder; an existing file is replaced atomically.

    Args:
      output_dir: the folder.
      scores: the scores of one or more cases.
      overlays: the overlays of the same cases.
    """
    write_bytes(Path(output_dir) / "report.html", report_html(scores, overlays).encode())


def report_html(scores: list[CaseScore], overlays: list[Overlays]) -> str:
    """Returns the text of the page: the template `report.html` with its values, style and script.

    Args:
      scores: the scores of one or more cases.
      overlays: the overlays of the same cases.
    """
    metrics = metrics_dict(scores)
    rows = case_table.case_rows(scores, metrics)
    sections = [pictures.case_section(n + 1, scores[n], overlays[n]) for n in case_table.worst_first(rows)]
    histograms = (
        tag("figure", plots.histogram([case.overlaps[mask].dice for case in scores], mask), class_="half")
        for mask in ("liver", "lesion")
    )
    return Template(_package_text("report.html")).substitute(
        version=mtf_imaging.__version__,
        style=_package_text("report.css"),
        script=_package_text("report.js"),
        count=f"{len(scores)} case{'s' * (len(scores) != 1)}",
        overview=summary_tables.overview(metrics),
        official=summary_tables.official(metrics),
        our_measures=summary_tables.our_measures(metrics),
        scatter=plots.scatter(scores),
        legend=plots.legend(),
        histograms=join(*histograms),
        cases=case_table.case_table(scores, rows),
        without_ct=_without_ct(overlays),
        pictures=join(*sections),
    )


def _without_ct(overlays: list[Overlays]) -> str:
    count = sum(any(view.image is None for view in one.views) for one in overlays)
    if not count:
        return ""
    which = "any case" if count == len(overlays) else f"{count} of {len(overlays)} cases"
    return tag("p", f"No CT was found for {which}, so outlines are on plain gray.", class_="note", id="without_ct")


def _package_text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
