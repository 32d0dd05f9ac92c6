"""HTML and SVG as nested function calls that escape all text."""

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
