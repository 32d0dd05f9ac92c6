"""The network, the batch, the layout and the devices of a step."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.engine.layout import MESH_IMPLS, ONE_PROCESSOR, Layout
from mtf_imaging.settings.setting import Settings, documented, setting, settings
from mtf_imaging.settings.values import DTYPES, Resolution, Spacing

if TYPE_CHECKING:
    from mtf_imaging.data.images.spacing_table import SpacingTable
    from mtf_imaging.training.task import Task

COMMUNICATION = ("auto", "ring", "nccl")


@settings
class NetworkSettings(Settings):
    """The network of a job.

    Attributes:
      task: the network and its loss, a `training.task.Task`.
      dtype: the dtype of images and activations. float32; bfloat16 for half the memory, with weights, norm statistics,
        the optimizer and losses still in float32; float64 for everything, to compare runs digit by digit.
    """

    task: "Task" = setting()
    dtype: str = setting(default="float32", choices=DTYPES, example='"bfloat16"')


@settings
class BatchSettings(Settings):
    """The images of a step.

    Attributes:
      resolution: voxels along x, y and z, for instance 64 or x:192,y:192,z:96; for photos and objects, the size of the
        images in training, for instance 513 or height:513,width:1025. Default: that of the records, the data set or the
        run.
      batch_size: number of images in a step, summed over all processors.
      micro_batches: number of equal pieces of a batch, computed one after the other, so that a step needs the memory of
        one piece.
      xla: whether XLA compiles the training step, for one device that computes all processors. The losses agree up to
        rounding. XLA is for GPUs: on a CPU it is much slower.
    """

    resolution: Resolution | None = setting(default=None, unit="voxels", flag=True, recorded=True)
    batch_size: int = setting(default=1, unit="images", least=1, flag=True)
    micro_batches: int = setting(default=1, least=1, flag=True)
    xla: bool = setting(default=False, flag=True)


@settings
class SpacingSettings(Settings):
    """The voxel size of the images.

    Attributes:
      spacing: voxel size in mm along x, y and z, for instance 1.5,1.5,2; an empty string for grids that span the whole
        field of view of each volume. Default: that of the records or the run.
    """

    spacing: Spacing | None = setting(default=None, unit="mm", flag=True, recorded=True)


@documented
@dataclasses.dataclass(frozen=True)
class Devices(Settings):
    """The devices that compute the processors of a mesh.

    Attributes:
      mesh_impl: the mesh implementation. stacked computes all processors on one device, placement distributes them over
        several devices, and collective over several processes. auto selects collective for several processes, placement
        for several GPUs, and stacked otherwise.
      communication: how several processes sum and gather: ring over the network of the hosts, nccl between GPUs, or
        auto.
    """

    mesh_impl: str = setting(default="auto", choices=MESH_IMPLS, flag=True)
    communication: str = setting(default="auto", choices=COMMUNICATION, flag=True)


@settings
class LayoutSettings(Settings):
    """The mesh and the layout of a job, as text.

    Attributes:
      mesh_shape: names and sizes of the mesh dimensions, for instance rows:2,cols:2. Default: one processor.
      layout: rules that split dimensions over mesh dimensions, for instance x:rows,y:cols; an empty string splits
        nothing. With auto, train chooses `mesh_shape`, `layout` and `sequential` for the available devices, and saves
        them with the run.
      sequential: names of mesh dimensions whose processors take turns on their device, for instance slabs, so that the
        device needs the memory of one slice. The results are the same.
      offload_dir: folder in which the slices of processors wait for their turn. Default: the memory of the host if
        there is a GPU, else TMPDIR, or that of /tmp and /var/tmp with more space.
    """

    mesh_shape: str = setting(default="", flag=True)
    layout: str = setting(default="", flag=True)
    sequential: str = setting(default="", flag=True)
    offload_dir: str | None = setting(default=None, flag=True)


@settings
class DevicesSetting(Settings):
    """The devices of a job in Python.

    Attributes:
      devices: the devices that compute, as `Devices`. Default: the devices of this process, or of all processes of the
        program.
    """

    devices: Devices | None = setting(default=None)


@settings
class PlacementSettings(DevicesSetting):
    """The layout and the devices of a job in Python.

    Attributes:
      layout: the mesh of processors and the dimensions to split over it. For prediction, a rule for batch is dropped.
    """

    layout: Layout = setting(default=ONE_PROCESSOR)


@settings
class ProgressSettings(Settings):
    """What a job shows while it runs.

    Attributes:
      progress: whether to show progress bars and print tables.
    """

    progress: bool = setting(default=True, shared=False)


@settings
class WorkerSettings(Settings):
    """The processes that read or score cases.

    Attributes:
      workers: number of processes that read or score cases. Default: one per core, or fewer if memory is short.
    """

    workers: int | None = setting(default=None, least=1, flag=True, shared=False)


@settings
class SpacingTableSettings(Settings):
    """Voxel sizes of files that lack them.

    Attributes:
      spacing_table: CSV file, case,x,y,z, with voxel sizes in mm for files whose headers lack them (an identity
        affine).
    """

    spacing_table: "str | Path | SpacingTable | None" = setting(default=None, flag="spacing_csv", shared=False)
