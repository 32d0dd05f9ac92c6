"""HTML and SVG as nested calls, so that whatever is written into a page is escaped."""

import html


class Markup(str):
    """Text that is markup already."""


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element.

    Args:
      name: of the element.
      children: markup, which stays as it is, or anything else, of which the text is escaped.
      attributes: `class_` is class and `data_x` is data-x; None leaves one out, True gives it no value.

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
    """Children one after the other, escaped where they are not markup."""
    return Markup("".join(child if isinstance(child, Markup) else html.escape(str(child)) for child in children))


_VOID = {"br", "img", "input"}


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
