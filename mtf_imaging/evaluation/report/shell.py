"""The shared parts of all reports: the page head with style and script, the header and the footer."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

import mtf_imaging
from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.files.provenance.text import provenance_rows


def page_html(
    *,
    count: str,
    heading: str,
    lead: str,
    main: str,
    style: str = "",
    title: str = "Segmentation report",
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """Returns a complete page that does not need other files.

    Args:
      count: the subject of the report, for the title, such as "3 cases".
      heading: the heading of the page.
      lead: the line below the heading.
      main: the markup of the contents.
      style: CSS rules in addition to `report.css`.
      title: the title of the page.
      provenance: what the footer states about the origin of the scores, see `Provenance.as_json`; None for nothing.
    """
    return fill(
        "shell.html",
        version=mtf_imaging.__version__,
        title=title,
        count=count,
        heading=heading,
        lead=lead,
        main=main,
        files="" if provenance is None else package_text("scores.html"),
        provenance="" if provenance is None else _provenance_table(provenance),
        style=package_text("report.css") + style,
        script=package_text("report.js"),
    )


def _provenance_table(fields: Mapping[str, Any]) -> Markup:
    """Returns the table of the provenance, folded away."""
    rows = (tag("tr", tag("th", name, scope="row"), tag("td", text)) for name, text in provenance_rows(fields))
    table = tag("table", tag("tbody", *rows), class_="provenance")
    return tag("details", tag("summary", "Provenance"), table, id="provenance")


def fill(name: str, package: str = __package__, /, **parts: str) -> str:
    """Returns a template of a package with its placeholders replaced by the parts."""
    return Template(package_text(name, package)).substitute(parts)


def package_text(name: str, package: str = __package__) -> str:
    """Returns the text of a file in a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def image_pages_style() -> str:
    """Returns the CSS rules for reports about images with a height and a width."""
    return f"\n{package_text('report_any.css')}{package_text('image_pages.css')}"


def checkbox(hides: str, *what: object) -> Markup:
    """Returns a checkbox with its label, which hides the elements of a class."""
    return tag("label", tag("input", type="checkbox", checked=True, data_hides=hides), *what)


def layered_figure(label: str, who: str, caption: str, size: tuple[int, int], *layers: object) -> Markup:
    """Returns a figure with layers on top of each other.

    Args:
      label: the description of the figure for screen readers.
      who: the content of the figure, for the script.
      caption: its caption.
      size: height and width.
      *layers: the layers.
    """
    style = f"aspect-ratio:{size[1]}/{size[0]}"
    frame = tag("div", *layers, class_="frame", role="img", aria_label=label, style=style)
    return tag("figure", frame, tag("figcaption", tag("b", caption)), data_layer=who)


def views(picture: bytes, figures: Iterable[Markup]) -> Markup:
    """Returns figures with a JPEG as their shared background, which the page stores only once."""
    return tag("div", *figures, class_="views", style=f"background-image:url({data_url('jpeg', picture)})")


def data_url(kind: str, content: bytes) -> str:
    """Returns the address of a picture that the page contains, as PNG or JPEG."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def image_section(number: int, title: str, measures: str, notes: Sequence[object], pictures: Markup | str) -> Markup:
    """Returns the section of an image: its heading, notes and pictures.

    Args:
      number: the number in the link target `#cN` of the image.
      title: a noun and the key of the image, such as "Photo city/1".
      measures: its scores.
      notes: further facts in a sentence.
      pictures: its pictures, or "".
    """
    head = tag("h3", tag("a", title, href=f"#c{number}"), " ", tag("small", measures))
    key = title.partition(" ")[2]
    return tag(
        "section", head, tag("p", *notes, class_="note"), pictures, id=f"c{number}", data_case=key, class_="case"
    )
