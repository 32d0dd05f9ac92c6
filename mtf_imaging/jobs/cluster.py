"""The servers of --cluster: joined for a command, watched while it runs, and told of when one goes."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import tensorflow as tf

from mtf_imaging.cli.config.job_setup import JobSetup
from mtf_imaging.errors import ClusterError, ConfigError, Interrupted, reason
from mtf_imaging.layout import parse_shape
from mtf_imaging.meshes import cluster
from mtf_imaging.meshes.devices import server_number
from mtf_imaging.meshes.grid import ShardGrid
from mtf_imaging.servers import Server, Watch, parse_servers, silence

_PATIENCE = 5.0  # seconds for an answer, where TensorFlow has failed already
_WHAT_NOW = (
    "Checkpoints stay as they are. Fix: see that `mtf-imaging serve` runs on every host, and start the same command "
    "again: train goes on from its last checkpoint. The other servers need no restart."
)


@contextlib.contextmanager
def joined(setup: JobSetup) -> Iterator[None]:
    """Within the block, programs compute on the servers of `setup.cluster`; where it names none, nothing changes.

    When the block ends well, a table of what memory each process took at most is printed.

    Raises:
      ConfigError: servers that the mesh would leave idle.
      ClusterError: a server is not there, or has gone. One that hangs ends the process, `setup.cluster_timeout` seconds
        after its last answer, with exit code 1: TensorFlow would wait for it for ever.
    """
    if not setup.cluster:
        yield
        return
    servers = parse_servers(setup.cluster)
    _check_all_compute(cluster.connect(setup.cluster, setup.cluster_timeout), servers, setup.mesh_shape)
    ended = threading.Event()
    threading.Thread(target=_end_if_one_hangs, args=[servers, setup.cluster_timeout, ended], daemon=True).start()
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


def _check_all_compute(devices: list[str], servers: tuple[Server, ...], mesh_shape: str) -> None:
    """Raises ConfigError where a mesh has no work for one of the servers."""
    sizes = [size for _, size in parse_shape(mesh_shape, "mesh shape")]
    used = devices[: ShardGrid.make(sizes, len(devices)).num_shards]
    busy = {server_number(device) for device in used}
    idle = [str(server) for number, server in enumerate(servers) if number not in busy]
    if idle:
        raise ConfigError(
            f"mesh '{mesh_shape}' uses {len(used)} of the {len(devices)} devices of {len(servers)} servers and leaves "
            f"{', '.join(idle)} idle. Fix: a --mesh_shape of which {len(devices)} devices get equal shares, or fewer "
            "servers in --cluster."
        )


def _end_if_one_hangs(servers, timeout, ended):
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


def _message(gone, number, timeout=None):
    named = " and ".join(f"{server} ({why})" for server, why in gone.items())
    since = f" for {timeout:g} s" if timeout else ""
    return f"lost {len(gone)} of {number} servers{since}: {named}. {_WHAT_NOW}"


def _memory_table(servers):
    rows = [("this process", own_peak_memory())]
    rows += [(str(server), cluster.peak_memory(number)) for number, server in enumerate(servers)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {format_memory(peak) if peak else 'not known':>11}" for name, peak in rows]
    return "\n".join([f"{'process':{width}}  {'peak memory':>11}", *lines])


def own_peak_memory() -> int:
    """Bytes of host memory that this process has held at most."""
    import resource  # only here: not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def format_memory(size: int) -> str:
    """
    >>> format_memory(3 << 29)
    '1,536 MiB'
    """
    return f"{size / 2**20:,.0f} MiB"
