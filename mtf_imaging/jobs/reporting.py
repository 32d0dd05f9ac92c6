"""Text reports of the results of `explain`, `search` and `bench`."""

import functools

from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.bench.table import text as bench_text
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.render.search_table import search_table
from mtf_imaging.planner.render.text import text as explained_text
from mtf_imaging.planner.search.search import Searched


@functools.singledispatch
def report(result: Explained | Searched | Bench) -> str:
    """Formats the result of `explain`, `search` or `bench` as the text that the command prints.

    Args:
      result: the result of one of these functions.

    Raises:
      TypeError: `result` is another object.
    """
    raise TypeError(f"report takes the result of explain, search or bench, not of class {type(result).__name__}")


@report.register
def _(result: Explained) -> str:
    return explained_text(result)


@report.register
def _(result: Searched) -> str:
    return search_table(result)


@report.register
def _(result: Bench) -> str:
    return bench_text(result)
