"""The addresses of processes, such as "host0:2222". Pure Python."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from mtf_imaging.errors import ConfigError

_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\],;]+|\[[0-9A-Fa-f:.%\w]+\]):(?P<port>[0-9]+)")
_LOOPBACK = re.compile(r"localhost|127\..*|::1")
_HIGHEST_PORT = 65535


class Address(NamedTuple):
    """The address of a process; `str` returns it in TensorFlow's format."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the address refers to this host only, on every host."""
        return bool(_LOOPBACK.fullmatch(self.host))


def parse_addresses(words: Sequence[str]) -> tuple[Address, ...]:
    """Parses the addresses of processes.

    >>> [str(address) for address in parse_addresses(["host0:2222", " host1:2222"])]
    ['host0:2222', 'host1:2222']

    Raises:
      ConfigError: an address is invalid, is repeated, or is local to each host. The error lists all faults.
    """
    addresses: list[Address] = []
    faults = []
    for word in words:
        try:
            address = _parse_address(word.strip())
        except ConfigError as fault:
            faults.append(str(fault))
            continue
        if address in addresses:
            faults.append(f"'{address}' appears more than once. Fix: list each process once.")
        addresses.append(address)
    local = [address for address in addresses if address.is_loopback]
    if local and len(local) < len(addresses):
        faults.append(
            f"'{local[0].host}' is a different host on each host. Fix: use a name or IP address that all hosts know."
        )
    if faults:
        raise ConfigError(" ".join(faults))
    return tuple(addresses)


def _parse_address(word: str) -> Address:
    match = _ADDRESS.fullmatch(word)
    if match is None:
        bare = re.sub(r"^\w+://", "", word).rstrip("/")
        if _ADDRESS.fullmatch(bare):
            raise ConfigError(f"'{word}' is more than host:port. Fix: write '{bare}'.")
        fix = f" Fix: write '{word}:2222'." if re.fullmatch(r"[\w.-]+", word) else ""
        raise ConfigError(f"'{word}' is not host:port.{fix}")
    port = int(match["port"])
    if not 1 <= port <= _HIGHEST_PORT:
        raise ConfigError(f"'{word}': the port must be 1 to {_HIGHEST_PORT}, not {port}.")
    return Address(match["host"].strip("[]"), port)
