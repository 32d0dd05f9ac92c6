"""The pictures of an image as HTML: its objects and detections, over the same image."""

from collections.abc import Sequence

from mtf_imaging.evaluation.report.markup import Markup, join, number_text, tag
from mtf_imaging.evaluation.report.shell import image_section, layered_figure, views
from mtf_imaging.evaluation.report.tables import shown
from mtf_imaging.kinds.objects.pictures import category_color
from mtf_imaging.kinds.objects.report.layers import ObjectLayers, ObjectShape
from mtf_imaging.kinds.objects.scoring.scores import ObjectScore
from mtf_imaging.plain_text import counted

_CAPTIONS = {"reference": "objects", "prediction": "detections"}
_WHY = {
    ("reference", "found"): "found",
    ("reference", "wrong"): "missed",
    ("reference", "ignored"): "does not count",
    ("prediction", "found"): "right",
    ("prediction", "wrong"): "wrong",
    ("prediction", "ignored"): "does not count",
}


def object_section(number: int, score: ObjectScore, layers: ObjectLayers | None) -> Markup:
    """Returns the heading, the counts and the pictures of an image.

    Args:
      number: the number in the link target `#cN` of the image.
      score: the scores of the image.
      layers: its pictures, or None.
    """
    height, width = score.size
    counts = (
        f"{counted(score.objects, 'object')}: {score.found} found, {score.missed} missed. "
        f"{counted(score.false, 'wrong detection')}. "
    )
    notes, pictures = (counts, f"{width} x {height} pixels."), _views(score.key, layers) if layers else ""
    return image_section(number, f"Image {score.key}", f"F1 {shown(score.f1)}", notes, pictures)


def _views(key: str, layers: ObjectLayers) -> Markup:
    """Returns the two pictures, with the image as a shared background, which the page stores only once."""
    figures = (
        _figure(f"image {key}: {_CAPTIONS[who]}", who, layers.size, shapes)
        for who, shapes in (("reference", layers.objects), ("prediction", layers.detections))
    )
    return views(layers.photo, figures)


def _figure(label: str, who: str, size: tuple[int, int], shapes: Sequence[ObjectShape]) -> Markup:
    height, width = size
    # The first shapes, such as the detections with the highest scores, are on top.
    marks = (_shape(who, one, size) for one in reversed(shapes))
    drawing = tag("svg", *marks, viewBox=f"0 0 {width} {height}", class_="shapes", preserveAspectRatio="none")
    return layered_figure(label, who, _CAPTIONS[who], size, tag("div", class_="photo"), drawing)


def _shape(who: str, one: ObjectShape, size: tuple[int, int]) -> Markup:
    """Returns the mask, box and label of an object or a detection."""
    y0, x0, y1, x1 = one.box
    font = max(size) / 45
    color = category_color(one.category)
    mask = tag("path", d=one.path, transform="scale(.5)", class_="mask", fill=color, stroke=color) if one.path else ""
    box = {"x": x0, "y": y0, "width": max(0.0, x1 - x0), "height": max(0.0, y1 - y0)}
    numbers = {name: number_text(value) for name, value in box.items()}
    words = tag(
        "text",
        one.label,
        x=number_text(x0 + font / 5),
        y=number_text(max(font, y0 - font / 4)),
        font_size=number_text(font),
        class_="label",
    )
    title = tag("title", f"{one.label}: {_WHY[who, one.state]}")
    return tag(
        "g",
        title,
        join(mask, tag("rect", **numbers, stroke=color, class_="box")),
        words,
        class_=f"{one.state} category{one.category}",
    )
