"""The contenders of a comparison, and their names on the command line."""

import dataclasses
import importlib
import math
from typing import Protocol

from benchmarks.partition.networks import Step

# {kind: (module of this package, class, description)}
KINDS = {
    "tf": ("plain", "Plain", "plain TensorFlow, not partitioned, with its fused kernels"),
    "stacked": ("ours", "Stacked", "mtf_imaging, all processors on one device"),
    "tf_xla": ("plain", "PlainXla", "plain TensorFlow, compiled by XLA"),
    "xla": ("ours", "Xla", "mtf_imaging, all processors on one device, compiled by XLA"),
    "placement": ("ours", "Placement", "mtf_imaging, one processor per device"),
    "turns": ("ours", "InTurns", "mtf_imaging, processors that take turns on one device"),
    "nohalo": ("ours", "NoHalo", "mtf_imaging, stacked without halos: wrong results, but a lower bound for the time"),
    "collective": ("processes", "Collective", "mtf_imaging in local processes, one per processor"),
    "upstream": ("upstream", "Upstream", "mesh_tensorflow, with its convolutions with blocks and PlacementMeshImpl"),
    "torch": ("torch_step", "Torch", "PyTorch, not partitioned, channels last; needs PyTorch"),
    "jax": ("jax_step", "Jax", "JAX, jit with a sharded input; needs JAX"),
}
REFERENCE = "tf"
UNSPLIT = (REFERENCE, "tf_xla", "torch")  # kinds without a mesh
EQUAL = ("stacked", "xla", "placement", "turns", "collective")  # kinds whose results must equal the reference
_MESH, _LAYOUT = ("rows", "cols", "planes"), ("x", "y", "z")


@dataclasses.dataclass(frozen=True)
class Contender:
    """A kind of implementation and its mesh of processors along x, y and z.

    Attributes:
      kind: a key of `KINDS`.
      mesh: processors along the first one to three dimensions; () for a kind without a mesh.
      sizes: voxels along x, y and z; () for the volume of the comparison.
    """

    kind: str
    mesh: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    @classmethod
    def parse(cls, word: str) -> "Contender":
        """Parses "tf", "2x2" (stacked), "placement:2x2" or "2x2@127" (stacked, with volumes of 127^3).

        Raises:
          ValueError: the word is not a contender.
        """
        word, _, volume = word.partition("@")
        sizes = _sizes(volume) if volume else ()
        kind, _, mesh = word.rpartition(":") if ":" in word or word not in KINDS else (word, "", "")
        kind = kind or "stacked"
        if kind not in KINDS:
            raise ValueError(f"'{word}': '{kind}' is not a kind of contender; choose from {', '.join(KINDS)}")
        if kind in UNSPLIT:
            if mesh:
                raise ValueError(f"'{word}': '{kind}' takes no mesh; write '{kind}'")
            return cls(kind, (), sizes)
        numbers = mesh.split("x")
        if len(numbers) > 3 or not all(n.isdigit() and int(n) for n in numbers):
            raise ValueError(f"'{word}': '{mesh}' is not a mesh of one to three positive integers, such as 2x2")
        return cls(kind, tuple(int(n) for n in numbers), sizes)

    def __str__(self):
        mesh = f":{'x'.join(map(str, self.mesh))}" if self.mesh else ""
        return f"{self.kind}{mesh}" + (f"@{'x'.join(map(str, self.sizes))}" if self.sizes else "")

    def step(self, step: Step) -> Step:
        """Returns the step of the comparison, with the volume of this contender if it has one."""
        return dataclasses.replace(step, sizes=self.sizes) if self.sizes else step

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
        """Imports the contender's libraries and creates it; these steps are not timed."""
        module, name, _ = KINDS[self.kind]
        return getattr(importlib.import_module(f"benchmarks.partition.{module}"), name)(step, self)


def _sizes(volume: str) -> tuple[int, ...]:
    """Parses the voxels along x, y and z: "127" or "127x128x64"."""
    numbers = volume.split("x")
    if len(numbers) not in (1, 3) or not all(n.isdigit() and int(n) for n in numbers):
        raise ValueError(f"'{volume}' is not a volume of one or three positive integers, such as 127 or 127x128x64")
    return tuple(int(n) for n in numbers) * (3 // len(numbers))


class Built(Protocol):
    """The interface of a contender to its process.

    Attributes:
      nodes: number of nodes of its compiled graph; None for a contender without a graph.
    """

    nodes: int | None

    def __init__(self, step: Step, contender: Contender): ...

    def build(self) -> None:
        """Builds and compiles the step."""

    def take(self) -> float:
        """Takes one step, waits until it is complete, and returns the loss from before the update."""

    def device_peak(self) -> int | None:
        """Returns the peak bytes of the fullest GPU; None without a GPU."""

    def others(self) -> dict[str, int]:
        """Returns the peak bytes of the other processes of this contender; {} without other processes."""
