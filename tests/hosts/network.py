"""Several hosts on one machine: Linux network namespaces, with addresses and host names of their own, at one switch.

A host differs from the machine in its network, its host name and `/etc/hosts`. It shares the disk, as the hosts of a
cluster do, and the memory and the processes. Root can create hosts; `why_not` returns why they cannot be created
elsewhere.
"""

import contextlib
import functools
import itertools
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

_PROGRAMS = ("ip", "unshare")
_NAMES = itertools.count()
_ETC = Path("/etc/netns")  # `ip netns exec` mounts the files of a folder here over those of /etc
_SUBNET = "10.77.0"


class Host:
    """A host of a `Network`.

    Attributes:
      name: the host name, which all hosts of the network resolve.
      address: the IPv4 address.
      namespace: the name of the network namespace.
    """

    def __init__(self, name, address, namespace, switch):
        self.name, self.address, self.namespace, self._switch = name, address, namespace, switch
        self._processes = []

    def command(self, *words):
        """Returns the words that run a command on this host."""
        script = 'hostname "$0" && exec "$@"'
        inside = ["unshare", "--uts", "sh", "-c", script, self.name, *map(str, words)]
        return ["ip", "netns", "exec", self.namespace, *inside]

    def start(self, *words, **options):
        """Starts a command on this host, in a session of its own, with the options of `subprocess.Popen`."""
        process = subprocess.Popen(self.command(*words), start_new_session=True, **options)
        self._processes.append(process)
        return process

    def run(self, *words, **options):
        """Runs a command on this host, which must succeed. Returns its standard output."""
        return _run(*self.command(*words), **options)

    def disconnect(self):
        """Pulls the network cable out."""
        _run("ip", "-n", self._switch, "link", "set", self.name, "down")

    def connect(self):
        """Plugs the network cable in again."""
        _run("ip", "-n", self._switch, "link", "set", self.name, "up")

    def power_off(self):
        """Ends this host without a last message to others."""
        self.disconnect()
        self.kill()

    def kill(self):
        """Kills all processes of this host, daemons included."""
        while pids := _run("ip", "netns", "pids", self.namespace).split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        while self._processes:
            self._processes.pop().wait()

    def add_interface(self, name, address):
        """Adds a network interface, with an address that no other host reaches."""
        self.run("ip", "link", "add", name, "type", "bridge")
        self.run("ip", "address", "add", address, "dev", name)
        self.run("ip", "link", "set", name, "up")

    def sent(self):
        """Returns the bytes that this host has sent to other hosts, as its network interface counts them."""
        return int(self.run("cat", "/sys/class/net/eth0/statistics/tx_bytes"))

    def received(self):
        """Returns the bytes that this host has received from other hosts."""
        return int(self.run("cat", "/sys/class/net/eth0/statistics/rx_bytes"))


@contextlib.contextmanager
def network(num):
    """Yields hosts that are connected by a switch. Skips the test if they cannot be created.

    Args:
      num: number of hosts, which are called host0, host1 and so on.
    """
    if reason := why_not():
        pytest.skip(f"this system has no network namespaces: {reason}")
    with _hosts(num) as hosts:
        yield hosts


@functools.cache
def why_not():
    """Returns why hosts cannot be created here, or None if they can."""
    missing = [name for name in _PROGRAMS if not shutil.which(name)]
    if missing:
        return f"{' and '.join(missing)} not installed"
    if os.geteuid():
        return "only root can create them"
    try:
        with _hosts(1) as (host,):
            host.run("true")
    except (OSError, subprocess.CalledProcessError) as error:
        return getattr(error, "stderr", None) or str(error)
    return None


@contextlib.contextmanager
def _hosts(num):
    prefix = f"mtf{os.getpid()}-{next(_NAMES)}"  # tests may run beside each other
    switch = f"{prefix}-switch"
    named = {f"host{index}": f"{_SUBNET}.{index + 1}" for index in range(num)}
    with contextlib.ExitStack() as stack:
        _namespace(stack, switch)
        _run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "switch", "up")
        hosts = []
        for name, address in named.items():
            host = Host(name, address, f"{prefix}-{name}", switch)
            _namespace(stack, host.namespace)
            _write_etc(stack, host.namespace, name, named)
            cable = ["type", "veth", "peer", "name", "eth0", "netns", host.namespace]
            _run("ip", "-n", switch, "link", "add", name, *cable)
            _run("ip", "-n", switch, "link", "set", name, "master", "switch", "up")
            _run("ip", "-n", host.namespace, "address", "add", f"{address}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _run("ip", "-n", host.namespace, "link", "set", interface, "up")
            stack.callback(host.kill)
            hosts.append(host)
        yield hosts


def _namespace(stack, name):
    """Creates a network namespace, which is deleted with everything in it when the stack is closed."""
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "delete", name)


def _write_etc(stack, namespace, own, named):
    """Writes the files that a host has instead of those of the machine."""
    folder = _ETC / namespace
    folder.mkdir(parents=True)
    stack.callback(shutil.rmtree, folder)
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in named.items())]
    (folder / "hosts").write_text("".join(f"{line}\n" for line in lines))
    (folder / "hostname").write_text(f"{own}\n")


def _run(*words, **options):
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True, **options).stdout
