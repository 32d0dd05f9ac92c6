"""`mtf-imaging serve`: lets commands on another host use the devices of this host."""

import socket

from absl import flags

from mtf_imaging.cli.runtime.launching.signals import Signals
from mtf_imaging.cli.runtime.next_step import show
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError, reason
from mtf_imaging.processes import proxies
from mtf_imaging.settings.setting import Settings, setting, settings

DEFAULT_PORT = 2222
_LONGEST_WAIT = 60.0  # seconds


@settings
class _Flags(Settings):
    """The settings with flags in this command.

    Attributes:
      port: port to listen on, at every address of this host; 0 chooses a free port and prints it.
    """

    port: int = setting(default=DEFAULT_PORT, least=0, most=65535, flag=True)


SUMMARY = "lets train, evaluate and predict on another host use the devices of this host."
EXAMPLE = "mtf-imaging serve --port 2222"
SETTINGS = (_Flags,)
NOTES = (
    "Start one server on every host, then name all servers in the command: "
    "mtf-imaging train ... --mesh_shape rows:2 --layout x:rows --cluster host0:2222,host1:2222",
    "Anyone who can connect to the port can run code as your user, and the traffic is not encrypted. Run servers only "
    "inside a trusted network, behind a firewall. SIGTERM, SIGUSR1, SIGHUP (a lost terminal) or Ctrl-C ends the "
    "server. To keep it after you log out, start it with nohup.",
    "A server works for one command at a time. docs/guides/cluster.md describes the traffic and what happens if a "
    "server fails.",
)


def run(values: flags.FlagValues) -> None:
    _check_free(values.port)
    proxies.bypass_all()  # the addresses of the other servers arrive with a command
    import_tensorflow()
    import tensorflow as tf

    from mtf_imaging.jobs.devices import format_memory, own_peak_memory

    # A command that connects replaces this cluster description with its own.
    server = start(values.port)
    port = server.target.rpartition(":")[2]
    gpus = len(tf.config.list_physical_devices("GPU"))
    devices = f"{gpus} GPU{'s' * (gpus > 1)}" if gpus else "its CPU"
    with Signals() as signals:
        print(f"{socket.gethostname()}:{port} is ready, with {devices}, TensorFlow {tf.__version__}", flush=True)
        show(f"add --cluster {socket.gethostname()}:{port} to train, evaluate or predict on the host with the data")
        while not signals.received:
            signals.wait(_LONGEST_WAIT)
    print(f"{socket.gethostname()}:{port} ended; its peak memory was {format_memory(own_peak_memory())}", flush=True)


def start(port: int):
    """Starts a TensorFlow server, which configures the GPUs of its process."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(gpu_options=tf.compat.v1.GPUOptions(allow_growth=True))
    return tf.distribute.Server({"worker": [f"localhost:{port}"]}, job_name="worker", task_index=0, config=config)


def _check_free(port: int) -> None:
    """Raises ConfigError if the port is in use; two TensorFlow servers on one port would share its connections."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # allows the port of a server that has just ended
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ConfigError(
                f"port {port}: {reason(error)}. Fix: give another --port, or 0 for a free one."
            ) from error
