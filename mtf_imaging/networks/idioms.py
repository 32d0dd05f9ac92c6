"""Patterns of several nodes that one operation here computes faster: batch norm in training."""

from collections.abc import Mapping

import numpy as np

from mtf_imaging.networks.conversion import Weight
from mtf_imaging.networks.graph import BATCH_NORM, CONSTANT, VARIABLE, Graph, Node, Source, rewired

_SUMS = ("Add", "AddV2")


class _Matcher:
    """Matches patterns in a graph.

    Args:
      graph: the graph.
      weights: the variables by name.
    """

    def __init__(self, graph: Graph, weights: Mapping[str, Weight]) -> None:
        self._nodes, self._weights = {node.name: node for node in graph.nodes}, weights

    def node(self, source: Source, *operations: str) -> Node | None:
        """Returns the node of a source, below identities, if it is one of some operations."""
        node = self._nodes[self._below(source)[0]]
        return node if node.operation in operations else None

    def same(self, a: Source, b: Source) -> bool:
        """Returns whether two sources are the same, below identities."""
        return self._below(a) == self._below(b)

    def _below(self, source: Source) -> Source:
        while self._nodes[source[0]].operation == "Identity":
            source = self._nodes[source[0]].inputs[0]
        return source

    def pair(self, node: Node | None, *operations: str) -> tuple[Node, Source] | None:
        """Returns the two inputs of a binary node, of which one of `operations` computes the first."""
        for one, other in (node.inputs, node.inputs[::-1]) if node and len(node.inputs) == 2 else ():
            found = self.node(one, *operations)
            if found:
                return found, other
        return None

    def is_vector(self, source: Source) -> bool:
        """Returns whether a source is a variable with one axis."""
        read = self.node(source, "ReadVariableOp")
        variable = read and self.node(read.inputs[0], VARIABLE)
        return variable is not None and len(self._weights[variable.value].shape) == 1

    def mean(self, source: Source) -> tuple[Node, list[int]] | None:
        """Returns the node and the axes of a mean over leading axes, whose axes of size 1 may be dropped."""
        squeezed = self.node(source, "Squeeze")
        node = self.node(squeezed.inputs[0] if squeezed else source, "Mean")
        axes = node and self.node(node.inputs[1], CONSTANT)
        numbers = [] if axes is None else np.ravel(axes.value).tolist()
        if node is None or not numbers or numbers != [*range(len(numbers))]:
            return None
        is_vector = squeezed is not None if node.attributes.get("keep_dims") else squeezed is None
        return (node, numbers) if is_vector else None

    def batch_norm(self, node: Node) -> tuple[Node, tuple[Source, Source]] | None:
        """Returns the node that replaces the end of a batch norm in training, and the sources of its statistics.

        The pattern is `x slope + (offset - mean slope)` with `slope = rsqrt(variance + epsilon) scale`, and the mean
        and variance of x.
        """
        shift = self.pair(node, "Sub") if node.operation in _SUMS else None
        if shift is None:
            return None
        difference, scaled = shift
        offset, moved = difference.inputs
        product, center = self.node(scaled, "Mul"), self.node(moved, "Mul")
        if product is None or center is None or not self.is_vector(offset):
            return None
        for x, slope in (product.inputs, product.inputs[::-1]):
            for mean, other in (center.inputs, center.inputs[::-1]):
                found = self.mean(mean)
                if self.same(slope, other) and found and self.same(found[0].inputs[0], x):
                    return self._with_slope(node, x, slope, offset, mean, found[1])
        return None

    def _with_slope(
        self, node: Node, x: Source, slope: Source, offset: Source, mean: Source, axes: list[int]
    ) -> tuple[Node, tuple[Source, Source]] | None:
        root, scale = self.node(slope, "Rsqrt"), None
        if root is None:
            parts = self.pair(self.node(slope, "Mul"), "Rsqrt")
            if parts is None or not self.is_vector(parts[1]):
                return None
            root, scale = parts
        added = self.pair(self.node(root.inputs[0], *_SUMS), CONSTANT)
        if added is None or np.size(added[0].value) > 1:
            return None
        epsilon, variance = added
        found = self.mean(variance)
        squares = found and self.node(found[0].inputs[0], "SquaredDifference")
        if not found or not squares or found[1] != axes or not self.same(squares.inputs[0], x):
            return None
        stopped = self.node(squares.inputs[1], "StopGradient")
        center = self.node(stopped.inputs[0] if stopped else squares.inputs[1], "Mean")
        if center is None or not self.same(center.inputs[0], x):
            return None
        inputs = (x, offset) if scale is None else (x, offset, scale)
        settings = {"epsilon": float(epsilon.value), "axes": axes}
        return Node(node.name, BATCH_NORM, inputs, settings), (mean, variance)


def fused(graph: Graph, weights: Mapping[str, Weight]) -> Graph:
    """Returns a graph in which each batch norm in training is one node.

    Its outputs are the result, the mean and the variance, from which the network updates its moving averages.
    """
    matcher, replaced, sources = _Matcher(graph, weights), dict[str, Node](), dict[Source, Source]()
    for node in graph.nodes:
        match = matcher.batch_norm(node)
        if match:
            replaced[node.name] = match[0]
            sources |= {statistic: (node.name, i) for i, statistic in enumerate(match[1], 1)}
    if not replaced:
        return graph
    nodes = [replaced.get(node.name, node) for node in graph.nodes]
    return rewired(nodes, graph.outputs, sources)
