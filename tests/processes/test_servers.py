"""Addresses of servers, and checks whether servers answer. Pure Python."""

import contextlib
import http.server
import re
import socket
import struct
import threading
import time
from concurrent import futures

import pytest

from mtf_imaging.errors import ClusterError, ConfigError
from mtf_imaging.processes.servers import (
    Server,
    Watch,
    free_port,
    own_address,
    parse_servers,
    silence,
    stranger,
    wait_for,
)
from tests import waiting


def test_addresses_are_parsed_in_order():
    assert parse_servers("") == parse_servers("  ") == ()
    assert parse_servers("b.example:2222; 10.0.0.3:1,[fe80::1%eth0]:65535") == (
        Server("b.example", 2222),
        Server("10.0.0.3", 1),
        Server("fe80::1%eth0", 65535),
    )


@pytest.mark.parametrize("string", ["host0:2222,10.0.0.3:1", "[::1]:2222", "localhost:1,127.0.0.1:1,127.0.0.2:1"])
def test_formatting_parsed_addresses_returns_the_string(string):
    assert ",".join(map(str, parse_servers(string))) == string


@pytest.mark.parametrize(
    ("string", "faults"),
    [
        ("host", ["'host' is not host:port. Fix: write 'host:2222'."]),
        ("grpc://host:2/", ["'grpc://host:2/' is more than host:port. Fix: write 'host:2'."]),
        ("host:a", ["'host:a' is not host:port."]),
        ("fe80::1:2222", ["'fe80::1:2222' is not host:port."]),
        (
            "a:0,b:65536",
            ["'a:0': the port must be 1 to 65535, not 0.", "'b:65536': the port must be 1 to 65535, not 65536."],
        ),
        ("a:1,", ["an item before or after a ',' is empty. Fix: remove the ','."]),
        ("a:1,b:1,a:1", ["'a:1' appears more than once. Fix: list each server once."]),
        ("a:1,localhost:1", ["'localhost' is a different host on each host. Fix: "]),
        (
            "127.0.0.1:1,a:1,b",
            ["'b' is not host:port. Fix: write 'b:2222'.", "'127.0.0.1' is a different host on each host."],
        ),
        (2222, ["cluster must be a string such as 'host0:2222,host1:2222', not 2222."]),
    ],
)
def test_one_error_lists_all_invalid_addresses(string, faults):
    with pytest.raises(ConfigError) as error:
        parse_servers(string)
    for fault in faults:
        assert fault in str(error.value)
    assert str(error.value).count("\n") == (len(faults) if isinstance(string, str) else 0)


@contextlib.contextmanager
def listener(answer):
    """A server that sends `answer` to every client; an empty answer simulates a stopped process."""
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.create_server(("localhost", 0)))
        server.settimeout(0.05)
        ended = threading.Event()

        def serve():
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    opened.enter_context(server.accept()[0]).sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Server("localhost", server.getsockname()[1])
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\0\0\6\4\0\0\0\0\0\0\0\0\0\0\0", None),  # an HTTP/2 settings frame
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "another service, not a TensorFlow server, answers on this port"),
        # A TLS alert.
        (b"\x15\x03\x03\0\2\2\x50\0\0\0", "another service, not a TensorFlow server, answers on this port"),
        (b"", "no answer"),
    ],
)
def test_a_server_answers_as_grpc_does(answer, why):
    with listener(answer) as server:
        assert silence(server, waiting.PATIENCE if answer else 0.3) == why


def test_a_server_that_is_not_there_does_not_answer():
    assert "refused" in silence(Server("localhost", free_port()), waiting.PATIENCE)
    assert silence(Server("no-such-host.invalid", 1), waiting.PATIENCE)


def test_waiting_ends_when_all_answer_or_time_is_up():
    with listener(b"\0\0\0\4\0\0\0\0\0") as there:
        watch = Watch([there])
        watch.wait(waiting.PATIENCE)
        assert watch.silent(waiting.PATIENCE) == {}
        watch.close()
        missing = Server("localhost", free_port())
        watch, begin = Watch([there, missing]), time.monotonic()
        with pytest.raises(ClusterError) as error:
            watch.wait(0.5)
        assert str(error.value) == (
            f"{missing} (Connection refused): 1 of 2 servers did not answer within 0.5 s. "
            f"Fix: start a server at port {missing.port} of localhost, or name other servers in cluster."
        )
        assert error.value.settings == ("port", "cluster")
        watch.close()
        assert 0.5 < time.monotonic() - begin < waiting.PATIENCE


@contextlib.contextmanager
def grpc_service():
    """A gRPC server without TensorFlow's methods."""
    grpc = pytest.importorskip("grpc")
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield Server("localhost", port)
    finally:
        server.stop(None).wait()


@contextlib.contextmanager
def web_server():
    handler = type("Quiet", (http.server.BaseHTTPRequestHandler,), {"log_message": lambda *args: None})
    server = http.server.ThreadingHTTPServer(("localhost", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server("localhost", server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("service", "what"),
    [
        (grpc_service, "another gRPC or HTTP/2 service, not a TensorFlow server"),
        (web_server, "another service, not a TensorFlow server"),
    ],
)
def test_another_service_on_the_port_is_refused_at_once(service, what):
    began = time.monotonic()
    with service() as server, pytest.raises(ClusterError) as error:
        wait_for([server], 2 * waiting.PATIENCE)
    assert time.monotonic() - began < waiting.PATIENCE, "waiting longer cannot help"
    assert str(error.value) == (
        f"{server}: {what}, answers on this port. Fix: start a server at a free port of {server.host}, for instance "
        f"port {server.port + 1}, and name that port in cluster."
    )
    assert error.value.settings == ("port", "cluster")


def http2_frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


@pytest.mark.parametrize(
    ("frames", "is_tensorflow"),
    [
        ([(1, 4, 1, b"\x88"), (0, 0, 1, b"\0\0\0\0\3abc"), (1, 5, 1, b"\x88")], True),
        ([(8, 0, 0, b"\0\0\xff\xff"), (1, 4, 1, b"\x88"), (0, 8, 1, b"\1\0\0\0\0\3abc\0")], True),  # padded
        ([(1, 4, 1, b"\x8d"), (0, 1, 1, b"<html>not found</html>")], False),
        ([(1, 5, 1, b"\x88")], False),  # trailers only: unknown method
        ([(3, 0, 1, b"\0\0\0\7")], False),  # refused stream
        ([(7, 0, 0, b"\0" * 8)], False),  # the server closes the connection
    ],
)
def test_the_answer_identifies_a_tensorflow_server(frames, is_tensorflow):
    with listener(b"".join(http2_frame(*frame) for frame in [(4, 0, 0), *frames])) as server:
        assert (stranger(server, waiting.PATIENCE) is None) == is_tensorflow


def test_a_server_that_falls_silent_is_noticed():
    with listener(b"\0\0\0\4\0\0\0\0\0") as server:
        watch = Watch([server], every=0.05)
        watch.wait(waiting.PATIENCE)
    waiting.wait_until(lambda: watch.silent(0.5).keys() == {server}, "the silence of the server")
    watch.close()


def test_the_own_address_is_one_that_servers_can_reach():
    with listener(b"") as server:
        assert re.fullmatch(r"127\.0\.0\.1|::1", own_address([server]))
    assert own_address([Server("localhost", free_port())]) == "localhost"
