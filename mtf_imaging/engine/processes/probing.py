"""Asks whether a process of TensorFlow answers at an address. Pure Python, so it works while TensorFlow is blocked."""

import socket

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.errors import reason

# HTTP/2 (RFC 9113): the connection preface of a client, and the header of a server's first frame.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME_HEADER, _TYPE_AT, _SETTINGS = 9, 3, 4
_DATA, _HEADERS, _RST_STREAM, _GOAWAY = 0, 1, 3, 7
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8
_STREAM = 1  # the number of the only stream
_NOT_HTTP2 = "another service, not TensorFlow, answers on this port"
_NOT_TENSORFLOW = "another gRPC or HTTP/2 service, not TensorFlow, answers on this port"


def silence(address: Address, timeout: float) -> str | None:
    """Returns the reason that a process does not answer within `timeout` seconds, or None if it answers.

    An open connection is not sufficient, because the operating system accepts connections even for a stopped process.
    The function therefore waits for the first frame that a gRPC server sends.
    """
    try:
        with socket.create_connection(address, timeout) as connection, connection.makefile("rb") as answer:
            connection.sendall(_HELLO)
            header = answer.read(_FRAME_HEADER)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return reason(error)
    if not header:
        return "connection closed"
    return None if header[_TYPE_AT:][:1] == bytes([_SETTINGS]) else _NOT_HTTP2


def stranger(address: Address, timeout: float) -> str | None:
    """Describes a service that is not TensorFlow; returns None for TensorFlow.

    Any gRPC service sends the frame that `silence` waits for. The function therefore calls a status method that only
    TensorFlow has. Other services answer with trailers only, or with a web page.

    Raises:
      OSError: the connection fails, or the service does not answer within `timeout` seconds.
    """
    with socket.create_connection(address, timeout) as connection, connection.makefile("rb") as answer:
        connection.sendall(_HELLO + _status_request(address))
        while header := answer.read(_FRAME_HEADER):
            size, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
            stream, payload = int.from_bytes(header[5:], "big"), answer.read(size)
            if kind == _DATA and stream == _STREAM:
                message = payload[1:] if flags & _PADDED else payload
                return (
                    None if message[:1] == b"\0" and len(message) > 5 else _NOT_TENSORFLOW
                )  # gRPC messages have a prefix of 5 bytes
            if kind in (_GOAWAY, _RST_STREAM) or (kind == _HEADERS and flags & _END_STREAM):
                break
    return _NOT_TENSORFLOW


def _status_request(address: Address) -> bytes:
    """Encodes a call to TensorFlow's `GetStatus`, without arguments, as HTTP/2 frames."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/tensorflow.WorkerService/GetStatus",
        ":authority": str(address),
        "content-type": "application/grpc",
        "te": "trailers",
    }
    # HPACK, RFC 7541, section 6.2.2: literals, without index and without Huffman coding.
    words = [[bytes([len(word)]) + word.encode() for word in field] for field in fields.items()]
    block = b"".join(b"\0" + name + value for name, value in words)
    return _frame(_HEADERS, _END_HEADERS, block) + _frame(_DATA, _END_STREAM, bytes(5))


def _frame(kind: int, flags: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + _STREAM.to_bytes(4, "big") + payload
