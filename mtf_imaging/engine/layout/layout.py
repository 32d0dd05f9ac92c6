"""The value object of a layout: a mesh of processors, and the rules that split tensor dimensions over it.

Public functions parse strings with `Layout.parse`; internal functions take a `Layout`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable

from mtf_imaging.engine.layout.grammar import (
    Rules,
    Shape,
    check_names,
    format_rules,
    format_shape,
    parse_layout,
    parse_shape,
)
from mtf_imaging.errors import LayoutError

# The ways to map processors to devices; see `mtf_imaging.engine.meshes.make_mesh_impl`.
MESH_IMPLS = ("auto", "stacked", "placement", "collective")


@dataclasses.dataclass(frozen=True)
class Layout:
    """A mesh of processors and the rules that split tensor dimensions over it.

    >>> layout = Layout.parse("rows:2,cols:4", "x:rows, y:cols")
    >>> layout.processors, layout.slices_per_dimension
    (8, {'x': 2, 'y': 4})
    >>> str(layout)
    'x:rows,y:cols on rows:2,cols:4'

    Attributes:
      mesh_shape: pairs (mesh dimension, size).
      rules: pairs (tensor dimension, mesh dimension).
    """

    mesh_shape: Shape = ()
    rules: Rules = ()
    _typed: tuple[str, str] | None = dataclasses.field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, mesh_shape: str = "", layout: str = "") -> "Layout":
        """Parses a mesh shape and a layout.

        Args:
          mesh_shape: the mesh shape, such as "rows:2,cols:2"; "" is one processor.
          layout: the rules, such as "x:rows,y:cols".

        Raises:
          LayoutError: a string cannot be parsed. The error lists all faults of both strings.
        """
        shape: Shape = ()
        rules: Rules = ()
        reports = []
        try:
            shape = parse_shape(mesh_shape, what="mesh_shape")
        except LayoutError as error:
            reports.append(str(error))
        try:
            rules = parse_layout(layout)
        except LayoutError as error:
            reports.append(str(error))
        if reports:
            raise LayoutError("\n".join(reports))
        return cls(shape, rules, (mesh_shape, layout))

    @classmethod
    def of(cls, layout: "Layout | str", mesh_shape: str = "") -> "Layout":
        """Converts two strings to a `Layout`; returns a `Layout` unchanged.

        Raises:
          LayoutError: a string cannot be parsed, or `mesh_shape` is given with a `Layout`, which includes a mesh.
        """
        if not isinstance(layout, Layout):
            return cls.parse(mesh_shape, layout)
        if mesh_shape:
            raise LayoutError(
                f"mesh_shape '{mesh_shape}' conflicts with the layout '{layout}', which already includes a mesh. "
                "Fix: omit mesh_shape, or pass the layout as a string."
            )
        return layout

    def __str__(self) -> str:
        return f"{self.rules_string} on {self.mesh_string}" if self.mesh_shape else "one processor"

    @property
    def mesh_string(self) -> str:
        """The mesh shape as a string."""
        return format_shape(self.mesh_shape)

    @property
    def rules_string(self) -> str:
        """The rules as a string."""
        return format_rules(self.rules)

    @property
    def processors(self) -> int:
        """The number of processors in the mesh."""
        return math.prod(size for _, size in self.mesh_shape)

    @property
    def slices_per_dimension(self) -> dict[str, int]:
        """The number of slices of each tensor dimension that has a rule."""
        sizes = dict(self.mesh_shape)
        return {dim: sizes.get(onto, 1) for dim, onto in self.rules}

    def restrict(self, keeps: Callable[[str], bool]) -> "Layout":
        """Drops rules, and the mesh dimensions that only these rules use.

        >>> str(Layout.parse("rows:2,cores:2", "x:rows,batch:cores").restrict(lambda dim: dim != "batch"))
        'x:rows on rows:2'

        Args:
          keeps: a function that returns whether to keep the rule of a tensor dimension.
        """
        rules = tuple(rule for rule in self.rules if keeps(rule[0]))
        if rules == self.rules:
            return self
        dropped = {onto for _, onto in self.rules} - {onto for _, onto in rules}
        return Layout(tuple((name, size) for name, size in self.mesh_shape if name not in dropped), rules)

    def check_names(self, tensor_dims: Iterable[str]) -> tuple[str, ...]:
        """Checks that the rules name only dimensions that exist.

        Args:
          tensor_dims: dimension names of all tensors in the program.

        Returns:
          The mesh dimensions larger than 1 that no rule uses. All processors along such a dimension repeat the same
          work.

        Raises:
          LayoutError: names are unknown. The error marks each of them in the string that the user typed.
        """
        names, sizes = set(tensor_dims), dict(self.mesh_shape)
        if any(dim not in names or onto not in sizes for dim, onto in self.rules):
            mesh_shape, rules = self._typed or (self.mesh_string, self.rules_string)
            check_names(rules, mesh_shape, names)  # raises
        used = {onto for _, onto in self.rules}
        return tuple(name for name, size in self.mesh_shape if name not in used and size > 1)


ONE_PROCESSOR = Layout()
