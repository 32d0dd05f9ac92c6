"""The compilation of a program by XLA: its device, and clear errors."""

import contextlib
import functools
from collections.abc import Callable, Iterator

import tensorflow as tf

from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.meshes.turn_mesh import TurnMesh
from mtf_imaging.errors import NotSupportedError, reason


def compilation(mesh: ShardMeshImpl, xla: bool) -> Callable[[], contextlib.AbstractContextManager]:
    """Returns a function of contexts in which the function of a program is called.

    XLA compiles the function in the first call, which raises `NotSupportedError` if it cannot compile an operation.

    Args:
      mesh: the mesh of the program.
      xla: whether XLA compiles the program.

    Raises:
      NotSupportedError: XLA has to compile it, but its processors do not compute together on one device.
    """
    if not xla:
        return contextlib.nullcontext
    several = "several processes" if mesh.transport.is_between_processes else f"{len(mesh.devices)} devices"
    what = "processors that take turns" if isinstance(mesh, TurnMesh) else several
    if what != "1 devices":
        raise NotSupportedError(
            f"xla compiles a program for one device that computes all processors at once, but the program has {what}. "
            "Fix: leave xla out, or use mesh_impl 'stacked' without sequential.",
            ["xla", "mesh_impl", "sequential"],
        )
    return functools.partial(_compiled_on, mesh.devices[0])


@contextlib.contextmanager
def _compiled_on(device: str) -> Iterator[None]:
    """Calls a compiled function on a device, because XLA ignores the devices of its operations."""
    try:
        with tf.device(device):
            yield
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
        raise NotSupportedError(
            f"XLA cannot compile the program: {reason(error)}. Fix: leave xla out.", ["xla"]
        ) from error
