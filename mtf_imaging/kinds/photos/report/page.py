"""The photo report as one HTML page, in the same frame as the volume report."""

from collections.abc import Mapping, Sequence
from typing import Any

from mtf_imaging.evaluation.report.distribution import Dot, distribution
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.report.shell import checkbox, fill, image_pages_style, page_html
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.report import tables as photo_tables
from mtf_imaging.kinds.photos.report.layers import PhotoLayers
from mtf_imaging.kinds.photos.report.pictures import photo_section
from mtf_imaging.kinds.photos.scoring.scores import PhotoScore, photo_metrics, worst_first
from mtf_imaging.plain_text import counted


def photo_report_html(
    scores: Sequence[PhotoScore],
    layers: Mapping[str, PhotoLayers],
    description: PhotoDescription,
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """Returns the text of the page, which `shell.html` frames.

    Args:
      scores: the scores of one or more photos.
      layers: the pictures of some of these photos by key.
      description: the classes and their colors.
      provenance: the provenance of the scores, see `Provenance.as_json`; None for none.
    """
    metrics = photo_metrics(scores, description)
    numbered = enumerate(scores, start=1)
    dots = [Dot(score.key, score.mean_iou, f"#c{n}") for n, score in numbered if score.mean_iou is not None]
    plot = distribution(dots, "mean", "IoU", "photo") if dots else tag("p", "No pixel counts.")
    sections = (photo_section(n + 1, scores[n], layers.get(scores[n].key), description) for n in worst_first(scores))
    main = fill(
        "report.html",
        __package__,
        overview=photo_tables.photo_overview(metrics),
        classes=photo_tables.class_table(metrics, description),
        tolerance=f"{100 * metrics['boundary_tolerance']:g}",
        confusion=photo_tables.confusion_table(metrics, description),
        by_image=tag("figure", plot, class_="half"),
        photos=photo_tables.photo_table(scores, metrics, description),
        shown=_shown_text(len(scores), len(layers)),
        boxes=_class_boxes(description),
        pictures=join(*sections),
    )
    count = counted(len(scores), "photo")
    style = image_pages_style() + _class_style(description)
    frame = {"count": count, "heading": "Segmentation report", "lead": f"{count}.", "style": style}
    return page_html(**frame, main=main, provenance=provenance)


def _class_boxes(description: PhotoDescription) -> Markup:
    """Returns a checkbox per class that hides its layers."""
    names = enumerate(description.classes)
    return join(*(checkbox(f"class{label}", photo_tables.swatch(description, label), name) for label, name in names))


def _class_style(description: PhotoDescription) -> str:
    """Returns the CSS rules that hide the layers of unchecked classes."""
    labels = range(len(description.classes))
    return "".join(f".hide-class{label} .layer.class{label} {{ display: none; }}\n" for label in labels)


def _shown_text(count: int, shown: int) -> str:
    """Returns the sentence about photos without pictures, or "" if there are none."""
    if shown >= count:
        return ""
    if not shown:
        return "No pictures are stored. "
    which = "Only the photo" if shown == 1 else f"Only the {shown} photos"
    return f"{which} with the lowest mean IoU {'has' if shown == 1 else 'have'} pictures. "
