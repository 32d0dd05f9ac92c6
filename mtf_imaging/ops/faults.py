"""What an operation says of a layout that it cannot be lowered under."""

import dataclasses

from mtf_imaging.compat import mtf


@dataclasses.dataclass(frozen=True)
class LayoutFault:
    """A split that an operation cannot do.

    Attributes:
      text: the message, with the operation, both names and both sizes, and a fix.
      explains: the (dimension name, size) pairs of which the message tells more than that they do not divide.
      key: equal for faults of two operations that differ in the operation's name only.
      way_out: another than the fix of the message, common to all faults of the kind: a sentence, or "".
      settings: the keyword arguments that the way out speaks of, as `MtfImagingError` has them.
    """

    text: str
    explains: frozenset[tuple[str, int]]
    key: tuple
    way_out: str = ""
    settings: tuple[str, ...] = ()


def cannot_split(title: str, dim: mtf.Dimension, mesh_dim: str, parts: int, why: str, fix: str = "") -> LayoutFault:
    """The fault of an operation for which a dimension must stay whole.

    Args:
      title: kind and name of the operation.
      dim: the `mtf.Dimension`.
      mesh_dim: name of the mesh dimension that the layout splits it over.
      parts: size of that.
      why: the reason, a clause.
      fix: a clause with an alternative to dropping the rule, or "".
    """
    text = (
        f"{title}: cannot split '{dim.name}' (size {dim.size}) over '{mesh_dim}' (size {parts}): {why}. "
        f"Fix: drop '{dim.name}:{mesh_dim}'{fix and f', or {fix}'}."
    )
    return LayoutFault(text, frozenset({(dim.name, dim.size)}), (why, dim, mesh_dim))
