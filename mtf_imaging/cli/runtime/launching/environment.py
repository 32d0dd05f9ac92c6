"""The environment variables of local processes that work together."""

import contextlib
import os
import socket
from collections.abc import Mapping

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import DEFAULT_TIMEOUT, TF_CONFIG, TIMEOUT, format_tf_config
from mtf_imaging.engine.processes.secret import SECRET, find_secret, make_secret

_HOST = "127.0.0.1"
# Not TF_NUM_INTEROP_THREADS: with too few of these threads, an operation that waits for another process blocks
# operations that the other process needs.
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


def build_environments(environ: Mapping[str, str], num: int, timeout: float | None) -> list[dict[str, str]]:
    """Builds the environment variables of each process.

    TF_CONFIG contains the addresses of all processes, with ports that are free now. The processes share a new secret
    unless `environ` sets one. Each process uses an equal share of the cores unless `environ` sets the number of
    threads.

    Args:
      environ: the environment variables of this process.
      num: number of processes.
      timeout: seconds after which a process counts as lost; None for MTF_IMAGING_TIMEOUT in `environ`, or 60.
    """
    addresses = tuple(Address(_HOST, port) for port in _free_ports(num))
    share = str(max(1, _num_cores() // num))
    seconds = environ.get(TIMEOUT) or f"{DEFAULT_TIMEOUT:g}" if timeout is None else f"{timeout:g}"
    shared = {**dict.fromkeys(_THREADS, share), **environ, TIMEOUT: seconds}
    shared[SECRET] = find_secret(environ) or make_secret()
    return [{**shared, TF_CONFIG: format_tf_config(addresses, index)} for index in range(num)]


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _free_ports(num: int) -> list[int]:
    """Returns distinct ports that are free for TCP and UDP; all stay open until the last one is chosen."""
    with contextlib.ExitStack() as probes:
        ports: list[int] = []
        while len(ports) < num:
            probe = probes.enter_context(socket.socket())
            probe.bind((_HOST, 0))
            with contextlib.suppress(OSError):
                probes.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(probe.getsockname())
                ports.append(probe.getsockname()[1])
        return ports
