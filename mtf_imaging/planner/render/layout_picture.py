"""The contents of a layout picture, independent of the drawing library."""

import dataclasses
from collections.abc import Sequence

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout


@dataclasses.dataclass(frozen=True)
class LayoutPicture:
    """The contents of a layout picture.

    Attributes:
      volume: pairs (dimension, voxels) of the 1 to 3 spatial dimensions of the image.
      layout: the layout; it may contain rules for other dimensions.
      halo: voxels (before, after) of the widest convolution at full resolution, by spatial dimension.
      memory: pairs (purpose, bytes) on one device; empty if unknown.
      memory_recomputed: pairs (purpose, bytes) with recomputed activations; empty omits this bar.
      device_memory: bytes of device memory, or None.
      device_name: the name of the device.
      title: the title of the picture; default: the mesh and the layout.
    """

    volume: Sequence[tuple[str, int]]
    layout: Layout = ONE_PROCESSOR
    halo: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    memory: Sequence[tuple[str, int]] = ()
    memory_recomputed: Sequence[tuple[str, int]] = ()
    device_memory: int | None = None
    device_name: str = "device"
    title: str = ""
