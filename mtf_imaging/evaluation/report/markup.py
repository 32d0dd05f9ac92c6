"""HTML and SVG as nested function calls that escape all text, and the parts of SVG plots."""

import html


class Markup(str):
    """A string of markup that does not need escaping."""


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Returns an element.

    Args:
      name: the name of the element.
      children: contents of the element. `Markup` is inserted unchanged; other objects are converted to escaped text.
      attributes: HTML attributes, with `class_` for class and `data_x` for data-x. None omits an attribute, and True
        writes it without a value.

    >>> tag("td", "a < b", tag("br"), class_="wide", data_value=0.5, hidden=None)
    '<td class="wide" data-value="0.5">a &lt; b<br></td>'
    """
    shown = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in _VOID else f"</{name}>"
    return Markup(f"<{name}{shown}>{join(*children)}{end}")


def join(*children: object) -> Markup:
    """Concatenates children and escapes all except `Markup`."""
    return Markup("".join(child if isinstance(child, Markup) else html.escape(str(child)) for child in children))


_VOID = {"br", "img", "input"}


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


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
