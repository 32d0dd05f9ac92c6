"""Mesh implementations: how the available devices store and exchange the processors' slices."""

import functools
import logging
import math
from collections.abc import Sequence

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import MESH_IMPLS, Layout
from mtf_imaging.engine.meshes import runtime
from mtf_imaging.engine.meshes.devices import default_devices, grow_memory
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.runtime import Runtime, join
from mtf_imaging.engine.meshes.turn_mesh import TurnMesh
from mtf_imaging.errors import ConfigError, NotSupportedError

__all__ = ["MESH_IMPLS", "Runtime", "ShardMeshImpl", "default_devices", "join", "make_mesh_impl"]

_SPARE = "spare processes"  # a name that is not valid in rules
_logger = logging.getLogger(__name__)


def make_mesh_impl(mesh_impl: str, layout: Layout, devices: Sequence[str] | None = None) -> ShardMeshImpl:
    """Creates the mesh implementation with the given name.

    Args:
      mesh_impl: "stacked" puts all processors on one device. "placement" distributes processors over devices of this
        process. "collective" distributes them over the processes that this process has joined. "auto" is collective if
        this process has joined others, placement if there are 2 or more GPUs that divide the mesh evenly, else stacked.
      layout: the mesh and its rules.
      devices: device strings; default: `default_devices()`. A collective mesh ignores them.

    Returns:
      A `ShardMeshImpl`.

    Raises:
      ConfigError: the mesh is collective, but this process has not joined others, or the mesh cannot be divided equally
        among them.
    """
    if mesh_impl not in MESH_IMPLS:
        raise NotSupportedError(f"mesh_impl {mesh_impl!r} is unknown. Fix: choose one of {', '.join(MESH_IMPLS)}.")
    grow_memory()
    shape, rules = mtf.convert_to_shape(list(layout.mesh_shape)), mtf.convert_to_layout_rules(list(layout.rules))
    in_turns = [name for name, size in layout.mesh_shape if name in layout.sequential and size > 1]
    joined = runtime.current()
    if mesh_impl == "collective" or (mesh_impl == "auto" and joined is not None and devices is None):
        return _collective(joined, layout, rules, in_turns)
    devices = list(devices or default_devices())
    if mesh_impl == "auto":
        gpus = [device for device in devices if "GPU" in device.upper()]
        at_once = [dim.size for dim in shape.dims if dim.name not in in_turns]
        fits = len(gpus) > 1 and ShardGrid.make(at_once, len(gpus)).num_shards == len(gpus)
        mesh_impl = "placement" if fits else "stacked"
    devices = devices[:1] if mesh_impl == "stacked" else devices
    if in_turns:
        return TurnMesh(shape, rules, devices, in_turns)
    impl = ShardMeshImpl(shape, rules, devices)
    if impl.grid.stack_size > 1:
        _log_sharing(impl.size, len(impl.devices))
    return impl


def _collective(
    joined: runtime.Runtime | None, layout: Layout, rules: mtf.LayoutRules, in_turns: Sequence[str]
) -> ShardMeshImpl:
    """Creates a mesh with one shard for each process.

    A mesh with fewer processors than processes, such as a program without a layout has, gets an additional dimension.
    Nothing is split over it, so several processes do the same work.
    """
    if joined is None:
        raise ConfigError(
            "mesh_impl 'collective' needs several processes, but this process runs alone. Fix: start the program with "
            "a launcher that sets TF_CONFIG, and call mi.meshes.join() before any other use of TensorFlow.",
            ["mesh_impl"],
        )
    num, at_once = joined.processes.num, [size for name, size in layout.mesh_shape if name not in in_turns]
    shards, processors = ShardGrid.make(at_once, num).num_shards, math.prod(at_once)
    if num % shards or (shards < num and shards < processors):
        raise ConfigError(
            f"mesh '{layout.mesh_string}' cannot be divided equally among {num} processes: the {processors} processors "
            f"that compute at once make at most {shards} equal boxes. Fix: choose a mesh_shape whose sizes, without "
            f"those in sequential, multiply to {num} or a multiple of it, or start {shards} processes.",
            ["mesh_shape"],
        )
    spare = ((_SPARE, num // shards),) if shards < num else ()
    shape = mtf.convert_to_shape([*layout.mesh_shape, *spare])
    if in_turns:
        return TurnMesh(shape, rules, (), in_turns, joined.transport)
    return ShardMeshImpl(shape, rules, (), transport=joined.transport(shape.to_integer_list))


@functools.cache  # logs once, even if many programs use the same mesh
def _log_sharing(processors: int, devices: int) -> None:
    _logger.info("%d processors simulated on %d device%s", processors, devices, "s" if devices > 1 else "")
