"""Starts several processes of a script that know each other through TF_CONFIG, as a launcher does."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import TF_CONFIG, TIMEOUT, format_tf_config
from mtf_imaging.engine.processes.secret import SECRET, make_secret
from mtf_imaging.errors import ConfigError, MtfImagingError
from tests import waiting

ROOT = Path(__file__).parents[3]
PREFIX = "mtf-imaging: "


def free_ports(num):
    """Returns distinct port numbers that are free for TCP and UDP at the moment."""
    with contextlib.ExitStack() as probes:
        ports = []
        while len(ports) < num:
            probe = probes.enter_context(socket.socket())
            probe.bind(("", 0))
            with contextlib.suppress(OSError):
                probes.enter_context(socket.socket(type=socket.SOCK_DGRAM)).bind(probe.getsockname())
                ports.append(probe.getsockname()[1])
        return ports


def free_port():
    """Returns a port number that is free at the moment."""
    return free_ports(1)[0]


class End(NamedTuple):
    """The end of a process."""

    code: int
    out: str
    err: str

    def message(self, code=1):
        """Returns the only message of a process that `run_main` ran, which must not be a traceback."""
        assert self.code == code, self.err
        assert "Traceback" not in self.err
        assert "Fatal Python error" not in self.err
        (line,) = (line for line in self.err.splitlines() if line.startswith(PREFIX))
        return line.removeprefix(PREFIX)


class Group:
    """Processes of one script, which end when the `with` block ends.

    Args:
      folder: a folder for the script and the output of each process.
      script: the program, as Python code (indentation is removed), or as the words after `python`.
      num: number of processes.
      timeout: MTF_IMAGING_TIMEOUT.
      environ: further environment variables of all processes.
      edit: a function that gets the number of a process and its TF_CONFIG, as a dict, which it may change.
      skip: numbers of processes that are not started.

    Attributes:
      addresses: the address of each process.
      processes: {number: `subprocess.Popen`}.
    """

    def __init__(self, folder, script, num, *, timeout=8.0, environ=None, edit=None, skip=()):
        self.folder = Path(folder)
        if isinstance(script, str):
            path = self.folder / "script.py"
            path.write_text(textwrap.dedent(script))
            script = [path]
        shared = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_NUM_INTRAOP_THREADS": "1",
            SECRET: make_secret(),
            TIMEOUT: f"{timeout:g}",
            **(environ or {}),
        }
        addresses = [Address("127.0.0.1", port) for port in free_ports(num)]
        self.addresses = [str(address) for address in addresses]
        self.processes = {}
        for index in range(num):
            config = json.loads(format_tf_config(addresses, index))
            if edit:
                edit(index, config)
            if index not in skip:
                own = {**shared, TF_CONFIG: json.dumps(config)}
                self.processes[index] = self._start([sys.executable, *map(str, script)], index, own)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, command, index, environ):
        with open(self._path(index, "out"), "wb") as out, open(self._path(index, "err"), "wb") as err:
            return subprocess.Popen(
                command,
                env=environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=_reset_signals,
            )

    def _path(self, index, stream):
        return self.folder / f"process-{index}.{stream}"

    def read(self, index, stream="out"):
        """Returns what a process has written so far."""
        return self._path(index, stream).read_text(errors="replace")

    def wait_for(self, text, indices=None):
        """Waits until processes have written a text to their standard output."""
        for index, process in self._select(indices).items():
            what = f"{text!r} from process {index}"
            waiting.wait_until(lambda index=index: text in self.read(index), what, [process], report=self.report)

    def send(self, index, number):
        """Sends a signal to a process."""
        self.processes[index].send_signal(number)

    def wait(self, indices=None):
        """Waits until processes have ended. Returns {number: `End`}."""
        ends = {}
        for index, process in self._select(indices).items():
            code = waiting.wait_for_end(process, f"the end of process {index}", report=self.report)
            ends[index] = End(code, self.read(index), self.read(index, "err"))
        return ends

    def _select(self, indices):
        return self.processes if indices is None else {index: self.processes[index] for index in indices}

    def report(self):
        """Returns the output and exit codes of all processes, for the message of a failed test."""
        return "\n".join(
            f"--- process {index}: exit code {process.poll()}\n{self.read(index)}\n{self.read(index, 'err')}"
            for index, process in self.processes.items()
        )


def run(folder, script, num, **options):
    """Runs a script in several processes, all of which must succeed. Returns their standard outputs."""
    with Group(folder, script, num, **options) as group:
        ends = group.wait()
        failed = [index for index, end in ends.items() if end.code]
        assert not failed, f"processes {failed} failed.\n{group.report()}"
    return [ends[index].out for index in sorted(ends)]


def run_main(main):
    """In a script: calls `main`. A failure that a user can fix ends the process with its message, as for a command."""
    try:
        main()
    except MtfImagingError as error:
        print(f"{PREFIX}{error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ConfigError) else 1)


def start_together():
    """In a script: waits until all processes have called this function, so their imports do not count as waiting."""
    config = json.loads(os.environ["TF_CONFIG"])
    Path(f"here-{config['task']['index']}").touch()
    paths = [Path(f"here-{i}") for i in range(len(config["cluster"]["worker"]))]
    # The test itself notices whether the others make progress.
    waiting.wait_until(lambda: all(path.exists() for path in paths), "all processes", patience=waiting.LIMIT)


def _reset_signals():
    """Shells start background processes with these signals ignored, and children inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
