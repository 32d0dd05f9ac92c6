"""The photo report as one HTML page, in the same frame as the volume report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mtf_imaging.evaluation.report.distribution import Dot, distribution
from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.report.shell import (
    checkbox,
    data_url,
    fill,
    image_pages_style,
    image_section,
    layered_figure,
    page_html,
    views,
)
from mtf_imaging.evaluation.report.tables import shown
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.report import tables as photo_tables
from mtf_imaging.kinds.photos.report.layers import PhotoLayers
from mtf_imaging.kinds.photos.scoring.scores import PhotoScore, photo_metrics, worst_first
from mtf_imaging.plain_text import counted

_CAPTIONS = {"prediction": "prediction", "reference": "reference", "difference": "where they differ"}


def photo_section(number: int, score: PhotoScore, layers: PhotoLayers | None, description: PhotoDescription) -> Markup:
    """Returns the heading, the IoU of each class and the pictures of a photo.

    Args:
      number: the number in the link target `#cN` of the photo.
      score: the scores of the photo.
      layers: its pictures, or None.
      description: the classes.
    """
    measures = f"mean IoU {shown(score.mean_iou)}, pixel accuracy {shown(score.pixel_accuracy)}"
    height, width = score.size
    notes = "IoU: ", class_ious(score, description), f". {width} x {height} pixels."
    return image_section(number, f"Photo {score.key}", measures, notes, _views(score.key, layers) if layers else "")


def class_ious(score: PhotoScore, description: PhotoDescription) -> str:
    """Returns the IoU of each class in a photo, such as `sky 0.950, tree 0.710`; the largest class comes first."""
    counts = score.confusion
    present = [label for label in range(len(description.classes)) if counts.union[label]]
    present.sort(key=lambda label: -counts.union[label])
    texts = (f"{description.classes[label]} {shown(float(counts.iou[label]))}" for label in present)
    return ", ".join(texts) or "no pixel counts"


def _views(key: str, layers: PhotoLayers) -> Markup:
    """Returns the three pictures, with the photo as a shared background, which the page stores only once."""
    wrong = (("wrong", layers.wrong), ("ignored", layers.ignored))
    parts = {
        who: [(f"{who} class{label}", png) for (owner, label), png in layers.layers.items() if owner == who]
        for who in ("prediction", "reference")
    }
    parts["difference"] = [(f"difference {name}", png) for name, png in wrong if png]
    figures = (_figure(f"photo {key}: {caption}", who, layers, parts[who]) for who, caption in _CAPTIONS.items())
    return views(layers.photo, figures)


def _figure(label: str, who: str, layers: PhotoLayers, pngs: Iterable[tuple[str, bytes]]) -> Markup:
    pictures = (
        tag("img", src=data_url("png", png), alt="", class_=f"layer {classes}", loading="lazy", decoding="async")
        for classes, png in pngs
    )
    photo = tag("div", class_="photo colorless" if who == "difference" else "photo")
    return layered_figure(label, who, _CAPTIONS[who], layers.size, photo, *pictures)


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
    return f"Only {counted(shown, 'photo')}, with the lowest mean IoU, have pictures. "
