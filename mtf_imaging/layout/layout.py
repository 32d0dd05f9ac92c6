"""The value object of a layout: a mesh of processors, and which tensor dimension is split over which of its dimensions.

Strings are parsed where they enter, by `Layout.parse`; everything behind that takes a `Layout`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable

from mtf_imaging.errors import LayoutError
from mtf_imaging.layout.grammar import (
    Rules,
    Shape,
    check_names,
    format_rules,
    format_shape,
    parse_layout,
    parse_shape,
)

# How the processors of a mesh become devices: `mtf_imaging.meshes.make_mesh_impl`.
MESH_IMPLS = ("auto", "stacked", "placement")


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
        """Parses the two strings.

        Args:
          mesh_shape: the mesh, "rows:2,cols:2"; "" is one processor.
          layout: the rules, "x:rows,y:cols".

        Raises:
          LayoutError: a string that cannot be read, with all faults of both strings.
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
        """Returns a `Layout` as it is, and two strings as a `Layout`.

        Raises:
          LayoutError: a string that cannot be read, or a mesh shape beside a `Layout`, which has its own.
        """
        if not isinstance(layout, Layout):
            return cls.parse(mesh_shape, layout)
        if mesh_shape:
            raise LayoutError(
                f"mesh_shape '{mesh_shape}' beside the layout '{layout}', which has a mesh of its own. "
                "Fix: leave out mesh_shape, or give the layout as a string."
            )
        return layout

    def __str__(self) -> str:
        return f"{self.rules_string} on {self.mesh_string}" if self.mesh_shape else "one processor"

    @property
    def mesh_string(self) -> str:
        """The mesh as `parse` reads it."""
        return format_shape(self.mesh_shape)

    @property
    def rules_string(self) -> str:
        """The rules as `parse` reads them."""
        return format_rules(self.rules)

    @property
    def processors(self) -> int:
        """The number of processors of the mesh."""
        return math.prod(size for _, size in self.mesh_shape)

    @property
    def slices_per_dimension(self) -> dict[str, int]:
        """The number of slices of each tensor dimension that has a rule."""
        sizes = dict(self.mesh_shape)
        return {dim: sizes.get(onto, 1) for dim, onto in self.rules}

    def restrict(self, keeps: Callable[[str], bool]) -> "Layout":
        """Drops rules, and the mesh dimensions that no rule uses any more.

        >>> str(Layout.parse("rows:2,cores:2", "x:rows,batch:cores").restrict(lambda dim: dim != "batch"))
        'x:rows on rows:2'

        Args:
          keeps: a function that returns whether the rule of a tensor dimension stays.
        """
        kept = tuple(rule for rule in self.rules if keeps(rule[0]))
        if kept == self.rules:
            return self
        dropped = {onto for _, onto in self.rules} - {onto for _, onto in kept}
        return Layout(tuple((name, size) for name, size in self.mesh_shape if name not in dropped), kept)

    def check_names(self, tensor_dims: Iterable[str]) -> tuple[str, ...]:
        """Checks that the rules name dimensions that exist.

        Args:
          tensor_dims: the names of all dimensions that some tensor of the program has.

        Returns:
          The mesh dimensions larger than 1 that no rule uses: every processor along them repeats the same work.

        Raises:
          LayoutError: one error with every unknown name, each marked in the string that the user typed.
        """
        known, sizes = set(tensor_dims), dict(self.mesh_shape)
        if any(dim not in known or onto not in sizes for dim, onto in self.rules):
            mesh_shape, rules = self._typed or (self.mesh_string, self.rules_string)
            check_names(rules, mesh_shape, known)  # raises, with a caret below each unknown name
        used = {onto for _, onto in self.rules}
        return tuple(name for name, size in self.mesh_shape if name not in used and size > 1)


ONE_PROCESSOR = Layout()
