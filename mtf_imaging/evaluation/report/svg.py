"""The frame, lines and texts of SVG plots."""

from mtf_imaging.evaluation.report.markup import Markup, tag

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 14, 28, 60  # margins around the data area


def svg(name: str, *parts: object, height: int = HEIGHT) -> Markup:
    """Returns a plot with a description for screen readers."""
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=name, class_="plot")


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> Markup:
    """Returns a line with a CSS class."""
    return tag("line", x1=number_text(x1), y1=number_text(y1), x2=number_text(x2), y2=number_text(y2), class_=kind)


def text(x: float, y: float, content: object, anchor: str = "middle") -> Markup:
    """Returns a text that starts, ends or is centered at a point."""
    return tag("text", content, x=number_text(x), y=number_text(y), text_anchor=anchor)


def number_text(value: float) -> str:
    """Returns a coordinate with one digit after the decimal point."""
    return f"{value:.1f}"
