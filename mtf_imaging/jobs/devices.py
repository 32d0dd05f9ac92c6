"""The devices of a job, which belong to this process, several processes, or servers that the job monitors."""

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mtf_imaging.errors import ClusterError, ConfigError, Interrupted, reason
from mtf_imaging.layout import Layout
from mtf_imaging.processes.leaving import leave
from mtf_imaging.processes.processes import find_processes
from mtf_imaging.processes.servers import Server, Watch, parse_servers, silence
from mtf_imaging.settings.setting import documented, values_of
from mtf_imaging.settings.step import DeviceSettings

if TYPE_CHECKING:
    from mtf_imaging.meshes.group import Group

_PATIENCE = 5.0  # seconds to wait for an answer after TensorFlow has failed
_FIX = (
    "The checkpoints are intact. Fix: make sure that `mtf-imaging serve` runs on every host, then start the same job "
    "again; training resumes from its last checkpoint. The other servers need no restart."
)


@documented
@dataclasses.dataclass(frozen=True)
class Devices(DeviceSettings):
    """The devices that compute the processors of a mesh.

    Raises:
      ConfigError: mesh_impl is unknown, an address is malformed, or the settings contradict each other.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(parse_servers(self.cluster)) > 1 and self.mesh_impl == "stacked":
            raise ConfigError(
                f"mesh_impl 'stacked' puts all processors on one device, but cluster '{self.cluster}' has several "
                "servers. Fix: use mesh_impl 'placement', or one server.",
                ["mesh_impl", "cluster"],
            )
        if not self.cluster_timeout > 0:
            raise ConfigError(f"cluster_timeout must be a positive number of seconds, not {self.cluster_timeout!r}.")

    def join(self) -> "Group":
        """Joins the other processes that run this program, if there are any.

        Call it before any other use of TensorFlow. A second call does nothing.

        Returns:
          The `Group` of this process, which may have no other members.

        Raises:
          ConfigError: the settings contradict the number of processes.
          ClusterError: a process does not start in time.
        """
        from mtf_imaging.meshes import (
            group,
            runtime,
        )  # imported here because they import TensorFlow, which takes seconds

        joined = runtime.current()
        processes = joined.processes if joined else find_processes()
        if processes is None:
            if self.mesh_impl == "collective":
                raise ConfigError(
                    "mesh_impl 'collective' needs several processes, but this process runs alone. Fix: start the "
                    "program with `mtf-imaging launch`, with srun or with TF_CONFIG, or choose another mesh_impl.",
                    ["mesh_impl"],
                )
            return group.current()
        if self.cluster:
            raise ConfigError(
                f"cluster '{self.cluster}' has servers that compute, but this program already runs as {processes.num} "
                "processes. Fix: remove cluster, or start one process.",
                ["cluster"],
            )
        if self.mesh_impl not in ("auto", "collective"):
            raise ConfigError(
                f"mesh_impl '{self.mesh_impl}' uses the devices of one process, but this program runs as "
                f"{processes.num} processes. Fix: use mesh_impl 'auto' or 'collective', or start one process.",
                ["mesh_impl"],
            )
        runtime.join(processes, self.communication)
        return group.current()

    @contextlib.contextmanager
    def joined(self, layout: Layout) -> "Iterator[Group]":
        """Runs programs within the block in all processes that run this program, or on the servers of `cluster`.

        Without other processes or servers, this method does nothing. With servers, it prints a table of the peak memory
        of each process when the block succeeds. With processes, the block ends when all of them have ended it.

        Args:
          layout: the layout. Its mesh must use every process or server.

        Yields:
          The `Group` of this process.

        Raises:
          ConfigError: the mesh would leave a process or a server idle, or `join` finds a contradiction.
          ClusterError: a process or a server does not answer. If a server hangs, TensorFlow waits for it forever, so
            this process exits with code 1 `cluster_timeout` seconds after the server's last answer.
        """
        group = self.join()
        if group.num > 1:
            _check_divides(layout, group.num)
            group.agree({"the layout": str(layout)})
            yield group
            group.barrier()
            return
        if not self.cluster:
            yield group
            return
        import tensorflow as tf  # imported here because it takes seconds

        from mtf_imaging.meshes import cluster

        servers = parse_servers(self.cluster)
        _check_all_compute(cluster.connect(self.cluster, self.cluster_timeout), servers, layout)
        ended = threading.Event()
        threading.Thread(target=_end_if_one_hangs, args=[servers, self.cluster_timeout, ended], daemon=True).start()
        try:
            yield group
            print(_memory_table(servers))
        except Interrupted:  # the checkpoint is saved; the servers may have received the same signal
            raise
        except Exception as error:
            gone = {server: why for server in servers if (why := silence(server, _PATIENCE))}
            if gone:
                raise ClusterError(_message(gone, len(servers))) from error
            if isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError) or "context_id" in str(error):
                raise ClusterError(f"a server restarted or lost its connection: {reason(error)}. {_FIX}") from error
            raise
        finally:
            ended.set()


def as_devices(own: DeviceSettings | None) -> Devices:
    """Returns the devices unchanged; the default devices for None."""
    return own if isinstance(own, Devices) else Devices(**({} if own is None else values_of(DeviceSettings, own)))


def _check_divides(layout: Layout, num: int) -> None:
    """Raises ConfigError unless `num` processes can share the mesh equally, with at least one processor each."""
    from mtf_imaging.meshes.grid import ShardGrid

    shards = ShardGrid.make([size for _, size in layout.mesh_shape], num).num_shards
    if shards < num:
        raise ConfigError(
            f"mesh '{layout.mesh_string}' cannot be divided equally among {num} processes: its {layout.processors} "
            f"processor{'s' * (layout.processors > 1)} make at most {shards} equal box{'es' * (shards > 1)}. Fix: "
            f"choose a mesh_shape whose sizes multiply to {num} or a multiple of it, or start {shards} "
            f"process{'es' * (shards > 1)}.",
            ["mesh_shape"],
        )


def _check_all_compute(devices: list[str], servers: tuple[Server, ...], layout: Layout) -> None:
    """Raises ConfigError if the mesh has no processor for one of the servers."""
    from mtf_imaging.meshes.devices import server_number
    from mtf_imaging.meshes.grid import ShardGrid

    sizes = [size for _, size in layout.mesh_shape]
    used = devices[: ShardGrid.make(sizes, len(devices)).num_shards]
    busy = {server_number(device) for device in used}
    idle = [str(server) for number, server in enumerate(servers) if number not in busy]
    if idle:
        raise ConfigError(
            f"mesh '{layout.mesh_string}' uses {len(used)} of the {len(devices)} devices of {len(servers)} servers and "
            f"leaves {', '.join(idle)} idle. Fix: choose a mesh_shape whose processors divide equally among "
            f"{len(devices)} devices, or list fewer servers in cluster.",
            ["mesh_shape", "cluster"],
        )


def _end_if_one_hangs(servers: Sequence[Server], timeout: float, ended: threading.Event) -> None:
    """Ends the process when a server has not answered for `timeout` seconds and nothing else has ended the run."""
    watch = Watch(servers)
    if not ended.wait(timeout):
        while not (silent := watch.silent(timeout)) and not ended.wait(0.5):
            pass
        if silent and not ended.is_set():
            # The main thread is blocked inside TensorFlow, where no exception can reach it.
            leave(1, f"mtf-imaging: {_message(silent, len(servers), timeout)}")
    watch.close()


def _message(gone: Mapping[Server, str], number: int, timeout: float | None = None) -> str:
    named = " and ".join(f"{server} ({why})" for server, why in gone.items())
    since = f" for {timeout:g} s" if timeout else ""
    return f"lost {len(gone)} of {number} servers{since}: {named}. {_FIX}"


def _memory_table(servers: Sequence[Server]) -> str:
    from mtf_imaging.meshes import cluster

    rows: list[tuple[str, int | None]] = [("this process", own_peak_memory())]
    rows += [(str(server), cluster.peak_memory(number)) for number, server in enumerate(servers)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {format_memory(peak) if peak else 'unknown':>11}" for name, peak in rows]
    return "\n".join([f"{'process':{width}}  {'peak memory':>11}", *lines])


def own_peak_memory() -> int:
    """Returns the peak host memory of this process in bytes."""
    import resource  # imported here because some systems lack it

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def format_memory(size: int) -> str:
    """Formats a size in bytes as MiB.

    >>> format_memory(3 << 29)
    '1,536 MiB'
    """
    return f"{size / 2**20:,.0f} MiB"
