"""Writes docs/reference/mtf_functions.md: what the functions of mesh_tensorflow do under a layout.

Run `python -m tests.engine.upstream.functions_page` after a change of the rows in `functions.py` or `layers.py`.
"""

import functools
import re
from pathlib import Path

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program import tracing
from tests.engine.exchanges import modeled
from tests.engine.upstream.functions import FUNCTIONS
from tests.engine.upstream.layers import LAYERS
from tests.engine.upstream.other_functions import LAYERS as OTHER_LAYERS
from tests.engine.upstream.other_functions import NOT_FUNCTIONS_OF_TENSORS

mtf = mi.mtf
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mtf_functions.md"
INPUTS = {"x": ("batch:2,x:8,y:4,channels:4", "float64")}
SLICE = 2 * 3 * 4 * 4 * 8  # bytes of an uneven slice
LAYOUTS = {"even": ("rows:2", "x:rows"), "uneven": ("rows:3", "x:rows")}
WORDS = {
    "sum": "sums over processors",
    "gather": "gathers the dimension",
    "halo": "sends the voxels at the borders",
    "all-to-all": "exchanges all slices",
}
HEAD = """# Functions of mesh_tensorflow

`mi.mtf` is mesh_tensorflow. Its functions work in a `mi.Program` under every layout, unless this page says otherwise.
Tests compare each of them, after operations of `mi.ops`, with TensorFlow on the whole tensor: values, gradients
and second derivatives ([exactness](../concepts/exactness.md)).

The tables list the functions by what they send in the forward pass, if the layout splits the dimension along which a
function combines or moves elements. The second column shows what differs with uneven slices. A function that gathers
the dimension needs memory for the whole dimension on every processor.

`python -m tests.engine.upstream.functions_page` writes this page.
"""


def _sent(fn, layout):
    """Returns what a function sends under a layout, or why it is refused."""
    try:
        traced = tracing.trace_only(fn, INPUTS, Layout.of(layout[1], layout[0]))
        tracing.check(traced, Layout.of(layout[1], layout[0]))
    except mi.MtfImagingError as error:
        reason = re.search(r"cannot split .*?: (.*?)\. Fix: (.*?)(?:\.$|\.\n|$)", str(error), re.DOTALL)
        fix = re.search(r"use (mi\.ops\.\w+)", str(error))
        return f"refused: {reason.group(1)}" + (f"; use `{fix.group(1)}`" if fix else "")
    exchanges = modeled(fn, INPUTS, *layout)
    kinds = dict.fromkeys(exchange.kind for exchange in exchanges)
    if kinds.keys() == {"gather"} and all(exchange.nbytes < SLICE for exchange in exchanges):
        return "gathers the chosen elements of each slice"
    return ", ".join(WORDS[kind] for kind in WORDS if kind in kinds) or "nothing"


def _call(fn, x):
    return fn(x)


def _rows(table):
    for row in table:
        even, uneven = (_sent(functools.partial(_call, row.fn), layout) for layout in LAYOUTS.values())
        public, bracket, detail = row.name.partition(" (")
        yield f"`{public}`{bracket}{detail}", (even, "" if uneven == even else uneven)


def _by_value(pairs):
    """Returns pairs of a value and its names, as the text of a cell."""
    pairs = sorted(pairs)
    return {(value, ", ".join(name for name, own in pairs if own == value)) for _, value in pairs}


def _table(head, rows):
    rule = ["---"] * (head.count("|") - 1)
    return "\n".join([head, *("| " + " | ".join(row) + " |" for row in [rule, *rows])])


def text():
    """Returns the text of the page."""
    sections = [HEAD]
    head = "| sent along a split dimension | with uneven slices | functions |"
    for title, table, others in (
        ("mtf", FUNCTIONS, NOT_FUNCTIONS_OF_TENSORS),
        ("mtf.layers", LAYERS, OTHER_LAYERS),
    ):
        rows = sorted((*sent, names) for sent, names in _by_value(_rows(table)))
        sections.append(f"## {title}\n\n{_table(head, rows)}\n")
        rows = sorted((names, why) for why, names in _by_value((f"`{name}`", why) for name, why in others.items()))
        sections.append(f"### {title}: not in this table\n\n{_table('| functions | reason |', rows)}\n")
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(text())
    print(f"{PAGE}: written")
