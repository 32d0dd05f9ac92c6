"""`mtf-imaging serve`: lends the devices of a host to commands that run on another."""

import signal
import socket
import threading

from absl import flags

from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError, reason

SUMMARY = "lends this host's devices to commands that name it in --cluster, until it is told to end."
EXAMPLE = "mtf-imaging serve --port 2222"
REQUIRED = ()
NOTES = (
    "Start one on every host, then name them all where the command runs: "
    "mtf-imaging train ... --mesh_shape rows:2 --layout x:rows --cluster host0:2222,host1:2222",
    "Whoever reaches the port can run anything as the user who serves, and all that is sent is in the clear: serve "
    "within a trusted network only, behind a firewall. SIGTERM or Ctrl-C ends it.",
    "It is for one command at a time. docs/guides/cluster.md says what is sent, and what happens when a server goes.",
)
DEFAULT_PORT = 2222


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "port",
        DEFAULT_PORT,
        "To listen on, at every address of this host; 0 for any that is free, which is printed.",
        lower_bound=0,
        upper_bound=65535,
        flag_values=values,
    )


def run(values: flags.FlagValues) -> None:
    _check_free(values.port)
    told_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_end.set())
    import_tensorflow()
    import tensorflow as tf

    from mtf_imaging.jobs.devices import format_memory, own_peak_memory

    # What it says of itself holds until somebody joins it, who then says who is who.
    server = start(values.port)
    port = server.target.rpartition(":")[2]
    gpus = len(tf.config.list_physical_devices("GPU"))
    devices = f"{gpus} GPU{'s' * (gpus > 1)}" if gpus else "its CPU"
    print(f"{socket.gethostname()}:{port} is ready, with {devices}, TensorFlow {tf.__version__}", flush=True)
    # Not one long wait: a signal that reaches a thread of TensorFlow's does not end it.
    while not told_to_end.wait(0.2):
        pass
    print(f"{socket.gethostname()}:{port} ends; its peak memory was {format_memory(own_peak_memory())}", flush=True)


def start(port: int):
    """Starts TensorFlow's server; its GPUs are its own to set up."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(gpu_options=tf.compat.v1.GPUOptions(allow_growth=True))
    return tf.distribute.Server({"worker": [f"localhost:{port}"]}, job_name="worker", task_index=0, config=config)


def _check_free(port: int) -> None:
    """Raises ConfigError where the port is taken; TensorFlow would share it, and each get some of the connections."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of servers that ended just now are free
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ConfigError(
                f"port {port}: {reason(error)}. Fix: another --port, or 0 for any that is free."
            ) from error
