"""Connects this process to TensorFlow servers on other hosts and computes on their devices.

The servers do not know each other when they start. This process sends the addresses of all servers to each of them.
"""

import re
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.errors import ClusterError, ConfigError, reason
from mtf_imaging.meshes.devices import SERVER_JOB, default_devices
from mtf_imaging.processes import proxies
from mtf_imaging.processes.leaving import call
from mtf_imaging.processes.servers import Server, free_port, own_address, parse_servers, silence, wait_for

_OWN_JOB = "localhost"  # the job name of this process, the same as TensorFlow's default without servers
_PATIENCE = 5.0  # seconds to wait for an answer after TensorFlow failed to connect
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)


def connect(servers: str, timeout: float = 30.0) -> list[str]:
    """Connects to servers, whose devices every later `Program` uses by default.

    Variables and all computation are on the servers. Whole inputs and outputs, checkpoints and files stay in this
    process. This process does not use its own GPUs, so a server on the same host can use them.

    Args:
      servers: addresses that are valid on all hosts, such as "host0:2222,host1:2222". Processors are placed on the
        servers in this order.
      timeout: seconds to wait for the servers, and then for TensorFlow's connections to them.

    Returns:
      The device strings of the servers' GPUs, or of their CPUs if they have no GPU.

    Raises:
      ConfigError: an address is invalid, or TensorFlow has already initialized its devices.
      ClusterError: a server does not answer, another service uses its port, or TensorFlow cannot connect to it. If
        TensorFlow still waits for a server then, end the process with `os._exit`.
    """
    addresses = parse_servers(servers)
    if not addresses:
        raise ConfigError("the list of servers is empty. Fix: name at least one server, such as host0:2222.")
    proxies.bypass(address.host for address in addresses)
    wait_for(addresses, timeout)
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        raise ConfigError(
            "TensorFlow is already initialized. Fix: connect to the servers before any other use of TensorFlow."
        ) from error
    # TensorFlow's default address for this process is "localhost", which other hosts cannot reach.
    here = Server(own_address(addresses), free_port())
    jobs = {SERVER_JOB: [str(address) for address in addresses], _OWN_JOB: [str(here)]}

    def join() -> list[str]:
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(jobs), job_name=_OWN_JOB, task_index=0)
        return default_devices()

    try:
        return call(join, timeout)  # TensorFlow itself waits without a limit
    except TimeoutError as error:
        raise ClusterError(_unconnected(addresses, here, timeout), settings=["cluster", "cluster_timeout"]) from error
    except tf.errors.OpError as error:
        raise ClusterError(
            f"cluster '{servers}': TensorFlow cannot connect to the servers: {reason(error)}. Fix: restart "
            f"each server with TensorFlow {tf.__version__}, the version of this process.",
            settings=["port"],
        ) from error


def _unconnected(servers: Sequence[Server], here: Server, timeout: float) -> str:
    """Returns a message about servers that answer but to which TensorFlow has not connected."""
    lost = {server: why for server in servers if (why := silence(server, _PATIENCE))}
    states = [f"{server} ({lost[server]})" if server in lost else str(server) for server in servers]
    fix = f"make sure that the servers can connect to each other, and to this process on any port of {here.host}"
    if lost:
        fix = f"restart the server{'s' * (len(lost) > 1)} that no longer answer{'s' * (len(lost) == 1)}"
    return (
        f"cluster: TensorFlow did not connect to {' and '.join(states)} within {timeout:g} s, although all of them had "
        f"answered.{proxies.note()} Fix: {fix}, or allow more time with cluster_timeout."
    )


def peak_memory(number: int) -> int | None:
    """Returns the peak host memory of a server in bytes, or None if its system does not report it."""
    with tf.device(f"/job:{SERVER_JOB}/replica:0/task:{number}/device:CPU:0"):
        try:
            status = (
                tf.io.read_file("/proc/self/status").numpy().decode()
            )  # runs on the server, so "self" is the server
        except tf.errors.OpError:
            return None
    match = _PEAK.search(status)
    return int(match[1]) * 1024 if match else None
