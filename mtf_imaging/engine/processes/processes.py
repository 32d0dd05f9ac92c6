"""The processes of one program: their addresses, from TF_CONFIG, Kubernetes or Slurm. Pure Python.

All processes run the same program. Each has one shard of the mesh, and they exchange messages.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mtf_imaging.engine.processes.addresses import Address, parse_addresses
from mtf_imaging.engine.processes.kubernetes import find_pods
from mtf_imaging.engine.processes.secret import find_secret
from mtf_imaging.engine.processes.slurm import find_step
from mtf_imaging.errors import ConfigError

TF_CONFIG = "TF_CONFIG"
TIMEOUT = "MTF_IMAGING_TIMEOUT"
DEFAULT_TIMEOUT = 60.0  # seconds
_CHIEF, _WORKER = "chief", "worker"
_EXAMPLE = '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'


@dataclass(frozen=True)
class Processes:
    """The processes that run a program together.

    Args:
      addresses: the address of each process.
      index: the number of this process.
      timeout: seconds after which a process that does not answer counts as lost.
      secret: a text that only these processes know, so that they ignore messages of others; or "".

    Raises:
      ConfigError: there is no address, an address is repeated, `index` is out of range, or `timeout` is
        not positive.
    """

    addresses: tuple[Address, ...]
    index: int
    timeout: float = DEFAULT_TIMEOUT
    secret: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "addresses", tuple(Address(*address) for address in self.addresses))
        if not self.addresses:
            raise ConfigError("a program needs at least one process, but there are 0 addresses. Fix: list one each.")
        repeated = next((address for at, address in enumerate(self.addresses) if address in self.addresses[:at]), None)
        if repeated is not None:
            numbers = [str(i) for i, address in enumerate(self.addresses) if address == repeated]
            raise ConfigError(
                f"processes {' and '.join(numbers)} have the same address, {repeated}. Fix: give each process a port "
                "of its own."
            )
        if isinstance(self.index, bool) or not isinstance(self.index, int) or not 0 <= self.index < self.num:
            raise ConfigError(
                f"this process has the number {self.index!r}, but the {self.num} processes have the numbers 0 to "
                f"{self.num - 1}. Fix: number the processes from 0."
            )
        if not _is_timeout(self.timeout):
            raise ConfigError(f"timeout must be a positive number of seconds such as 60, not {self.timeout!r}.")

    @property
    def num(self) -> int:
        """The number of processes."""
        return len(self.addresses)

    @property
    def num_hosts(self) -> int:
        """The number of distinct hosts."""
        return len({address.host for address in self.addresses})

    @property
    def own(self) -> Address:
        """The address of this process."""
        return self.addresses[self.index]

    @property
    def is_first(self) -> bool:
        """Whether this is process 0, which writes files and shows progress."""
        return self.index == 0

    def name(self, index: int) -> str:
        """Returns the name of a process for messages, such as "process 3 (host:2222)"."""
        return f"process {index} ({self.addresses[index]})"


def find_processes(environ: Mapping[str, str] = os.environ) -> Processes | None:
    """Returns the processes that this process belongs to, or None if it runs alone.

    TF_CONFIG takes precedence over the Kubernetes variables, which take precedence over those of Slurm.
    MTF_IMAGING_TIMEOUT sets the timeout, in seconds, and MTF_IMAGING_SECRET the secret.

    Args:
      environ: the environment variables.

    Raises:
      ConfigError: a variable is malformed, or variables contradict each other.
    """
    value = environ.get(TF_CONFIG, "").strip()
    if value not in ("", "{}"):
        addresses, index = _parse_tf_config(value)
    elif group := find_pods(environ) or find_step(environ):
        addresses, index = group
    else:
        return None
    if len(addresses) == 1:
        return None
    return Processes(addresses, index, parse_timeout(environ), find_secret(environ))


def parse_timeout(environ: Mapping[str, str]) -> float:
    """Returns the seconds in MTF_IMAGING_TIMEOUT, or the default.

    Args:
      environ: the environment variables.

    Raises:
      ConfigError: the value is not a positive number.
    """
    text = environ.get(TIMEOUT, "").strip()
    if not text:
        return DEFAULT_TIMEOUT
    try:
        timeout = float(text)
    except ValueError:
        timeout = math.nan
    if not _is_timeout(timeout):
        raise ConfigError(
            f"{TIMEOUT}={text}: is not a positive number of seconds. Fix: for instance {TIMEOUT}={DEFAULT_TIMEOUT:g}."
        )
    return timeout


def format_tf_config(addresses: tuple[Address, ...], index: int) -> str:
    """Returns the value of TF_CONFIG for one process.

    Args:
      addresses: the address of each process.
      index: the process number.
    """
    task = {"type": _WORKER, "index": index}
    return json.dumps({"cluster": {_WORKER: [str(address) for address in addresses]}, "task": task})


def _is_timeout(timeout: Any) -> bool:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    return is_number and math.isfinite(timeout) and timeout > 0


def _parse_tf_config(value: str) -> tuple[tuple[Address, ...], int]:
    """Returns the addresses and the number of this process."""
    try:
        config = json.loads(value)
    except json.JSONDecodeError as error:
        raise _wrong(value, f"it is not valid JSON: {error}") from None
    cluster, task = _part(value, config, "cluster"), _part(value, config, "task")
    others = sorted({*cluster} - {_CHIEF, _WORKER})
    if others:
        raise _wrong(value, f"'cluster' has '{others[0]}', but all processes run the same program, as workers")
    chiefs, workers = (_addresses(value, cluster, kind) for kind in (_CHIEF, _WORKER))
    if len(chiefs) > 1:
        raise _wrong(value, f"'{_CHIEF}' has {len(chiefs)} addresses, but there can be only one chief")
    kind, index = task.get("type"), task.get("index")
    if kind not in (_CHIEF, _WORKER):
        raise _wrong(value, f"the type of the task is {json.dumps(kind)}, but must be '{_WORKER}' or '{_CHIEF}'")
    number = int(index) if isinstance(index, str) and index.isdecimal() else index
    if isinstance(number, bool) or not isinstance(number, int):
        raise _wrong(value, f"the index of the task is {json.dumps(index)}, but must be an integer")
    own = chiefs if kind == _CHIEF else workers
    if not 0 <= number < len(own):
        raise _wrong(value, f"the index of the task is {number}, but '{kind}' has {len(own)} addresses")
    return _parse_addresses(value, [*chiefs, *workers]), number + (len(chiefs) if kind == _WORKER else 0)


def _part(value: str, config: object, name: str) -> dict[str, Any]:
    part = config.get(name) if isinstance(config, dict) else None
    if not isinstance(part, dict):
        raise _wrong(value, f"it has no object '{name}'")
    return part


def _addresses(value: str, cluster: dict[str, Any], kind: str) -> list[str]:
    words = cluster.get(kind, [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _wrong(value, f"'{kind}' is {json.dumps(words)}, but must be a list of addresses")
    return words


def _parse_addresses(value: str, words: list[str]) -> tuple[Address, ...]:
    try:
        return parse_addresses(words)
    except ConfigError as error:
        raise _wrong(value, str(error)) from None


def _wrong(value: str, why: str) -> ConfigError:
    return ConfigError(f"{TF_CONFIG}={value}: {why.removesuffix('.')}. Example: {TF_CONFIG}='{_EXAMPLE}'")
