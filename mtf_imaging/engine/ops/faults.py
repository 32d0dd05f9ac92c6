"""The faults that an operation reports for a layout that it does not support."""

import dataclasses

from mtf_imaging.engine.compat import mtf


@dataclasses.dataclass(frozen=True)
class LayoutFault:
    """A split that an operation cannot compute.

    Attributes:
      text: the message, with the operation, the names and sizes of both dimensions, and a fix.
      key: a value that is equal for two faults that differ only in the name of the operation.
    """

    text: str
    key: tuple


def cannot_split(title: str, dim: mtf.Dimension, mesh_dim: str, parts: int, why: str, fix: str = "") -> LayoutFault:
    """Returns the fault of an operation that needs a whole dimension.

    Args:
      title: kind and name of the operation.
      dim: the dimension that must not be split.
      mesh_dim: name of the mesh dimension that the layout splits `dim` over.
      parts: size of the mesh dimension.
      why: the reason, as a clause.
      fix: an alternative to dropping the rule, as a clause, or "".
    """
    text = (
        f"{title}: cannot split '{dim.name}' (size {dim.size}) over '{mesh_dim}' (size {parts}): {why}. "
        f"Fix: drop '{dim.name}:{mesh_dim}'{fix and f', or {fix}'}."
    )
    return LayoutFault(text, (why, dim, mesh_dim))
