"""Joins the processes that run one job together, and checks that its settings fit them."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.processes.processes import find_processes
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.step import Devices

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group


def join(devices: Devices) -> "Group":
    """Joins the other processes that run this program, if there are any.

    Call it before any other use of TensorFlow. A second call does nothing.

    Args:
      devices: the settings of the devices.

    Returns:
      The `Group` of this process, which may have no other members.

    Raises:
      ConfigError: the settings contradict the number of processes.
      ClusterError: a process does not start in time.
    """
    from mtf_imaging.engine.meshes import (  # imported here because they import TensorFlow, which takes seconds
        group,
        runtime,
    )

    current = runtime.current()
    processes = current.processes if current else find_processes()
    if processes is None:
        if devices.mesh_impl == "collective":
            raise ConfigError(
                "mesh_impl 'collective' needs several processes, but this process runs alone. Fix: start the program "
                "with a launcher, with srun or with TF_CONFIG, or choose another mesh_impl.",
                ["mesh_impl"],
            )
        return group.current()
    if devices.mesh_impl not in ("auto", "collective"):
        raise ConfigError(
            f"mesh_impl '{devices.mesh_impl}' uses the devices of one process, but this program runs as "
            f"{processes.num} processes. Fix: use mesh_impl 'auto' or 'collective', or start one process.",
            ["mesh_impl"],
        )
    runtime.join(processes, devices.communication)
    return group.current()


@contextlib.contextmanager
def joined(devices: Devices, layout: Layout) -> "Iterator[Group]":
    """Runs programs within the block in all processes that run this program.

    The block ends when all processes have ended it.

    Args:
      devices: the settings of the devices.
      layout: the layout. Its mesh must use every process.

    Yields:
      The `Group` of this process, which may have no other members.

    Raises:
      ConfigError: the mesh would leave a process idle, the processes have different layouts, or `join` finds a
        contradiction.
      ClusterError: a process does not answer.
    """
    group = join(devices)
    if group.num > 1:
        _check_divides(layout, group.num)
        group.agree({"the layout": str(layout)})
    yield group
    group.barrier()


def _check_divides(layout: Layout, num: int) -> None:
    """Raises ConfigError unless `num` processes can share the mesh equally, with at least one processor each."""
    from mtf_imaging.engine.meshes.grid import ShardGrid

    shards = ShardGrid.make([size for _, size in layout.mesh_shape], num).num_shards
    if shards < num:
        raise ConfigError(
            f"mesh '{layout.mesh_string}' cannot be divided equally among {num} processes: its {layout.processors} "
            f"processor{'s' * (layout.processors > 1)} make at most {shards} equal box{'es' * (shards > 1)}. Fix: "
            f"choose a mesh_shape whose sizes multiply to {num} or a multiple of it, or start {shards} "
            f"process{'es' * (shards > 1)}.",
            ["mesh_shape"],
        )
