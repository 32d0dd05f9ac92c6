"""Matrix products and `einsum`. A product over a merged axis reshapes the kernel, not the image."""

from collections.abc import Sequence

from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array, axis_size, free_name
from mtf_imaging.networks.operations.registry import Call, operation
from mtf_imaging.networks.values import Unnamed, Value, as_array, joint_axes, named, sizes_of

_UNITS = "units"


def einsum(call: Call, values: Sequence[Value], terms: Sequence[Sequence[str]], result: Sequence[str]) -> Array:
    """Computes a sum of products over labeled axes.

    Args:
      call: the node.
      values: the factors.
      terms: the labels of each factor's axes. Axes with the same label are equal, or have size 1.
      result: the labels of the result; the others are summed.
    """
    values = [as_array(v) if isinstance(v, Unnamed) and not any(isinstance(u, Array) for u in values) else v
              for v in values]  # fmt: skip
    values = [
        v.single(*(i for i, label in enumerate(term) if label not in result and not v.is_whole(i)))
        if isinstance(v, Array)
        else v
        for v, term in zip(values, terms, strict=True)
    ]
    sizes: dict[str, int] = {}
    for value, term in zip(values, terms, strict=True):
        for label, size in zip(term, sizes_of(value), strict=True):
            if size != 1 and sizes.setdefault(label, size) not in (1, size):
                shapes = " and ".join(str(list(sizes_of(v))) for v in values)
                raise call.refuse(
                    f"multiplies {shapes}, of which two axes have the sizes {sizes[label]} and {size}",
                    "use the sizes with which the network was saved",
                )
            sizes[label] = max(size, sizes.get(label, 1))
    spread = [
        Array(value.tensor, [dict(zip(term, value.axes, strict=True)).get(label, ()) for label in sizes])
        for value, term in zip(values, terms, strict=True)
        if isinstance(value, Array)
    ]
    axes = dict(zip(sizes, joint_axes(spread, [*sizes.values()], _UNITS), strict=True))
    factors = []
    for value, term in zip(values, terms, strict=True):
        own = [axes[label] if axis_size(axes[label]) == n else () for label, n in zip(term, sizes_of(value))]
        factors.append(named(call.mesh, value, own).without_loose().tensor)
    physical = {dim for x in factors for dim in x.shape.dims}
    dims = [dim for label in result for dim in axes[label] if dim in physical]
    y = Array(mtf.einsum(factors, output_shape=mtf.Shape(dims)), [axes[label] for label in result])
    if result and all(axis_size(array.axes[[*sizes].index(result[-1])]) != y.sizes[-1] for array in spread):
        # As in mi.layers, the channels are called the same before and after a layer.
        y = y.with_axes([*y.axes[:-1], (mtf.Dimension(free_name("channels", y.names), y.sizes[-1]),)])
    return y


@operation("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", ours="mtf.einsum")
def _matmul(call: Call, a: Value, b: Value) -> Array:
    first, second = ("transpose_a", "transpose_b") if call.node.operation == "MatMul" else ("adj_x", "adj_y")
    labels = [[*(f"batch{i}" for i in range(len(sizes_of(v)) - 2, 0, -1))] for v in (a, b)]
    batch = max(labels, key=len)
    terms = [
        [*labels[0], *(("k", "i") if call.get(first) else ("i", "k"))],
        [*labels[1], *(("j", "k") if call.get(second) else ("k", "j"))],
    ]
    return einsum(call, [a, b], terms, [*batch, "i", "j"])


@operation("Einsum", ours="mtf.einsum")
def _einsum(call: Call, *values: Value) -> Array:
    equation = call.get("equation").replace(" ", "")
    left, _, right = equation.partition("->")
    ranks = [len(sizes_of(value)) - len(term.replace("...", "")) for value, term in zip(values, left.split(","))]
    terms = [_labels(term, rank) for term, rank in zip(left.split(","), ranks, strict=True)]
    if any(len({*term}) < len(term) for term in terms):
        raise call.refuse(f"has the equation '{equation}'", "name every axis once")
    return einsum(call, values, terms, _labels(right, max(ranks)))


def _labels(term: str, rank: int) -> list[str]:
    """Returns the labels of a term in which `...` stands for `rank` axes, whose labels are counted from the last."""
    before, dots, after = term.partition("...")
    return [*before, *(f"...{i}" for i in range(rank, 0, -1) if dots), *after]
