"""Text reports of the results of `explain`, `search` and `bench`."""

from collections.abc import Callable
from typing import Any

from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.bench.table import text as bench_text
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.render.search_table import search_table
from mtf_imaging.planner.render.text import text as explained_text
from mtf_imaging.planner.search.search import Searched

_FORMATS: dict[type, Callable[[Any], str]] = {Explained: explained_text, Searched: search_table, Bench: bench_text}


def report(result: Explained | Searched | Bench) -> str:
    """Formats the result of `explain`, `search` or `bench` as the text that the command prints.

    Args:
      result: the result of one of these functions.

    Raises:
      TypeError: `result` is another object.
    """
    if type(result) not in _FORMATS:
        raise TypeError(f"report takes the result of explain, search or bench, not of class {type(result).__name__}")
    return _FORMATS[type(result)](result)
