"""Checks whether a process of TensorFlow answers at an address."""

import contextlib
import http.server
import socket
import struct
import threading
from concurrent import futures

import pytest

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.probing import silence, stranger
from tests import waiting
from tests.engine.processes.starting import free_port


@contextlib.contextmanager
def listener(answer):
    """A service that sends `answer` to every client; an empty answer simulates a stopped process."""
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
            yield Address("localhost", server.getsockname()[1])
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\0\0\6\4\0\0\0\0\0\0\0\0\0\0\0", None),  # an HTTP/2 settings frame
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "another service, not TensorFlow, answers on this port"),
        (b"\x15\x03\x03\0\2\2\x50\0\0\0", "another service, not TensorFlow, answers on this port"),  # a TLS alert
        (b"", "no answer"),
    ],
)
def test_a_process_answers_as_grpc_does(answer, why):
    with listener(answer) as address:
        assert silence(address, waiting.PATIENCE if answer else 0.3) == why


def test_a_process_that_is_not_there_does_not_answer():
    assert "refused" in silence(Address("localhost", free_port()), waiting.PATIENCE)
    assert silence(Address("no-such-host.invalid", 1), waiting.PATIENCE)


@contextlib.contextmanager
def grpc_service():
    """A gRPC server without TensorFlow's methods."""
    grpc = pytest.importorskip("grpc")
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield Address("localhost", port)
    finally:
        server.stop(None).wait()


@contextlib.contextmanager
def web_server():
    handler = type("Quiet", (http.server.BaseHTTPRequestHandler,), {"log_message": lambda *args: None})
    server = http.server.ThreadingHTTPServer(("localhost", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Address("localhost", server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def tensorflow():
    import tensorflow as tf

    server = tf.distribute.Server({"process": ["localhost:0"]}, job_name="process", task_index=0)
    yield Address("localhost", int(server.target.rpartition(":")[2]))


NOT_TENSORFLOW = "another gRPC or HTTP/2 service, not TensorFlow, answers on this port"


@pytest.mark.parametrize(
    ("service", "silent", "strange"),
    [
        (tensorflow, None, None),
        (grpc_service, None, NOT_TENSORFLOW),
        (web_server, "another service, not TensorFlow, answers on this port", NOT_TENSORFLOW),
    ],
)
def test_services_that_run(service, silent, strange):
    with service() as address:
        assert silence(address, waiting.PATIENCE) == silent
        assert stranger(address, waiting.PATIENCE) == strange


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
        ([(7, 0, 0, b"\0" * 8)], False),  # the service closes the connection
    ],
)
def test_the_answer_identifies_tensorflow(frames, is_tensorflow):
    with listener(b"".join(http2_frame(*frame) for frame in [(4, 0, 0), *frames])) as address:
        assert (stranger(address, waiting.PATIENCE) is None) == is_tensorflow
