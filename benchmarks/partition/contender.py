"""What a contender is, and the names by which a command line calls them."""

import dataclasses
import importlib
import math
from typing import Protocol

from benchmarks.partition.networks import Step

# kind -> (module of this package, class, what it is)
KINDS = {
    "tf": ("plain", "Plain", "plain TensorFlow, not partitioned, with its fused kernels"),
    "stacked": ("ours", "Stacked", "mtf_imaging, all processors on one device"),
    "placement": ("ours", "Placement", "mtf_imaging, a device a processor"),
    "nohalo": ("ours", "NoHalo", "mtf_imaging stacked, halos left out: wrong on purpose, the floor of any partition"),
    "servers": ("servers", "Servers", "mtf_imaging over local `mtf-imaging serve` processes, one a processor"),
    "upstream": ("upstream", "Upstream", "mesh_tensorflow's own convolutions with blocks and PlacementMeshImpl"),
    "torch": ("torch_step", "Torch", "PyTorch, not partitioned, channels last; where it is installed"),
    "jax": ("jax_step", "Jax", "JAX, jit with a sharded input; where it is installed"),
}
REFERENCE = "tf"
UNSPLIT = (REFERENCE, "torch")  # of which there is no mesh
EQUAL = ("stacked", "placement", "servers")  # those whose results must be the reference's
_MESH, _LAYOUT = ("rows", "cols", "planes"), ("x", "y", "z")


@dataclasses.dataclass(frozen=True)
class Contender:
    """Who takes the step: a kind, and how many processors along x, y and z.

    Attributes:
      kind: a key of `KINDS`.
      mesh: processors along the first one to three dimensions; () for who has no mesh.
    """

    kind: str
    mesh: tuple[int, ...] = ()

    @classmethod
    def parse(cls, word: str) -> "Contender":
        """Reads "tf", "2x2" (stacked) or "placement:2x2".

        Raises:
          ValueError: it is none; says why.
        """
        kind, _, mesh = word.rpartition(":") if ":" in word or word not in KINDS else (word, "", "")
        kind = kind or "stacked"
        if kind not in KINDS:
            raise ValueError(f"'{word}': '{kind}' is no contender; there are {', '.join(KINDS)}")
        if kind in UNSPLIT:
            if mesh:
                raise ValueError(f"'{word}': '{kind}' has no mesh; write '{kind}'")
            return cls(kind)
        numbers = mesh.split("x")
        if len(numbers) > 3 or not all(n.isdigit() and int(n) for n in numbers):
            raise ValueError(f"'{word}': '{mesh}' is no mesh of processors such as 2x2, at most three numbers")
        return cls(kind, tuple(int(n) for n in numbers))

    def __str__(self):
        return f"{self.kind}:{'x'.join(map(str, self.mesh))}" if self.mesh else self.kind

    @property
    def processors(self) -> int:
        return math.prod(self.mesh)

    @property
    def mesh_shape(self) -> str:
        return ",".join(f"{name}:{size}" for name, size in zip(_MESH, self.mesh))

    @property
    def layout(self) -> str:
        return ",".join(f"{dim}:{name}" for dim, name, _ in zip(_LAYOUT, _MESH, self.mesh))

    def load(self, step: Step) -> "Built":
        """Imports what the contender needs and makes it; the rest is timed."""
        module, name, _ = KINDS[self.kind]
        return getattr(importlib.import_module(f"benchmarks.partition.{module}"), name)(step, self)


class Built(Protocol):
    """What a contender offers to its process.

    Attributes:
      nodes: nodes of its compiled graph, None where there is no such thing.
    """

    nodes: int | None

    def __init__(self, step: Step, contender: Contender): ...

    def build(self) -> None:
        """From nothing to a step that can be taken."""

    def take(self) -> float:
        """Takes the step; returns its loss, from before the update, when all is done."""

    def device_peak(self) -> int | None:
        """Bytes that the fullest GPU has held at most; None where there is none."""

    def others(self) -> dict[str, int]:
        """Bytes that the other processes of this contender have held at most, and {} where there are none."""
