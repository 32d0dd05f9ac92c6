"""The value object of a layout: a mesh of processors, and the rules that split tensor dimensions over it.

Public functions parse strings with `Layout.parse`; internal functions take a `Layout`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping

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
from mtf_imaging.spelling import did_you_mean

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
      sequential: names of the mesh dimensions whose processors take turns on their device.
      offload_dir: the folder in which the slices of processors wait for their turn; None for the default of `Program`.
    """

    mesh_shape: Shape = ()
    rules: Rules = ()
    sequential: tuple[str, ...] = ()
    offload_dir: str | None = dataclasses.field(default=None, compare=False, repr=False)
    _typed: tuple[str, str] | None = dataclasses.field(default=None, compare=False, repr=False)

    @classmethod
    def parse(
        cls, mesh_shape: str = "", layout: str = "", sequential: str = "", offload_dir: str | None = None
    ) -> "Layout":
        """Parses a mesh shape and a layout.

        Args:
          mesh_shape: the mesh shape, such as "rows:2,cols:2"; "" is one processor.
          layout: the rules, such as "x:rows,y:cols".
          sequential: names of mesh dimensions, separated by commas.
          offload_dir: a folder.

        Raises:
          LayoutError: a string cannot be parsed, or the mesh has no dimension with a name in `sequential`. The error
            lists all faults of the strings.
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
        names = tuple(name.strip() for name in sequential.split(",") if name.strip())
        sizes = dict(shape)
        reports += [] if reports else [_not_in_mesh(name, sizes, mesh_shape) for name in names if name not in sizes]
        if reports:
            raise LayoutError("\n".join(reports))
        return cls(shape, rules, names, offload_dir, (mesh_shape, layout))

    @classmethod
    def of(
        cls, layout: "Layout | str", mesh_shape: str = "", sequential: str = "", offload_dir: str | None = None
    ) -> "Layout":
        """Converts the arguments of `parse` to a `Layout`; returns a `Layout` unchanged.

        Raises:
          LayoutError: a string cannot be parsed, or another argument is given with a `Layout`, which includes it.
        """
        if not isinstance(layout, Layout):
            return cls.parse(mesh_shape, layout, sequential, offload_dir)
        others = {"mesh_shape": mesh_shape, "sequential": sequential, "offload_dir": offload_dir}
        for name, value in others.items():
            if value:
                raise LayoutError(
                    f"{name} '{value}' conflicts with the layout '{layout}', which already includes a mesh. "
                    f"Fix: omit {name}, or pass the layout as a string."
                )
        return layout

    def __str__(self) -> str:
        turns = f", {' and '.join(self.sequential)} in turns" if self.sequential else ""
        return f"{self.rules_string} on {self.mesh_string}{turns}" if self.mesh_shape else "one processor"

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
    def turns(self) -> int:
        """The number of processors that take turns on a device; 1 if all compute at the same time."""
        return math.prod(size for name, size in self.mesh_shape if name in self.sequential)

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
        shape = tuple((name, size) for name, size in self.mesh_shape if name not in dropped)
        turns = tuple(name for name in self.sequential if name not in dropped)
        return Layout(shape, rules, turns, self.offload_dir)

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


def _not_in_mesh(name: str, sizes: Mapping[str, int], mesh_shape: str) -> str:
    return (
        f"sequential names '{name}', but mesh_shape '{mesh_shape}' has no such dimension.{did_you_mean(name, sizes)} "
        "Fix: name mesh dimensions whose processors take turns, such as mesh_shape 'slabs:8', layout 'x:slabs', "
        "sequential 'slabs'."
    )


ONE_PROCESSOR = Layout()
