"""The page of operations that networks of others may have: Keras layers, TensorFlow's and ONNX operations, ours.

The page is made from the graphs of the test cases, so each row has been compared with TensorFlow or ONNX Runtime.
`python -m tests.networks.operations_table` writes it.
"""

import collections
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mtf_imaging as mi
from mtf_imaging.networks.onnx.registry import OPERATORS
from mtf_imaging.networks.operations.registry import OPERATIONS
from tests.networks import comparing, test_onnx_operators, test_operations
from tests.networks.onnx_models import saved

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "network_operations.md"
_INTRODUCTION = """\
# Operations of imported networks

The operations that [networks of Keras, TensorFlow and ONNX](../guides/networks.md) may have. A row is a function of
this package, the operations of TensorFlow that it computes, and the Keras layers and ONNX operators whose graphs
contain them. *Many* are more than {many}. Other layers, and functions between layers, work if their graphs consist of
these operations.

A test compares each row with TensorFlow or ONNX Runtime, whole, split and in turns. The last column selects one of its
cases: `pytest tests/networks -k "CASE"`. Operations without a case are other names for the same, in graphs of earlier
releases of TensorFlow, or random. The ONNX operators {constants} are computed when the network is converted.

| in Keras | in TensorFlow | in ONNX | here | case |
| --- | --- | --- | --- | --- |
"""
CONSTANTS = {"ConstantOfShape", "Range", "ReduceProd", "Shape", "Size"}  # ONNX operators that need no operation
_MANY = 8  # layers or operators of a row that are listed


@dataclasses.dataclass
class Row:
    """The operations of TensorFlow that one function of ours computes, and what has them.

    Attributes:
      tensorflow: the operations.
      found: those that a case has.
      keras, onnx: the layers and operators whose graphs have them.
      cases: the cases that have them.
    """

    tensorflow: list[str] = dataclasses.field(default_factory=list)
    found: set[str] = dataclasses.field(default_factory=set)
    keras: set[str] = dataclasses.field(default_factory=set)
    onnx: set[str] = dataclasses.field(default_factory=set)
    cases: list[str] = dataclasses.field(default_factory=list)


def cases() -> Iterator[tuple[str, str, dict[str, list[str]]]]:
    """Yields the name of each case, its Keras layer ("" for none), and {TensorFlow operation: names of its nodes}."""
    for name, (build, shape) in test_operations.LAYERS.items():
        layer = build()
        network = mi.networks.load(test_operations.model_of(layer, shape))
        title = "" if name.startswith(("flatten", "activation")) else type(layer).__name__
        yield name, title, test_operations.operations_of(network, shape)
    for name in test_operations.FUNCTIONS:
        network = mi.networks.load(test_operations.function_of(name))
        yield name, "", test_operations.operations_of(network, (6, 5, 4))
    with tempfile.TemporaryDirectory() as folder:
        for name, spec in test_onnx_operators.CASES.items():
            network = mi.networks.load(saved(test_onnx_operators.model_of(name), Path(folder)))
            inputs = network.inputs(batch=spec["shape"][0])
            shapes = {key: tuple(size for _, size in mi.layout.parse_shape(text)) for key, (text, _) in inputs.items()}
            yield name, "", network.graph(shapes, False).operations


def rows() -> dict[str, Row]:
    """Returns the row of each function of ours."""
    table: dict[str, Row] = collections.defaultdict(Row)
    for name, operation in sorted(OPERATIONS.items()):
        table[operation.ours].tensorflow.append(name)
    for case, layer, found in cases():
        for name in sorted({*found} & {*OPERATIONS}):
            row = table[OPERATIONS[name].ours]
            row.found.add(name)
            row.cases.append(case)
            row.keras |= {layer} - {""}
            # Nodes of ONNX operators are in a scope with the name that the case gave them: Conv_0/convolution.
            row.onnx |= {node.partition("/")[0].rpartition("_")[0] for node in found[name]} & {*OPERATORS}
    return table


def page(table: dict[str, Row]) -> str:
    """Returns the page."""
    lines = []
    for ours, row in sorted(table.items()):
        keras, onnx = _listed(row.keras), _listed(row.onnx)
        tensorflow = ", ".join(f"`{name}`" for name in row.tensorflow)
        case = f"`{' and '.join(row.cases[0].split())}`" if row.cases else ""  # as pytest's -k takes it
        lines.append(f"| {keras} | {tensorflow} | {onnx} | {ours} | {case} |")
    return "\n".join([_INTRODUCTION.format(many=_MANY, constants=_listed(CONSTANTS)) + "\n".join(lines), ""])


def _listed(names: set[str]) -> str:
    return "many" if len(names) > _MANY else ", ".join(f"`{name}`" for name in sorted(names))


if __name__ == "__main__":
    comparing.use_dtype("float32")
    PAGE.write_text(page(rows()))
