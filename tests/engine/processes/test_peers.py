"""Processes that watch each other: start-up, lost processes and stuck exchanges. Pure Python.

Each process is simulated by a `Peers` in this Python process, and by a TCP port that answers like a gRPC server.
"""

import contextlib
import dataclasses
import math
import random
import re
import socket
import threading
import time

import pytest

from mtf_imaging.engine.processes import heartbeats, peers
from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.heartbeats import (
    Arrival,
    Heartbeats,
    Status,
    check_own_port,
    decode,
    encode,
    watched_by,
    watchers,
)
from mtf_imaging.engine.processes.peers import Peers
from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.errors import ClusterError, ConfigError
from tests import waiting

TIMEOUT = 2.0
LONG = 2 * waiting.PATIENCE  # a timeout that does not expire while a test waits
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


class Fake:
    """A simulated process.

    Args:
      addresses: the addresses of all processes.
      index: the number of this process.
      listener: the TCP port of this process, which is not yet listening.
      timeout: the timeout.
      secret: the secret, or "".
    """

    def __init__(self, addresses, index, listener, timeout=TIMEOUT, secret=""):
        self.cpu, self.messages, self.has_ended = 0.0, [], threading.Event()
        self.processes = Processes(tuple(addresses), index, timeout, secret)
        self._listener, self._is_stopped, self._worker = listener, False, None
        self.peers = Peers(self.processes, self._end, lambda: self.cpu)
        self.error, self._calls = None, contextlib.ExitStack()
        listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    if not self._is_stopped:
                        connection.recv(100)
                        connection.sendall(SETTINGS)
                    else:
                        time.sleep(1.5)

    def _end(self, message):
        self.messages.append(message)
        self.has_ended.set()

    def set_timeout(self, timeout):
        self.processes = self.peers._processes = dataclasses.replace(self.processes, timeout=timeout)

    def meet(self):
        try:
            self.peers.meet()
        except (ClusterError, ConfigError) as error:
            self.error = error

    def enter(self):
        """Begins a call."""
        self._calls.enter_context(self.peers.in_call())

    def leave(self):
        """Completes the call."""
        self._calls.close()

    def work(self):
        """Uses CPU time from now on."""

        def use():
            while not self.has_ended.wait(0.05):
                self.cpu += 0.05

        threading.Thread(target=use, daemon=True).start()

    def stop(self):
        """Stops answering, like a process after SIGSTOP."""
        self._is_stopped = True
        self.peers.close()

    def kill(self):
        """Closes all ports, like the end of a process."""
        self.peers.close()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class World:
    """Creates simulated processes, and ends them when the test ends."""

    def __init__(self):
        self._open = contextlib.ExitStack()

    def bind(self, num):
        """Returns TCP sockets with ports that are free for TCP and UDP, and their addresses."""
        sockets = []
        while len(sockets) < num:
            listener = self._open.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
                probe.bind(listener.getsockname())
                sockets.append(listener)
        return sockets, [Address(*listener.getsockname()) for listener in sockets]

    def fake(self, *args):
        fake = Fake(*args)
        self._open.callback(fake.kill)
        return fake

    def __call__(self, num, timeout=TIMEOUT, meets=True, skip=()):
        """Starts simulated processes, which have met unless `meets` is False. Then, the timeout begins afterwards."""
        sockets, addresses = self.bind(num)
        for i in skip:
            sockets[i].close()
        fakes = [self.fake(addresses, i, sockets[i], LONG if meets else timeout) for i in range(num) if i not in skip]
        if meets:
            meet(fakes)
            assert [fake.error for fake in fakes] == [None] * num
            for fake in fakes:
                fake.set_timeout(timeout)
                fake.peers._start_by = math.inf  # the first exchange would do this
        return fakes

    def close(self):
        self._open.close()


@pytest.fixture
def start():
    with contextlib.closing(World()) as world:
        yield world


def meet(fakes):
    threads = [threading.Thread(target=fake.meet) for fake in fakes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


def messages(fakes):
    """Waits until all processes have ended, and returns their messages."""
    for fake in fakes:
        waiting.wait_until(fake.has_ended.is_set, f"the end of process {fake.processes.index}")
    return [fake.messages[0] for fake in fakes]


def a_status(**changes):
    status = Status(b"r" * 16, b"i" * 8, 3, 2, 5, True, False, True, 1.5, 0.25, "lost process 1 (é)")
    return status._replace(**changes)


@pytest.mark.parametrize("changes", [{}, {"has_server": False, "is_in_call": True, "is_reply": False, "why": ""}])
def test_a_status_survives_the_wire(changes):
    assert decode(encode(a_status(**changes))) == (a_status(**changes), "")


def test_a_long_reason_fits_into_one_packet():
    data = encode(a_status(why="é" * 5000))
    assert len(data) < 1200
    assert set(decode(data).status.why) == {"é"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"mtf1",
        b"GET / HTTP/1.1\r\n\r\n" * 10,
        encode(a_status())[:40],
        b"x" + encode(a_status())[1:],
        encode(a_status(number=3)),
        encode(a_status(idle=math.nan)),
        encode(a_status(outside=-1.0)),
        encode(a_status()) + b"x" * 3000,
    ],
)
def test_other_datagrams_are_not_a_status(data):
    assert decode(data) is None


def test_a_reason_has_no_control_characters():
    assert decode(encode(a_status(why="a\x1b[2Jb\nc"))).status.why == "a[2Jbc"


def test_every_process_is_watched_and_facts_reach_all():
    for num in (2, 3, 16, 17, 100):
        for i in range(num):
            assert all(i in watched_by(j, num) for j in watchers(i, num))
        reached = {0}
        for _ in range(num.bit_length()):
            reached |= {j for i in reached for j in watchers(i, num)}
        assert reached == set(range(num))
    assert len(watched_by(5, 1000)) == 10


def test_processes_meet_although_garbage_arrives(start):
    fakes = start(3, meets=False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for fake in fakes:
            for data in (b"", b"x", random.Random(0).randbytes(500), encode(a_status())[:30]):
                sender.sendto(data, fake.processes.own)
    meet(fakes)
    assert [fake.error for fake in fakes] == [None, None, None]
    assert not any(fake.messages for fake in fakes)


def test_a_missing_process_is_named(start):
    fakes = start(3, meets=False, skip=[1])
    began = time.monotonic()
    meet(fakes)
    assert TIMEOUT <= time.monotonic() - began < waiting.PATIENCE
    name = fakes[0].processes.name(1)
    for fake in fakes:
        assert isinstance(fake.error, ClusterError)
        assert str(fake.error).startswith(
            f"1 of 3 processes did not start within 2 s ({name}: Connection refused). Fix:"
        )


def test_processes_with_other_lists_refuse_to_start(start):
    sockets, addresses = start.bind(3)
    fakes = [start.fake(addresses if i else addresses[:2], i, sockets[i], LONG) for i in range(3)]
    meet(fakes)
    texts = [str(fake.error) for fake in fakes]
    assert "was started with another list of processes than process 0" in texts[0]
    assert "3 processes instead of 2. Fix: start all processes with the same list of addresses." in texts[0]
    assert "2 processes instead of 3" in texts[1]
    assert "2 processes instead of 3" in texts[2]  # as process 1 says


def test_the_address_of_a_process_that_was_replaced_is_found(start, monkeypatch):
    resolve, sockets_and_addresses = socket.getaddrinfo, start.bind(3)
    sockets, (first, second, old) = sockets_and_addresses
    asked = []

    def getaddrinfo(host, port, *arguments):
        asked.append(port)
        was_replaced = asked.count(second.port) > 2  # both processes resolve it once before
        return resolve(host, old.port if port == second.port and not was_replaced else port, *arguments)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(peers, "_WITHOUT_DATAGRAMS", 0.2)
    monkeypatch.setattr(peers, "stranger", lambda *_: None)
    fakes = [start.fake([first, second], i, sockets[i], LONG) for i in range(2)]
    meet(fakes)
    assert [fake.error for fake in fakes] == [None, None]
    waiting.wait_until(lambda: 0 in fakes[1].peers._status, "a message from process 0", patience=30.0)


def test_a_status_that_arrives_early_is_answered(start, monkeypatch):
    """The thread of the heartbeats must not call a `Peers` that is not yet complete."""
    sockets, addresses = start.bind(3)

    def create(*arguments):
        heartbeats = Heartbeats(*arguments)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            status = Status(b"another list!!!!", b"another!", 2, 1, 0, False, False, False, 0.0, 0.0, "")
            other.sendto(encode(status), addresses[0])
        time.sleep(0.2)
        return heartbeats

    monkeypatch.setattr(peers, "Heartbeats", create)
    fake = start.fake(addresses, 0, sockets[0], LONG)
    meet([fake])
    assert "2 processes instead of 3" in str(fake.error)


def test_two_processes_with_one_number_refuse_to_start(start):
    sockets, addresses = start.bind(2)
    fake = start.fake(addresses, 0, sockets[0], LONG)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        status = fake.peers._make_status()._replace(identity=b"another!")
        other.sendto(encode(status), addresses[0])
        meet([fake])
        other.settimeout(waiting.PATIENCE)
        assert decode(other.recvfrom(2000)[0]).status.is_reply  # so the other process refuses as well
    assert isinstance(fake.error, ConfigError)
    assert "two processes have the number 0: this one, and one that sends from 127.0.0.1. Fix: " in str(fake.error)


def test_a_port_in_use_is_an_error(start):
    (listener,), (address,) = start.bind(1)
    processes = Processes((address, Address("127.0.0.1", 1)), 0)
    listener.listen()
    with pytest.raises(
        ConfigError, match=rf"process 0 \({address}\): port {address.port} is in use on this host. Fix: end"
    ):
        check_own_port(processes)
    twins = Processes((address, Address("node1", address.port), Address("node2", 1)), 0)
    who = f"(by process 1 (node1:{address.port}), a task of another node on this host?). Fix: end"
    with pytest.raises(ConfigError, match=re.escape(f"port {address.port} is in use on this host {who}")):
        check_own_port(twins)
    listener.close()
    check_own_port(processes)


def test_a_second_instance_finds_its_port_in_use(start):
    (fake, _) = start(2, meets=False)
    with pytest.raises(ConfigError, match=r"UDP port \d+ is in use on this host"):
        Peers(fake.processes, print)


def test_an_earlier_program_does_not_count_as_started(start):
    fakes = start(2, meets=False)
    for _ in range(5):
        fakes[1].enter()
        fakes[1].leave()
    fakes[1].peers._has_server = True
    meet(fakes[:1])
    assert f"({fakes[0].processes.name(1)}: still runs an earlier program)" in str(fakes[0].error)


def test_the_end_of_a_process_is_noticed_before_the_timeout(start):
    fakes = start(3, timeout=LONG)
    for fake in fakes:
        fake.enter()
    fakes[2].kill()
    for text in messages(fakes[:2]):
        assert text.startswith(f"lost {fakes[0].processes.name(2)}: it has ended (Connection refused). ")
        assert "training resumes from the last checkpoint" in text


def test_a_stopped_process_is_lost_after_the_timeout(start):
    fakes = start(3)
    for fake in fakes:
        fake.enter()
        fake.work()
    fakes[1].stop()
    began = time.monotonic()
    for text in messages([fakes[0], fakes[2]]):
        assert text.startswith(f"lost {fakes[0].processes.name(1)}: no answer for ")
    assert time.monotonic() - began > TIMEOUT - 1.0
    assert not fakes[1].messages


def test_a_process_outside_a_call_outlives_the_others(start):
    fakes = start(2, timeout=1.0)
    fakes[1].kill()
    waiting.wait_until(lambda: 1 in fakes[0].peers._silence, "the refusal of process 1")
    time.sleep(2 * peers.EVERY)  # in a call, process 0 would end after one interval
    assert not fakes[0].messages
    fakes[0].enter()
    assert "it has ended" in messages(fakes[:1])[0]


def test_a_process_that_was_started_again_is_lost(start):
    fakes = start(2)
    fakes[0].enter()
    fakes[0].work()
    status = fakes[1].peers._make_status()
    fakes[0].peers._receive(Arrival(status._replace(identity=b"another!"), ""), ("127.0.0.1", 1))
    assert messages(fakes[:1])[0].startswith(f"lost {fakes[0].processes.name(1)}: it was started again. ")


@pytest.mark.slow
def test_all_of_many_processes_name_the_same_lost_one(start):
    fakes = start(20, timeout=LONG)
    for fake in fakes:
        fake.enter()
        fake._end = lambda message, fake=fake: (Fake._end(fake, message), fake.kill())  # as a real process does
        fake.peers._end = fake._end
    fakes[7].kill()
    texts = messages([fake for fake in fakes if fake is not fakes[7]])
    assert all(text.startswith(f"lost {fakes[0].processes.name(7)}: it has ended") for text in texts), texts


def test_processes_that_all_wait_are_stuck(start):
    fakes = start(3)
    for calls, fake in zip((2, 2, 1), fakes, strict=True):
        for _ in range(calls - 1):
            fake.enter()
            fake.leave()
        fake.enter()
    name = fakes[0].processes.name
    for text in messages(fakes):
        assert "and none of them computes: " in text
        assert f"{name(0)} and {name(1)} are in call 2; {name(2)} is in call 1. Fix: make all processes call" in text


@pytest.mark.slow
def test_a_process_outside_its_calls_may_sleep_for_several_timeouts(start, monkeypatch):
    monkeypatch.setattr(peers, "_PATIENCE", 3)  # timeouts
    fakes = start(2, timeout=1.0)
    fakes[0].enter()
    began = time.monotonic()
    (text,) = messages(fakes[:1])
    assert time.monotonic() - began > 2.5
    assert f"{fakes[0].processes.name(1)} is outside a call, after 0 calls" in text
    assert not fakes[1].messages  # it does not wait


@pytest.mark.slow
@pytest.mark.parametrize("place", ["in the call", "outside"])
def test_a_process_that_computes_is_waited_for(start, monkeypatch, place):
    monkeypatch.setattr(peers, "_PATIENCE", 1.5)  # timeouts, for a process outside its calls
    fakes = start(3, timeout=1.5)
    for fake in fakes[1:] if place == "outside" else fakes:
        fake.enter()
    fakes[0].work()
    time.sleep(1.5 * 1.5 + 2 * peers.EVERY)  # without work, all would end now
    assert not any(fake.messages for fake in fakes)


@pytest.mark.slow
def test_many_processes_wait_for_one_that_computes(start, monkeypatch):
    for module in (peers, heartbeats):
        monkeypatch.setattr(module, "EVERY", 0.2)
    fakes = start(20, timeout=2.0)
    for fake in fakes:
        fake.enter()
    fakes[13].work()
    time.sleep(2.0 + 5 * peers.EVERY)  # without work, all would end now
    assert not any(fake.messages for fake in fakes)


@pytest.mark.slow
def test_without_datagrams_only_the_ports_count(start, monkeypatch):
    monkeypatch.setattr(Heartbeats, "send", lambda self: None)
    monkeypatch.setattr(peers, "_WITHOUT_DATAGRAMS", 0.5)
    monkeypatch.setattr(peers, "stranger", lambda *_: None)  # the simulated ports are not TensorFlow's
    fakes = start(2)
    for fake in fakes:
        fake.enter()
    time.sleep(TIMEOUT + 2 * peers.EVERY)
    assert not any(fake.messages for fake in fakes)  # nobody knows that all wait
    fakes[1].kill()
    assert "it has ended" in messages(fakes[:1])[0]


def test_a_process_that_never_begins_with_the_others_ends(start):
    fakes = start(2, timeout=1.0)
    for fake in fakes:
        fake.work()
        fake.enter()
        fake.peers._start_by = time.monotonic() + 1.0
    for text in messages(fakes):
        assert text.startswith("the 2 processes did not begin together within 2 s, although all of them answer. Fix: ")


def test_a_process_ends_after_the_others_have_completed_its_last_call(start):
    fakes = start(2, timeout=LONG)
    for fake in fakes:
        fake.enter()
    fakes[0].leave()
    thread = threading.Thread(target=fakes[0].peers._linger)
    thread.start()
    thread.join(2 * peers.EVERY)
    assert thread.is_alive()
    fakes[1].leave()
    thread.join(waiting.PATIENCE)
    assert not thread.is_alive()
    fakes[1].enter()  # it needs others, but this process makes no more calls
    fakes[0].peers._linger()


def test_watching_costs_little(start):
    fakes = start(16, timeout=LONG)
    for fake in fakes:
        fake.enter()
    threads, cpu = threading.active_count(), time.process_time()
    seconds = 4 * peers.EVERY
    time.sleep(seconds)
    assert threading.active_count() <= threads
    assert (time.process_time() - cpu) / seconds / 16 < 0.05  # CPUs for each process
