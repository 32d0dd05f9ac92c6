"""Commands that run as several processes on the hosts of a network, with their output in files."""

import contextlib
import os
import sys
import tempfile

from mtf_imaging.processes.processes import TF_CONFIG, TIMEOUT, format_tf_config
from mtf_imaging.processes.servers import Server
from tests import waiting
from tests.jobs.launched import ROOT

PORT = 2222
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
_OTHERS = ("TF_CONFIG", "SLURM_")


class Job:
    """A command that runs as one or more processes on each host, as a scheduler with TF_CONFIG starts it.

    Args:
      hosts: the hosts; process 0 is on the first one.
      *words: the words of `mtf-imaging`, or of Python if the first one ends in ".py".
      timeout: seconds after which a process that does not answer counts as lost.
      addresses: the addresses of the processes; default: one for each host.
    """

    def __init__(self, hosts, *words, timeout=60.0, addresses=None):
        addresses = addresses or [Server(host.name, PORT) for host in hosts]
        self.hosts, self.processes, self._outputs = hosts, [], []
        for index, host in enumerate(hosts):
            environ = {TF_CONFIG: format_tf_config(tuple(addresses), index)} if len(hosts) > 1 else {}
            process, output = start(host, *words, environ=environ | {TIMEOUT: f"{timeout:g}"})
            self.processes.append(process)
            self._outputs.append(output)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host, output in zip(self.hosts, self._outputs, strict=True):
            host.kill()
            output.close()

    def wait(self, indices=None):
        """Waits for the ends of processes. Returns their exit codes and outputs."""
        indices = range(len(self.processes)) if indices is None else indices
        codes = [waiting.wait_for_end(self.processes[index], report=self.report) for index in indices]
        return codes, [self.output(index) for index in indices]

    def output(self, index):
        """Returns what a process has printed."""
        self._outputs[index].seek(0)
        return self._outputs[index].read()

    def report(self):
        """Returns the outputs of all processes, for the message of a failed test."""
        return "\n".join(f"--- process {index}\n{self.output(index)}" for index in range(len(self.processes)))


def start(host, *words, environ=()):
    """Starts `mtf-imaging`, or a Python program, on a host. Returns the process and the file of its output."""
    program = [] if str(words[0]).endswith(".py") else ["-m", "mtf_imaging.cli.main"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
    share = dict.fromkeys(_THREADS, "1")
    environ = clean | share | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"} | dict(environ)
    output = tempfile.TemporaryFile("w+")  # noqa: SIM115  the caller closes it
    with contextlib.ExitStack() as stack:
        stack.callback(output.close)
        process = host.start(sys.executable, *program, *words, env=environ, stdout=output, stderr=output)
        stack.pop_all()
    return process, output
