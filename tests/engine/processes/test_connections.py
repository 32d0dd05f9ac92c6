"""Connections to a port lose the timeout that gRPC sets, and other connections keep theirs."""

import socket
import sys

import pytest

from mtf_imaging.engine.processes.sockets import keep_connections

GRPC = 20_000  # milliseconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_USER_TIMEOUT and /proc exist on Linux only")


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _connect(server):
    """Returns the two ends of a new connection, each with a timeout."""
    ends = socket.create_connection(server.getsockname()), server.accept()[0]
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GRPC)
    return ends


def _timeout(end):
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


def test_connections_to_the_port_have_no_timeout(server):
    for _ in range(2):  # also a connection that is opened between two calls
        client, accepted = _connect(server)
        keep_connections(server.getsockname()[1])
        with client, accepted:
            assert _timeout(client) == GRPC, "a connection to another port"
            assert _timeout(accepted) == 0
            client.sendall(b"still open")
            assert accepted.recv(100) == b"still open"


def test_other_open_files_do_not_matter(server, tmp_path):
    here, there = socket.socketpair()
    with here, there, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, open(tmp_path / "file", "w"):
        datagrams.bind(server.getsockname())
        keep_connections(server.getsockname()[1])
        here.sendall(b"open")
        assert there.recv(100) == b"open"
