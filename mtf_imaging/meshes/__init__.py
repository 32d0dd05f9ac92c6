"""Mesh implementations: how the available devices store and exchange the slices of a mesh of processors."""

import functools
import logging
from collections.abc import Sequence

from mtf_imaging.compat import mtf
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.layout import MESH_IMPLS, Layout
from mtf_imaging.meshes.cluster import connect
from mtf_imaging.meshes.devices import default_devices, server_number
from mtf_imaging.meshes.gpus import grow_memory
from mtf_imaging.meshes.grid import ShardGrid
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl

__all__ = ["MESH_IMPLS", "ShardMeshImpl", "connect", "default_devices", "make_mesh_impl"]

_logger = logging.getLogger(__name__)


def make_mesh_impl(mesh_impl: str, layout: Layout, devices: Sequence[str] | None = None) -> ShardMeshImpl:
    """Creates the mesh implementation with the given name.

    Args:
      mesh_impl: "stacked" puts all processors on one device. "placement" distributes processors over devices. "auto" is
        placement if there are 2 or more GPUs that divide the mesh evenly, or devices of several servers, else stacked.
      layout: the mesh and its rules.
      devices: device strings; default: `default_devices()`.

    Returns:
      A `ShardMeshImpl`.
    """
    if mesh_impl not in MESH_IMPLS:
        raise NotSupportedError(f"mesh_impl {mesh_impl!r} is unknown. Fix: choose one of {', '.join(MESH_IMPLS)}.")
    grow_memory()
    shape, rules = mtf.convert_to_shape(list(layout.mesh_shape)), mtf.convert_to_layout_rules(list(layout.rules))
    devices = list(devices or default_devices())
    if mesh_impl == "auto":
        gpus = [device for device in devices if "GPU" in device.upper()]
        fits = len(gpus) > 1 and ShardGrid.make(shape.to_integer_list, len(gpus)).num_shards == len(gpus)
        several_servers = len({server_number(device) for device in devices} - {None}) > 1
        mesh_impl = "placement" if fits or several_servers else "stacked"
    impl = ShardMeshImpl(shape, rules, devices[:1] if mesh_impl == "stacked" else devices)
    if impl.grid.stack_size > 1:
        _log_sharing(impl.size, len(impl.devices))
    return impl


@functools.cache  # logs once, even if many programs use the same mesh
def _log_sharing(processors: int, devices: int) -> None:
    _logger.info("%d processors simulated on %d device%s", processors, devices, "s" if devices > 1 else "")
