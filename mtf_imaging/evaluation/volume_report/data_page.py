"""The page of a data set: what was understood of it, and its masks on slices of some cases."""

import base64
from collections.abc import Iterable, Mapping, Sequence

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.compact_labels import CompactLabels
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.report.shell import image_pages_style, page_html
from mtf_imaging.evaluation.report.tables import titled_table
from mtf_imaging.evaluation.volume_report.overlay import make_overlays
from mtf_imaging.evaluation.volume_report.pictures import views_markup


def case_pictures(key: str, image: ImageSource, labels: CompactLabels, description: Description) -> Markup:
    """Returns the slices of a case with the outlines of its masks.

    Args:
      key: the name of the case.
      image: its image, of which the first channel is shown.
      labels: its labels `[x, y, z]`.
      description: the channels and masks.
    """
    affine = image.geometry.canonical_affine
    overlays = make_overlays(image.channels[0], labels, CompactLabels(labels.shape), affine, description)
    return tag("section", tag("h3", f"Case {key}"), views_markup(key, overlays, description), class_="case")


def labeled_picture(key: str, jpeg: bytes) -> Markup:
    """Returns a picture on which the labels are drawn."""
    source = f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
    return tag("section", tag("h3", f"Image {key}"), tag("img", src=source, alt=f"image {key}"), class_="case")


def data_page(
    rows: Iterable[tuple[str, str]],
    table: Sequence[Sequence[str]],
    pictures: Sequence[Markup],
    colors: Mapping[str, str],
    style: str = "",
) -> bytes:
    """Returns the page.

    Args:
      rows: names and texts; the first one is the title.
      table: the head and the rows of the table of labels; may be empty.
      pictures: the pictures of cases.
      colors: the colors of the labels in the pictures.
      style: further CSS rules.
    """
    (_, lead), *rows = rows
    found = (tag("tr", tag("th", name, scope="row"), tag("td", text)) for name, text in rows)
    parts = [tag("table", tag("tbody", *found), class_="provenance")]
    if table:
        cells = [
            tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in own)) for name, *own in table[1:]
        ]
        parts.append(titled_table("Labels in the cases that were read", table[0], cells))
    if pictures:
        legend = (tag("span", f" \N{BLACK SQUARE} {name}", style=f"color:{color}") for name, color in colors.items())
        parts += [tag("h2", "Pictures"), tag("p", *legend), *pictures]
    style = f"{image_pages_style()}{style}"
    page = page_html(count=lead, heading="What was understood", lead=lead, main=join(*parts), style=style, title="Data")
    return page.encode()
