"""The hosts of the tests: they have names, reach each other, and can be disconnected."""

import subprocess

import pytest

from tests.hosts.network import network

ASK = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1.0); print('connected')"
LISTEN = (
    "import socket; s = socket.create_server(('', 5000)); print('open', flush=True); [s.accept() for _ in range(9)]"
)


def _reaches(host, other):
    done = subprocess.run(host.command("python3", "-c", ASK, other.name, "5000"), capture_output=True, text=True)
    return done.stdout == "connected\n"


def test_hosts_reach_each_other_by_name_until_one_is_disconnected():
    with network(3) as hosts:
        assert [host.run("hostname").strip() for host in hosts] == ["host0", "host1", "host2"]
        server = hosts[2].start("python3", "-c", LISTEN, stdout=subprocess.PIPE, text=True)
        with server.stdout:
            assert server.stdout.readline() == "open\n"
            before = hosts[0].sent()
            assert _reaches(hosts[0], hosts[2])
            assert hosts[0].sent() > before
            assert not _reaches(hosts[0], hosts[1])
            hosts[2].disconnect()
            assert not _reaches(hosts[0], hosts[2])
            hosts[2].connect()
            assert _reaches(hosts[0], hosts[2])
            hosts[2].power_off()
            assert server.returncode == -9


@pytest.mark.parametrize("num", [1, 2])
def test_networks_beside_each_other_are_separate(num):
    with network(num) as hosts, network(2) as others:
        assert hosts[0].address == others[0].address
        assert {host.namespace for host in hosts}.isdisjoint(host.namespace for host in others)


def test_the_daemons_of_a_host_end_with_it():
    with network(2) as hosts:
        for host in hosts:
            host.start("setsid", "--fork", "sleep", "1000").wait()
        assert [len(_pids(host)) for host in hosts] == [1, 1]
        hosts[1].power_off()
        assert [len(_pids(host)) for host in hosts] == [1, 0]


def _pids(host):
    return subprocess.run(
        ["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True
    ).stdout.split()
