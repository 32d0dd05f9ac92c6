"""The pictures of a photo as HTML: the photo with its prediction, its reference, and the wrong pixels."""

import base64
from collections.abc import Iterable

from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.report.shell import layered_figure
from mtf_imaging.evaluation.report.tables import shown
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.report.layers import PhotoLayers
from mtf_imaging.kinds.photos.scoring.scores import PhotoScore

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
    head = tag("h3", tag("a", f"Photo {score.key}", href=f"#c{number}"), " ", tag("small", measures))
    height, width = score.size
    size = f"{width} x {height} pixels."
    notes = tag("p", "IoU: ", class_ious(score, description), ". ", size, class_="note")
    views = _views(score.key, layers) if layers else ""
    return tag("section", head, notes, views, id=f"c{number}", data_case=score.key, class_="case")


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
    photo = f"background-image:url({_data('jpeg', layers.photo)})"
    return tag("div", *figures, class_="views", style=photo)


def _figure(label: str, who: str, layers: PhotoLayers, pngs: Iterable[tuple[str, bytes]]) -> Markup:
    pictures = (
        tag("img", src=_data("png", png), alt="", class_=f"layer {classes}", loading="lazy", decoding="async")
        for classes, png in pngs
    )
    photo = tag("div", class_="photo colorless" if who == "difference" else "photo")
    return layered_figure(label, who, _CAPTIONS[who], layers.size, photo, *pictures)


def _data(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
