"""The secret of the processes of a program: messages of others are ignored. Pure Python."""

import contextlib
import socket

import pytest

from mtf_imaging.engine.processes.heartbeats import decode, encode
from mtf_imaging.engine.processes.peers import Peers
from mtf_imaging.engine.processes.processes import find_processes
from mtf_imaging.engine.processes.secret import SECRET, find_doubt, find_secret, make_secret, make_tag
from mtf_imaging.errors import ClusterError
from tests.engine.processes.test_peers import LONG, TIMEOUT, World, a_status, meet

OTHER = "was started with another secret than this process (MTF_IMAGING_SECRET)"
WITHOUT = "was started without the secret of this process (MTF_IMAGING_SECRET)"
WITH = "was started with a secret (MTF_IMAGING_SECRET), but this process without one"


@pytest.fixture
def start():
    with contextlib.closing(World()) as world:
        yield world


@pytest.mark.parametrize(
    ("own", "other", "doubt"),
    [("", "", ""), ("a", "a", ""), ("a", "b", OTHER), ("a", "", WITHOUT), ("", "b", WITH)],
)
def test_a_tag_shows_whether_the_sender_knows_the_secret(own, other, doubt):
    assert find_doubt(b"data", make_tag(b"data", other), own) == doubt
    assert decode(encode(a_status(), other), own) == (a_status(), doubt)


def test_a_changed_datagram_is_doubted():
    data = encode(a_status(why="lost"), "secret")
    for position in range(4, len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        arrival = decode(bytes(changed), "secret")
        assert arrival is None or arrival.doubt == OTHER


def test_a_datagram_does_not_contain_the_secret():
    secret = make_secret()
    assert secret.encode() not in encode(a_status(), secret)
    assert bytes.fromhex(secret) not in encode(a_status(), secret)


def test_the_secret_is_an_environment_variable_that_is_not_shown():
    environ = {"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'}
    assert find_processes(environ).secret == find_secret({SECRET: " \n"}) == ""
    processes = find_processes(environ | {SECRET: "hidden text\n"})
    assert processes.secret == "hidden text"
    assert "hidden" not in repr(processes)


def test_processes_with_one_secret_meet_although_others_forge_messages(start):
    sockets, addresses = start.bind(2)
    fakes = [start.fake(addresses, i, sockets[i], LONG, "secret") for i in range(2)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for fake in fakes:
            other = fake.peers._make_status()
            for forged in (
                other._replace(roll=b"another list!!!!"),  # would be reported as another list
                other._replace(identity=b"another!"),  # as a process with the same number
                other._replace(number=1 - other.number, why="lost"),
            ):
                stranger.sendto(encode(forged), fake.processes.own)
    meet(fakes)
    assert [fake.error for fake in fakes] == [None, None]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        status = fakes[1].peers._make_status()
        stranger.sendto(encode(status._replace(identity=b"another!"), "guess"), addresses[0])
        stranger.sendto(encode(status._replace(calls=99), "secret"), addresses[0])  # arrives after the forged one
        wait_for_calls(fakes[0].peers, 1, 99)
    assert not fakes[0].peers._replaced


def wait_for_calls(peers: Peers, number: int, calls: int) -> None:
    from tests import waiting

    waiting.wait_until(lambda: peers._last_status(number)[0].calls == calls, "the status")


@pytest.mark.parametrize(("secrets", "doubts"), [(("a", "b"), (OTHER, OTHER)), (("a", ""), (WITHOUT, WITH))])
def test_a_process_with_another_secret_is_named(start, secrets, doubts):
    sockets, addresses = start.bind(2)
    fakes = [start.fake(addresses, i, sockets[i], TIMEOUT, secret) for i, secret in enumerate(secrets)]
    meet(fakes)
    for fake, doubt in zip(fakes, doubts, strict=True):
        other = fake.processes.name(1 - fake.processes.index)
        assert isinstance(fake.error, ClusterError)
        assert str(fake.error) == (
            f"1 of 2 processes did not start within 2 s ({other}: {doubt}). Fix: start all processes with the same "
            "MTF_IMAGING_SECRET, and end the processes of other programs."
        )
