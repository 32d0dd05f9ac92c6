"""The ports of processes on one host are closed to other hosts."""

import contextlib
import os
import subprocess
import sys

import pytest

from tests.engine.processes.starting import ROOT
from tests.engine.processes.test_loopback_only import SERVER, linux_only
from tests.hosts.network import network

# Connects to an address and prints the answer; then, on request, what arrives next.
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10.0) as connection:
    print(connection.recv(5) if len(sys.argv) > 3 else "connected", flush=True)
    if len(sys.argv) > 3:
        sys.stdin.readline()
        print(connection.recv(5), flush=True)
"""


def connects(host, address, port):
    """Returns whether a program on a host can connect to an address."""
    done = subprocess.run(host.command(sys.executable, "-c", CLIENT, address, port), capture_output=True, text=True)
    assert done.stdout == "connected\n" or "Connection refused" in done.stderr, done.stderr
    return not done.returncode


def start(host, *words, **environ):
    """Starts a Python program with pipes on a host."""
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1, "cwd": ROOT}
    return host.start(sys.executable, *words, env={**os.environ, "PYTHONPATH": str(ROOT), **environ}, **options)


@contextlib.contextmanager
def closing_pipes(*processes):
    with contextlib.ExitStack() as stack:
        for process in processes:
            stack.enter_context(process.stdout)
            stack.callback(process.stdin.close)
        yield


@linux_only
def test_other_hosts_can_connect_before_and_not_after():
    with network(2) as (own, other):
        server = start(own, "-c", SERVER, "5000")
        with closing_pipes(server):
            assert server.stdout.readline() == "open\n"
            assert all(connects(*each, 5000) for each in ((own, "127.0.0.1"), (own, "::1"), (other, own.address)))
            clients = [
                start(host, "-c", CLIENT, address, "5000", "stays")
                for host, address in ((other, own.address), (own, "127.0.0.1"))
            ]
            with closing_pipes(*clients):
                assert [client.stdout.readline() for client in clients] == ["b'hello'\n"] * 2
                server.stdin.write("\n")
                assert server.stdout.readline() == "None\n"
                assert connects(own, "127.0.0.1", 5000)
                assert connects(own, "::1", 5000)
                assert not connects(other, own.address, 5000)
                clients[0].stdin.write("\n")
                assert clients[0].stdout.readline() == "b''\n"  # the server has closed this connection
                assert clients[1].poll() is None
                assert not server.poll()


JOIN = """
import mtf_imaging as mi
runtime = mi.meshes.join()
runtime.barrier()
print("ports", *[address.port for address in runtime.processes.addresses], flush=True)
import sys, threading
threading.Event().wait()
"""


@linux_only
@pytest.mark.slow
def test_another_host_cannot_connect_to_processes_of_launch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(JOIN)
    with network(2) as (own, other):
        words = ("-m", "mtf_imaging.cli.main", "launch", "--num_processes=2", "--", str(script))
        launch = start(own, *words, TF_CPP_MIN_LOG_LEVEL="3")
        with closing_pipes(launch):
            lines = iter(launch.stdout.readline, "")
            ports = next(line for line in lines if line.startswith("ports")).split()[1:]
            for port in ports:
                assert connects(own, "127.0.0.1", port)
                assert not connects(other, own.address, port)
            own.kill()
