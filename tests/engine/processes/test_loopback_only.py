"""The ports of processes on one host are bound to the loopback interface. tests/hosts connects from other hosts."""

import socket
import subprocess
import sys

import pytest

from mtf_imaging.engine.processes import sockets
from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.engine.processes.sockets import bind_to_loopback, close_to_other_hosts
from tests import waiting
from tests.engine.processes.starting import ROOT, free_port

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this setting of sockets")

# Listens at a port, answers every connection, and closes the port to other hosts after the first line of input.
SERVER = """
import socket, sys, threading
from mtf_imaging.engine.processes.sockets import bind_to_loopback

def serve():
    while True:
        connection, _ = listener.accept()
        connections.append(connection)
        connection.sendall(b"hello")

connections = []
port = int(sys.argv[1])
listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
threading.Thread(target=serve, daemon=True).start()
print("open", flush=True)
sys.stdin.readline()
print(bind_to_loopback(port), flush=True)
sys.stdin.readline()
"""


@linux_only
def test_no_privileges_are_needed():
    drop = "import os, mtf_imaging.engine.processes.sockets\nif not os.geteuid(): os.setuid(65534)\n"
    words = [sys.executable, "-c", drop + SERVER, str(free_port())]
    done = subprocess.run(words, input="\n\n", capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "open\nNone\n", done.stderr


@linux_only
def test_only_sockets_at_the_port_are_bound():
    with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as other:
        assert bind_to_loopback(one.getsockname()[1]) is None
        devices = [each.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) for each in (one, other)]
        assert devices == [b"lo\0", b""]
        with socket.create_connection(("127.0.0.1", one.getsockname()[1]), waiting.PATIENCE) as connection:
            accepted, _ = one.accept()
            with accepted:
                connection.sendall(b"hello")
                assert accepted.recv(5) == b"hello"


@linux_only
def test_a_port_without_a_listener_is_reported():
    port = free_port()
    assert bind_to_loopback(port) == f"this process does not listen at port {port}"


def test_a_port_that_stays_open_is_reported_once(monkeypatch, caplog):
    monkeypatch.setattr(sockets.sys, "platform", "darwin")
    here = (Address("127.0.0.1", 1), Address("127.0.0.1", 2))
    for index in range(2):
        close_to_other_hosts(Processes(here, index))
    (record,) = caplog.records
    assert "run code as your user: only Linux can bind the port to the loopback interface. Fix: " in record.getMessage()
    close_to_other_hosts(Processes((Address("host0", 1), Address("host1", 1)), 0))
    assert len(caplog.records) == 1
