"""Commands that run on the hosts of a network with TF_CONFIG, with their output in files."""

import os
import sys
import tempfile

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import TF_CONFIG, TIMEOUT, format_tf_config
from tests import waiting
from tests.jobs.launched import ROOT

PORT = 2222
_OTHERS = ("TF_CONFIG", "SLURM_")  # variables of the machine that hosts do not have
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}


class Started:
    """A program that runs on a host, with its output in a file.

    Args:
      host: the host.
      *words: the words of `mtf-imaging`, or of Python if the first one is a file.
      **environ: environment variables.
    """

    def __init__(self, host, *words, **environ):
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by `close`
        program = [] if str(words[0]).endswith(".py") else ["-m", "mtf_imaging.cli.main"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
        environ = clean | _ONE_THREAD | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"} | environ
        streams = {"stdout": self._output, "stderr": self._output}
        self.process = host.start(sys.executable, *program, *words, env=environ, **streams)

    def output(self):
        """Returns what the program has printed."""
        self._output.seek(0)
        return self._output.read()

    def wait(self):
        """Returns the exit code and the output."""
        return waiting.wait_for_end(self.process, report=self.output), self.output()

    def close(self):
        self._output.close()


class Job:
    """A command that runs as one process on each host.

    Args:
      hosts: the hosts; process 0 is on the first one. A single one gets no TF_CONFIG.
      *words: the words of the command; see `Started`.
      timeout: seconds after which a process that does not answer counts as lost.
      addresses: the addresses of the processes; default: `PORT` of each host.
    """

    def __init__(self, hosts, *words, timeout=300, addresses=None):
        self._hosts = hosts
        addresses = addresses or tuple(Address(host.name, PORT) for host in hosts)
        self.started = []
        for index, host in enumerate(hosts):
            environ = {TF_CONFIG: format_tf_config(addresses, index)} if len(addresses) > 1 else {}
            self.started.append(Started(host, *words, **environ, **{TIMEOUT: f"{timeout:g}"}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self._hosts:
            host.kill()
        for started in self.started:
            started.close()

    @property
    def processes(self):
        return [started.process for started in self.started]

    def wait(self, *indices):
        """Waits for the ends of processes, by default of all. Returns a list of their exit codes and outputs."""
        return [self.started[index].wait() for index in indices or range(len(self.started))]

    def report(self):
        """Returns the outputs of all processes, for the message of a failed test."""
        return "\n".join(f"--- process {number}\n{started.output()}" for number, started in enumerate(self.started))

    def wait_for_step(self, model_dir, step):
        """Waits until a run has logged the loss of a step; no process may end before."""
        path = model_dir / "losses.csv"
        waiting.wait_until(
            lambda: path.is_file() and len(path.read_text().splitlines()) > step + 1,
            f"step {step} in {path}",
            self.processes,
            [path],
            report=self.report,
        )


def run(hosts, *words, code=0, **options):
    """Runs a command on hosts to its end, and returns the outputs of its processes."""
    with Job(hosts, *words, **options) as job:
        ends = job.wait()
        assert [actual for actual, _ in ends] == [code] * len(hosts), job.report()
    return [output for _, output in ends]
