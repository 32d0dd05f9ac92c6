"""What the same job can be run with, whatever the command: the mesh, the layout, the resolution and the batch."""

import dataclasses
import math

import gin

from mtf_imaging.data.sampling.sampling import parse_spacing
from mtf_imaging.errors import ConfigError
from mtf_imaging.layout import parse_layout, parse_shape
from mtf_imaging.servers import parse_servers
from mtf_imaging.spelling import did_you_mean

MESH_IMPLS = ("auto", "stacked", "placement")


@gin.configurable("setup", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class JobSetup:
    """The setup of a job, bound by the files in layouts/ and by the setup flags.

    Attributes:
      mesh_shape: processors, as "rows:2,cols:2"; "" for one.
      layout: which dimension is split over which of the mesh, as "x:rows,y:cols"; "" for none.
      mesh_impl: "stacked", "placement", or "auto" for the one that suits the devices.
      resolution: voxels along x, y and z, as "64" or "x:192,y:192,z:96"; None for that of the records.
      spacing: size of a voxel in mm along x, y and z, as "1.5,1.5,2"; "" for grids that span the whole field of view of
        each volume; None for that of the records.
      batch_size: volumes in a step, over all processors.
      micro_batches: parts that a step computes its batch in, one after the other, in the memory of one.
      cluster: servers that compute, as "host0:2222,host1:2222"; "" for this process.
      cluster_timeout: seconds that a server may let this process wait for a sign of life.
    """

    mesh_shape: str = ""
    layout: str = ""
    mesh_impl: str = "auto"
    resolution: str | int | None = None
    batch_size: int = 1
    micro_batches: int = 1
    spacing: str | float | tuple[float, float, float] | None = None
    cluster: str = ""
    cluster_timeout: float = 30.0

    def __post_init__(self):
        parse_shape(self.mesh_shape, "mesh shape")
        parse_layout(self.layout)
        parse_spacing(self.spacing)
        if self.mesh_impl not in MESH_IMPLS:
            hint = did_you_mean(str(self.mesh_impl), MESH_IMPLS)
            raise ConfigError(f"mesh_impl {self.mesh_impl!r} is none of {', '.join(MESH_IMPLS)}.{hint}")
        for name in ("batch_size", "micro_batches"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} must be a whole number from 1 up, not {value!r}.")
        if len(parse_servers(self.cluster)) > 1 and self.mesh_impl == "stacked":
            raise ConfigError(
                f"mesh_impl 'stacked' puts all processors on one device, and cluster '{self.cluster}' has several "
                "servers. Fix: mesh_impl 'placement', or one server."
            )
        if not self.cluster_timeout > 0:
            raise ConfigError(f"cluster_timeout must be above 0 seconds, not {self.cluster_timeout!r}.")

    @property
    def processors(self) -> int:
        """Number of processors of the mesh."""
        return math.prod(size for _, size in parse_shape(self.mesh_shape, "mesh shape"))

    def of_program(self) -> dict:
        """What of it a `Program` takes, by the names of its arguments."""
        return {"mesh_shape": self.mesh_shape, "layout": self.layout, "mesh_impl": self.mesh_impl}
