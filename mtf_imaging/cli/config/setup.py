"""What the same job can be run with, whatever the command: the mesh, the layout, the resolution and the batch."""

import dataclasses
import functools
from typing import Any

import gin

from mtf_imaging.data.sampling.sampling import parse_spacing
from mtf_imaging.jobs.devices import Devices
from mtf_imaging.jobs.settings import check_count
from mtf_imaging.layout import Layout


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
        parse_spacing(self.spacing)
        _ = self.parsed_layout, self.devices  # which check what they are made of
        check_count("batch_size", self.batch_size)
        check_count("micro_batches", self.micro_batches)

    @functools.cached_property
    def parsed_layout(self) -> Layout:
        """The mesh and its rules."""
        return Layout.parse(self.mesh_shape, self.layout)

    @functools.cached_property
    def devices(self) -> Devices:
        """Where the processors are."""
        return Devices(self.mesh_impl, self.cluster, self.cluster_timeout)

    @property
    def network(self) -> dict[str, Any]:
        """Keyword arguments of `jobs.evaluate` and `jobs.predict`."""
        return {
            "layout": self.parsed_layout,
            "devices": self.devices,
            "resolution": self.resolution,
            "spacing": self.spacing,
        }
