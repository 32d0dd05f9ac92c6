"""The gin configurable `setup`: the mesh, the layout, the resolution and the batch of a job."""

import dataclasses
import functools
from typing import Any

import gin

from mtf_imaging.data.sampling.sampling import parse_spacing
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.devices import AUTO, Devices
from mtf_imaging.jobs.settings import check_count
from mtf_imaging.layout import Layout


@gin.configurable("setup", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class JobSetup:
    """The setup of a job. The files in layouts/ and the setup flags bind it.

    Attributes:
      mesh_shape: names and sizes of the mesh dimensions, for instance "rows:2,cols:2"; "" for one processor.
      layout: rules that split dimensions over mesh dimensions, for instance "x:rows,y:cols"; "" splits nothing. With
        "auto", train chooses mesh_shape and layout for the available devices, and saves them with the run.
      mesh_impl: "stacked", "placement", "collective" for several processes, or "auto" to choose by the available
        devices.
      resolution: voxels along x, y and z, for instance "64" or "x:192,y:192,z:96"; None for the resolution of the
        records. For photos and objects, the size of the images in training, for instance "513" or
        "height:513,width:1025"; None for `Photos.size` or `Objects.size`.
      spacing: voxel size in mm along x, y and z, for instance "1.5,1.5,2"; "" for grids that span the whole field of
        view of each volume; None for the spacing of the records.
      batch_size: volumes in a step, over all processors.
      micro_batches: number of micro-batches of a step.
      cluster: servers that compute, for instance "host0:2222,host1:2222"; "" for this process.
      cluster_timeout: seconds without a sign of life after which a server counts as lost.
      communication: how several processes sum and gather: "ring", "nccl" between GPUs, or "auto".
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
    communication: str = "auto"

    def __post_init__(self):
        parse_spacing(self.spacing)
        _ = self.has_auto_layout or self.parsed_layout, self.devices  # these check their fields
        check_count("batch_size", self.batch_size)
        check_count("micro_batches", self.micro_batches)

    @property
    def has_auto_layout(self) -> bool:
        """Whether train chooses the mesh and the layout."""
        return self.layout == AUTO

    @functools.cached_property
    def parsed_layout(self) -> Layout:
        """The mesh and its rules.

        Raises:
          ConfigError: the layout is "auto".
        """
        if self.has_auto_layout:
            raise ConfigError(
                "only train chooses a layout for layout 'auto'. Fix: give mesh_shape and layout; search ranks them.",
                ["mesh_shape", "layout"],
            )
        return Layout.parse(self.mesh_shape, self.layout)

    @functools.cached_property
    def devices(self) -> Devices:
        """The devices of the processors."""
        return Devices(self.mesh_impl, self.cluster, self.cluster_timeout, self.communication)

    @property
    def network(self) -> dict[str, Any]:
        """Keyword arguments of `jobs.evaluate` and `jobs.predict`."""
        return {
            "layout": self.parsed_layout,
            "devices": self.devices,
            "resolution": self.resolution,
            "spacing": self.spacing,
        }
