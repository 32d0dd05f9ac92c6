"""Finds the axis of the channels of inputs and outputs. It is the second one, except in files of other exporters.

Exporters of TensorFlow keep channels last outside, and transpose to the channels first that ONNX needs.
"""

from mtf_imaging.networks.onnx.registry import Branch

# Operators whose second axis is the channels, and those that write channels to the last axis.
_FIRST = {
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool"),
    *("GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "MaxPool", "SpaceToDepth"),
}
_LAST = {"LayerNormalization", "MatMul"}
# Operators after which the axes are others.
_OTHERS = {
    *("ArgMax", "ArgMin", "Einsum", "Flatten", "Gather", "Gemm", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"),
}


def input_channels(graph: Branch, name: str, rank: int) -> int:
    """Returns the axis of an input's channels: that which the first operator with channels reads.

    Args:
      graph: the network.
      name: name of the input.
      rank: number of its axes.
    """
    if rank < 3:
        return rank - 1
    axes = {name: tuple(range(rank))}  # {name of a value: the axes of the input, in its order}
    for node in graph.nodes:
        own = next((axes[each] for each in node.inputs if each in axes), None)
        if own is None or node.operator in _OTHERS:
            continue
        if node.operator in _FIRST:
            return own[1] if len(own) > 1 else 1
        if node.operator == "Transpose":
            order = node.attributes.get("perm", range(rank)[::-1])
            own = tuple(own[i] for i in order if i in range(len(own)))
        axes |= dict.fromkeys(node.outputs, own)
    return 1


def output_channels(graph: Branch, name: str, rank: int) -> int:
    """Returns the axis of an output's channels: that which the last operator with channels writes.

    Args:
      graph: the network.
      name: name of the output.
      rank: number of its axes.
    """
    producers = {each: node for node in graph.nodes for each in node.outputs}
    orders = []
    while name in producers and producers[name].operator not in _FIRST | _LAST | _OTHERS:
        node = producers[name]
        if node.operator == "Transpose":
            orders.append(list(node.attributes.get("perm", range(rank)[::-1])))
        name = next((each for each in node.inputs if each in producers), "")
    if name not in producers or producers[name].operator in _OTHERS:
        return 1
    axis = 1 if producers[name].operator in _FIRST else rank - 1
    for order in reversed(orders):
        axis = order.index(axis) if axis in order else axis
    return axis
