"""TensorFlow servers of other hosts by their addresses, "host0:2222,host1:2222": parsed, and asked whether they answer.

Pure Python: it works before TensorFlow is imported, and while TensorFlow waits for a server that will never answer.
"""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from mtf_imaging.errors import ClusterError, ConfigError, reason

EXAMPLE = "host0:2222,host1:2222"
_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9A-Fa-f:.%\w]+\]):(?P<port>[0-9]+)")
_LOOPBACK = re.compile(r"localhost|127\..*|::1")
_HIGHEST_PORT = 65535

# HTTP/2, RFC 9113: what a client opens with, and how the frame begins that a server answers with at once.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME_HEADER, _TYPE_AT, _SETTINGS = 9, 3, 4
_DATA, _HEADERS, _RST_STREAM, _GOAWAY = 0, 1, 3, 7
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8
_STREAM = 1  # the number of the only stream
_STRANGER = "another service, not a TensorFlow server, answers on this port"
_OTHER_SERVICE = "another gRPC or HTTP/2 service, not a TensorFlow server, answers on this port"


class Server(NamedTuple):
    """Where a server listens; its string is what TensorFlow calls it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(string: str) -> tuple[Server, ...]:
    """Parses the addresses of servers; `;` is read as `,`, spaces around addresses are ignored, "" is none.

    >>> [str(server) for server in parse_servers("host0:2222, host1:2222")]
    ['host0:2222', 'host1:2222']

    Raises:
      ConfigError: with every fault: what is no address, what comes twice, and names that mean another host elsewhere.
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
            faults.append(f"'{server}' comes twice; a server is one process. Fix: name it once.")
        servers.append(server)
    here = [server for server in servers if _LOOPBACK.fullmatch(server.host)]
    if here and len(here) < len(servers):
        faults.append(
            f"'{here[0].host}' is another host on each host. Fix: call it by the name or number that the others know."
        )
    if faults:
        raise ConfigError("\n  ".join([f"cluster '{string.strip()}', which should read '{EXAMPLE}':", *faults]))
    return tuple(servers)


def _parse_server(word: str) -> Server:
    match = _ADDRESS.fullmatch(word)
    if not word:
        raise ConfigError("there is nothing on one side of a ','.")
    if match is None:
        bare = re.sub(r"^\w+://", "", word).rstrip("/")
        if _ADDRESS.fullmatch(bare):
            raise ConfigError(f"'{word}' is more than host:port. Fix: '{bare}'.")
        fix = f" Fix: '{word}:2222'." if re.fullmatch(r"[\w.-]+", word) else ""
        raise ConfigError(f"'{word}' is no host:port.{fix}")
    port = int(match["port"])
    if not 1 <= port <= _HIGHEST_PORT:
        raise ConfigError(f"'{word}': ports are 1 to {_HIGHEST_PORT}, not {port}.")
    return Server(match["host"].strip("[]"), port)


def silence(server: Server, timeout: float) -> str | None:
    """Why a server does not answer within `timeout` seconds; None where it does.

    That a connection opens says little: the operating system opens it also for a process that is stopped. So the server
    is asked for the frame that gRPC sends first.
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
    return None if header[_TYPE_AT:][:1] == bytes([_SETTINGS]) else _STRANGER


def stranger(server: Server, timeout: float) -> str | None:
    """Describes the service that answers instead of a TensorFlow server; returns None for a TensorFlow server.

    Any gRPC service sends the frame that `silence` waits for. Therefore the function calls a status method that only
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
                return None if message[:1] == b"\0" and len(message) > 5 else _OTHER_SERVICE  # gRPC's prefix: 5 bytes
            if kind in (_GOAWAY, _RST_STREAM) or (kind == _HEADERS and flags & _END_STREAM):
                break
    return _OTHER_SERVICE


def _status_request(server: Server) -> bytes:
    """Encodes a call of TensorFlow's `GetStatus`, without arguments, as HTTP/2 frames."""
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
      ClusterError: servers do not answer within `timeout` seconds; or, at once, another service answers.
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
                f"{server}: stopped answering: {reason(error)}. "
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
    """The address of this host by which the servers can reach it."""
    found = []
    for server in servers:
        with contextlib.suppress(OSError), socket.create_connection(server, 5.0) as connection:
            found.append(connection.getsockname()[0])
    # A host may know itself under a number of which others know nothing.
    return min(found, key=lambda address: bool(_LOOPBACK.fullmatch(address)), default="localhost")


def free_port() -> int:
    """A port on which nothing listens at the moment."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Watch:
    """Asks servers whether they are there, again and again, each in a thread of its own.

    Args:
      servers: the servers.
      every: seconds from an answer to the next question.
      patience: seconds to wait for an answer.
    """

    def __init__(self, servers: Sequence[Server], every: float = 1.0, patience: float = 5.0) -> None:
        self._every, self._patience = every, patience
        self._closed = threading.Event()
        self._answered: dict[Server, float] = {}  # when
        self._why = dict.fromkeys(servers, "no answer")
        for server in servers:
            threading.Thread(target=self._ask, args=[server], daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def silent(self, seconds: float) -> dict[Server, str]:
        """The servers that have not answered in the last `seconds`, and why; seconds=inf: that never have."""
        since = time.monotonic() - seconds
        return {
            server: why
            for server, why in self._why.items()
            if server not in self._answered or self._answered[server] < since
        }

    def wait(self, timeout: float) -> None:
        """Returns when all have answered.

        Raises:
          ClusterError: servers do not answer within `timeout` seconds; or, at once, another service answers.
        """
        end = time.monotonic() + timeout
        while missing := self.silent(float("inf")):
            for server, why in missing.items():
                if why == _STRANGER:
                    raise _refused(server, why)
            if time.monotonic() > end:
                starts = (f"one at port {server.port} of {server.host}" for server in missing)
                raise ClusterError(
                    f"{' and '.join(f'{server} ({why})' for server, why in missing.items())}: not there after "
                    f"{timeout:g} s, {len(missing)} of {len(self._why)} servers. Fix: "
                    f"start {' and '.join(starts)}, or give another cluster.",
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
