"""The devices of a job: those of this process, or those of servers, which are watched while the job runs."""

import contextlib
import dataclasses
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

from mtf_imaging.errors import ClusterError, ConfigError, Interrupted, reason
from mtf_imaging.jobs.settings import check_choice
from mtf_imaging.layout import MESH_IMPLS, Layout
from mtf_imaging.servers import Server, Watch, parse_servers, silence

_PATIENCE = 5.0  # seconds for an answer, where TensorFlow has failed already
_WHAT_NOW = (
    "Checkpoints stay as they are. Fix: see that `mtf-imaging serve` runs on every host, and start the same job "
    "again: training goes on from its last checkpoint. The other servers need no restart."
)


@dataclasses.dataclass(frozen=True)
class Devices:
    """Where the processors of a mesh are.

    Attributes:
      mesh_impl: "stacked", "placement", or "auto" for the one that suits the devices.
      cluster: servers that compute, "host0:2222,host1:2222", each an `mtf-imaging serve`; "" for this process.
      cluster_timeout: seconds that a server may let this process wait for a sign of life.

    Raises:
      ConfigError: an unknown mesh_impl, addresses that cannot be read, or a combination that cannot run.
    """

    mesh_impl: str = "auto"
    cluster: str = ""
    cluster_timeout: float = 30.0

    def __post_init__(self) -> None:
        check_choice("mesh_impl", self.mesh_impl, MESH_IMPLS)
        if len(parse_servers(self.cluster)) > 1 and self.mesh_impl == "stacked":
            raise ConfigError(
                f"mesh_impl 'stacked' puts all processors on one device, and cluster '{self.cluster}' has several "
                "servers. Fix: mesh_impl 'placement', or one server.",
                ["mesh_impl", "cluster"],
            )
        if not self.cluster_timeout > 0:
            raise ConfigError(f"cluster_timeout must be above 0 seconds, not {self.cluster_timeout!r}.")

    @contextlib.contextmanager
    def joined(self, layout: Layout) -> Iterator[None]:
        """Within the block, programs compute on the servers of `cluster`; without servers nothing changes.

        When the block ends well, a table of the peak memory of each process is printed.

        Args:
          layout: the layout, whose mesh must keep every server busy.

        Raises:
          ConfigError: servers that the mesh would leave idle.
          ClusterError: a server is not there, or has gone. One that hangs ends the process, `cluster_timeout` seconds
            after its last answer, with exit code 1: TensorFlow would wait for it forever.
        """
        if not self.cluster:
            yield
            return
        import tensorflow as tf  # only now: TensorFlow takes seconds

        from mtf_imaging.meshes import cluster

        servers = parse_servers(self.cluster)
        _check_all_compute(cluster.connect(self.cluster, self.cluster_timeout), servers, layout)
        ended = threading.Event()
        threading.Thread(target=_end_if_one_hangs, args=[servers, self.cluster_timeout, ended], daemon=True).start()
        try:
            yield
            print(_memory_table(servers))
        except Interrupted:  # servers may have been told to end, too; this process saved what it needs before
            raise
        except Exception as error:
            gone = {server: why for server in servers if (why := silence(server, _PATIENCE))}
            if gone:
                raise ClusterError(_message(gone, len(servers))) from error
            if isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError) or "context_id" in str(error):
                raise ClusterError(
                    f"a server was started anew or lost its connection: {reason(error)}. {_WHAT_NOW}"
                ) from error
            raise
        finally:
            ended.set()


def _check_all_compute(devices: list[str], servers: tuple[Server, ...], layout: Layout) -> None:
    """Raises ConfigError where a mesh has no work for one of the servers."""
    from mtf_imaging.meshes.devices import server_number
    from mtf_imaging.meshes.grid import ShardGrid

    sizes = [size for _, size in layout.mesh_shape]
    used = devices[: ShardGrid.make(sizes, len(devices)).num_shards]
    busy = {server_number(device) for device in used}
    idle = [str(server) for number, server in enumerate(servers) if number not in busy]
    if idle:
        raise ConfigError(
            f"mesh '{layout.mesh_string}' uses {len(used)} of the {len(devices)} devices of {len(servers)} servers and "
            f"leaves {', '.join(idle)} idle. Fix: a mesh_shape of which {len(devices)} devices get equal shares, or "
            "fewer servers in cluster.",
            ["mesh_shape", "cluster"],
        )


def _end_if_one_hangs(servers: Sequence[Server], timeout: float, ended: threading.Event) -> None:
    """Ends the process when a server has not answered for `timeout` seconds and nothing else has ended the run."""
    watch = Watch(servers)
    if not ended.wait(timeout):
        while not (silent := watch.silent(timeout)) and not ended.wait(0.5):
            pass
        if silent and not ended.is_set():
            # The main thread is inside TensorFlow, out of reach of any exception.
            text = f"\nmtf-imaging: {_message(silent, len(servers), timeout)}\n"
            sys.stdout.flush()
            os.write(2, text.encode())
            os._exit(1)
    watch.close()


def _message(gone: Mapping[Server, str], number: int, timeout: float | None = None) -> str:
    named = " and ".join(f"{server} ({why})" for server, why in gone.items())
    since = f" for {timeout:g} s" if timeout else ""
    return f"lost {len(gone)} of {number} servers{since}: {named}. {_WHAT_NOW}"


def _memory_table(servers: Sequence[Server]) -> str:
    from mtf_imaging.meshes import cluster

    rows: list[tuple[str, int | None]] = [("this process", own_peak_memory())]
    rows += [(str(server), cluster.peak_memory(number)) for number, server in enumerate(servers)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {format_memory(peak) if peak else 'not known':>11}" for name, peak in rows]
    return "\n".join([f"{'process':{width}}  {'peak memory':>11}", *lines])


def own_peak_memory() -> int:
    """Bytes of host memory that this process has held at most."""
    import resource  # only here: not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def format_memory(size: int) -> str:
    """Formats a size in bytes as MiB.

    >>> format_memory(3 << 29)
    '1,536 MiB'
    """
    return f"{size / 2**20:,.0f} MiB"
