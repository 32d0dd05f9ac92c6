"""Devices of other hosts: this process joins the TensorFlow servers that run there, and computes on them.

The servers need to know nothing of each other beforehand: whoever joins them tells each of them of all.
"""

import re

import tensorflow as tf

from mtf_imaging.errors import ClusterError, ConfigError, reason
from mtf_imaging.meshes.devices import SERVER_JOB, default_devices
from mtf_imaging.servers import Server, free_port, own_address, parse_servers, wait_for

_OWN_JOB = "localhost"  # of this process, which TensorFlow calls so without servers, too
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)


def connect(servers: str, timeout: float = 30.0) -> list[str]:
    """Joins servers: from now on the devices of every `Program` are theirs, unless it is given others.

    Variables and all that a program computes are there; whole inputs and outputs, checkpoints and files are here. This
    process leaves its own GPUs alone, so that a server on the same host can have them.

    Args:
      servers: addresses, "host0:2222,host1:2222", by which all hosts can reach them. Processors are placed on them in
        this order.
      timeout: seconds to wait for them.

    Returns:
      The devices: all GPUs of the servers, else their CPUs.

    Raises:
      ConfigError: addresses that cannot be, or TensorFlow is at work already.
      ClusterError: a server does not answer, another service uses its port, or TensorFlow cannot connect to it.
    """
    addresses = parse_servers(servers)
    if not addresses:
        raise ConfigError("there is no server in the list. Fix: give at least one, as host0:2222.")
    wait_for(addresses, timeout)
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        raise ConfigError("join servers before TensorFlow does anything else in this process.") from error
    # TensorFlow's own default for this process is "localhost", at which no other host would find it.
    here = Server(own_address(addresses), free_port())
    jobs = {SERVER_JOB: [str(address) for address in addresses], _OWN_JOB: [str(here)]}
    try:
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(jobs), job_name=_OWN_JOB, task_index=0)
        return default_devices()
    except tf.errors.OpError as error:
        raise ClusterError(
            f"cluster '{servers}': TensorFlow cannot connect to the servers: {reason(error)}. Fix: restart "
            f"each with TensorFlow {tf.__version__}, the version of this process.",
            settings=["port"],
        ) from error


def peak_memory(number: int) -> int | None:
    """Bytes of host memory that a server has held at most since it was started; None where its system does not say."""
    with tf.device(f"/job:{SERVER_JOB}/replica:0/task:{number}/device:CPU:0"):
        try:
            status = tf.io.read_file("/proc/self/status").numpy().decode()  # of the process that reads it: the server
        except tf.errors.OpError:
            return None
    match = _PEAK.search(status)
    return int(match[1]) * 1024 if match else None
