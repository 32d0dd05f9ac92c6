"""The parts that all reports share: the head of the page with style and script, the header and the footer."""

from importlib import resources
from string import Template

import mtf_imaging


def page_html(
    *, count: str, heading: str, lead: str, main: str, style: str = "", title: str = "Segmentation report"
) -> str:
    """Returns a complete page that needs no other file.

    Args:
      count: what the report is about, for the title, such as "3 cases".
      heading: the heading of the page.
      lead: the line below the heading.
      main: the markup of the contents.
      style: CSS rules in addition to `report.css`.
      title: the title of the page.
    """
    return fill(
        "shell.html",
        version=mtf_imaging.__version__,
        title=title,
        count=count,
        heading=heading,
        lead=lead,
        main=main,
        style=package_text("report.css") + style,
        script=package_text("report.js"),
    )


def fill(name: str, **parts: str) -> str:
    """Returns a template of this package with its parts inserted."""
    return Template(package_text(name)).substitute(parts)


def package_text(name: str) -> str:
    """Returns the text of a file of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun.

    >>> counted(1, "case"), counted(3, "case")
    ('1 case', '3 cases')
    """
    return f"{number} {noun}{'s' * (number != 1)}"
