"""Parses the addresses of TensorFlow servers, such as "host0:2222,host1:2222", and checks whether the servers answer.

Pure Python. The checks work before TensorFlow is imported, and while TensorFlow waits for a server that never answers.
"""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from mtf_imaging.errors import ClusterError, ConfigError, reason
from mtf_imaging.processes import proxies

EXAMPLE = "host0:2222,host1:2222"
_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9A-Fa-f:.%\w]+\]):(?P<port>[0-9]+)")
_LOOPBACK = re.compile(r"localhost|127\..*|::1")
_HIGHEST_PORT = 65535

# HTTP/2 (RFC 9113): the connection preface of a client, and the header of a server's first frame.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME_HEADER, _TYPE_AT, _SETTINGS = 9, 3, 4
_DATA, _HEADERS, _RST_STREAM, _GOAWAY = 0, 1, 3, 7
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8
_STREAM = 1  # the number of the only stream
_NOT_HTTP2 = "another service, not a TensorFlow server, answers on this port"
_NOT_TENSORFLOW = "another gRPC or HTTP/2 service, not a TensorFlow server, answers on this port"


class Server(NamedTuple):
    """The address of a server; `str` returns it in TensorFlow's format."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(string: str) -> tuple[Server, ...]:
    """Parses the addresses of servers.

    `;` means the same as `,`, spaces around addresses are ignored, and "" means no servers.

    >>> [str(server) for server in parse_servers("host0:2222, host1:2222")]
    ['host0:2222', 'host1:2222']

    Raises:
      ConfigError: an address is invalid, is repeated, or is local to each host. The error lists all
        faults.
    """
    if not isinstance(string, str):
        raise ConfigError(f"cluster must be a string such as '{EXAMPLE}', not {string!r}.")
    servers, faults = [], []
    for word in re.split("[,;]", string) if string.strip() else []:
        try:
            server = _parse_server(word.strip())
        except ConfigError as fault:
            faults.append(str(fault))
            continue
        if server in servers:
            faults.append(f"'{server}' appears more than once. Fix: list each server once.")
        servers.append(server)
    here = [server for server in servers if is_loopback(server)]
    if here and len(here) < len(servers):
        faults.append(
            f"'{here[0].host}' is a different host on each host. Fix: use a name or IP address that all hosts know."
        )
    if faults:
        raise ConfigError(
            "\n  ".join([f"cluster '{string.strip()}' is not a list of servers such as '{EXAMPLE}':", *faults])
        )
    return tuple(servers)


def _parse_server(word: str) -> Server:
    match = _ADDRESS.fullmatch(word)
    if not word:
        raise ConfigError("an item before or after a ',' is empty. Fix: remove the ','.")
    if match is None:
        bare = re.sub(r"^\w+://", "", word).rstrip("/")
        if _ADDRESS.fullmatch(bare):
            raise ConfigError(f"'{word}' is more than host:port. Fix: write '{bare}'.")
        fix = f" Fix: write '{word}:2222'." if re.fullmatch(r"[\w.-]+", word) else ""
        raise ConfigError(f"'{word}' is not host:port.{fix}")
    port = int(match["port"])
    if not 1 <= port <= _HIGHEST_PORT:
        raise ConfigError(f"'{word}': the port must be 1 to {_HIGHEST_PORT}, not {port}.")
    return Server(match["host"].strip("[]"), port)


def is_loopback(server: Server) -> bool:
    """Returns whether an address refers to this host only, on every host."""
    return bool(_LOOPBACK.fullmatch(server.host))


def silence(server: Server, timeout: float) -> str | None:
    """Returns the reason that a server does not answer within `timeout` seconds, or None if it answers.

    An open connection is not sufficient, because the operating system accepts connections even for a stopped process.
    The function therefore waits for the first frame that a gRPC server sends.
    """
    try:
        with socket.create_connection(server, timeout) as connection, connection.makefile("rb") as answer:
            connection.sendall(_HELLO)
            header = answer.read(_FRAME_HEADER)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return reason(error)
    if not header:
        return "connection closed"
    return None if header[_TYPE_AT:][:1] == bytes([_SETTINGS]) else _NOT_HTTP2


def stranger(server: Server, timeout: float) -> str | None:
    """Describes a service that is not a TensorFlow server; returns None for a TensorFlow server.

    Any gRPC service sends the frame that `silence` waits for. The function therefore calls a status method that only
    TensorFlow servers have. Other services answer with trailers only, or with a web page.

    Raises:
      OSError: the connection fails, or the service does not answer within `timeout` seconds.
    """
    with socket.create_connection(server, timeout) as connection, connection.makefile("rb") as answer:
        connection.sendall(_HELLO + _status_request(server))
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


def _status_request(server: Server) -> bytes:
    """Encodes a call to TensorFlow's `GetStatus`, without arguments, as HTTP/2 frames."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/tensorflow.WorkerService/GetStatus",
        ":authority": str(server),
        "content-type": "application/grpc",
        "te": "trailers",
    }
    # HPACK, RFC 7541, section 6.2.2: literals, without index and without Huffman coding.
    words = [[bytes([len(word)]) + word.encode() for word in field] for field in fields.items()]
    block = b"".join(b"\0" + name + value for name, value in words)
    return _frame(_HEADERS, _END_HEADERS, block) + _frame(_DATA, _END_STREAM, bytes(5))


def _frame(kind: int, flags: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + _STREAM.to_bytes(4, "big") + payload


def wait_for(servers: Sequence[Server], timeout: float) -> None:
    """Waits until all servers answer as TensorFlow servers.

    Raises:
      ClusterError: servers do not answer within `timeout` seconds, or another service answers.
    """
    watch = Watch(servers)
    try:
        watch.wait(timeout)
    finally:
        watch.close()
    for server in servers:
        try:
            what = stranger(server, timeout)
        except OSError as error:
            raise ClusterError(
                f"{server}: the server no longer answers: {reason(error)}. "
                f"Fix: restart the server at port {server.port} of {server.host}.",
                settings=["port"],
            ) from error
        if what:
            raise _refused(server, what)


def _refused(server: Server, what: str) -> ClusterError:
    return ClusterError(
        f"{server}: {what}. Fix: start a server at a free port of {server.host}, for instance port "
        f"{server.port % _HIGHEST_PORT + 1}, and name that port in cluster.",
        settings=["port", "cluster"],
    )


def own_address(servers: Sequence[Server]) -> str:
    """Returns an address at which servers can reach this host."""
    addresses = []
    for server in servers:
        with contextlib.suppress(OSError), socket.create_connection(server, 5.0) as connection:
            addresses.append(connection.getsockname()[0])
    # Other hosts cannot use a loopback address, so any other address is preferred.
    return min(addresses, key=lambda address: bool(_LOOPBACK.fullmatch(address)), default="localhost")


def free_port() -> int:
    """Returns a port number that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Watch:
    """A monitor that contacts servers periodically, with one thread per server.

    Args:
      servers: the servers.
      every: seconds between an answer and the next request.
      patience: seconds to wait for an answer.
    """

    def __init__(self, servers: Sequence[Server], every: float = 1.0, patience: float = 5.0) -> None:
        self._every, self._patience = every, patience
        self._closed = threading.Event()
        self._answered: dict[Server, float] = {}  # time of the last answer
        self._why = dict.fromkeys(servers, "no answer")
        for server in servers:
            threading.Thread(target=self._ask, args=[server], daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def silent(self, seconds: float) -> dict[Server, str]:
        """Returns the servers that have not answered in the last `seconds` (infinity: never), with the reasons."""
        since = time.monotonic() - seconds
        return {
            server: why
            for server, why in self._why.items()
            if server not in self._answered or self._answered[server] < since
        }

    def wait(self, timeout: float) -> None:
        """Waits until all servers have answered.

        Raises:
          ClusterError: servers do not answer within `timeout` seconds, or another service answers.
        """
        end = time.monotonic() + timeout
        while missing := self.silent(float("inf")):
            for server, why in missing.items():
                if why == _NOT_HTTP2:
                    raise _refused(server, why)
            if time.monotonic() > end:
                starts = (f"a server at port {server.port} of {server.host}" for server in missing)
                raise ClusterError(
                    f"{' and '.join(f'{server} ({why})' for server, why in missing.items())}: {len(missing)} of "
                    f"{len(self._why)} servers did not answer within {timeout:g} s.{proxies.note()} Fix: "
                    f"start {' and '.join(starts)}, or name other servers in cluster.",
                    settings=["port", "cluster"],
                )
            time.sleep(0.05)

    def _ask(self, server: Server) -> None:
        while not self._closed.is_set():
            why = silence(server, self._patience)
            if why is None:
                self._answered[server] = time.monotonic()
            else:
                self._why[server] = why
            self._closed.wait(self._every)
