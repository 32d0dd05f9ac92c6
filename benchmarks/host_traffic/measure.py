"""Runs a step on several hosts, which are network namespaces of this machine, and counts the bytes between them."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.host_traffic.setup import Setup
from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import TF_CONFIG, TIMEOUT, format_tf_config
from tests.hosts.network import network

_ROOT = Path(__file__).parents[2]
_PORT = 2222
_TIMEOUT = 300  # seconds; all processes import TensorFlow on the same cores
_HEADERS = 14 + 20 + 32  # header bytes per packet: Ethernet, IPv4, and TCP with timestamps


@dataclasses.dataclass(frozen=True)
class Measured:
    """The bytes of a step at the network interface of the busiest host.

    Attributes:
      sent: bytes that the host sends.
      received: bytes that it receives.
      packets: packets that it sends. The interface gets up to 64 kB at once, which real hardware divides into frames.
    """

    sent: float
    received: float
    packets: float

    @property
    def busiest(self) -> float:
        """The bytes of the busier direction."""
        return max(self.sent, self.received)

    @property
    def headers(self) -> float:
        """The header bytes among the sent bytes."""
        return self.packets * _HEADERS


def measure(setup: Setup, steps: int) -> Measured:
    """Runs steps, and returns the bytes per step.

    The difference between `steps` steps and twice as many excludes the bytes of the start.

    Args:
      setup: the step, its layout and its hosts.
      steps: number of steps.

    Raises:
      RuntimeError: a process failed.
    """
    words = [sys.executable, "-m", "benchmarks.host_traffic.worker", json.dumps(dataclasses.asdict(setup)), str(steps)]
    with network(setup.num_hosts) as hosts:
        addresses = tuple(Address(host.name, _PORT + i) for host in hosts for i in range(setup.processes))
        started = []
        for index in range(len(addresses)):
            environ = os.environ | {"PYTHONPATH": str(_ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", TIMEOUT: str(_TIMEOUT)}
            environ |= {TF_CONFIG: format_tf_config(addresses, index)}
            host = hosts[index // setup.processes]
            started.append(host.start(*words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        answers = [_answer(process) for process in started]
    every = [_per_step(*answer, steps) for answer in answers[:: setup.processes]]
    return max(every, key=lambda measured: measured.busiest)


def _answer(process: subprocess.Popen) -> list[list[int]]:
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a process ended with exit code {process.returncode}: {err.strip()}")
    return json.loads(out.splitlines()[-1])


def _per_step(few: list[int], many: list[int], steps: int) -> Measured:
    return Measured(*((after - before) / steps for before, after in zip(few, many, strict=True)))
