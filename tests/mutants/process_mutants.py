"""Faults of processes/: addresses, proxies, secrets, connections, and ports that are closed to other hosts."""

from tests.mutants.mutant import mutants

_SECRET = "tests/engine/processes/test_secret.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/processes/addresses.py",
        "tests/engine/processes/test_addresses.py",
        ("if address in addresses:", "if False:"),
        ("if local and len(local) < len(addresses):", "if local:"),
        ("if not 1 <= port <= _HIGHEST_PORT:", "if not 0 <= port <= _HIGHEST_PORT:"),
        ('if ":" in self.host else', "if False else"),
    ),
    *mutants(
        "mtf_imaging/engine/processes/probing.py",
        "tests/engine/processes/test_probing.py",
        ("return None if header[_TYPE_AT:][:1] == bytes([_SETTINGS]) else _NOT_HTTP2", "return None"),
        ("if kind == _DATA and stream == _STREAM:", "if stream == _STREAM:"),
        ("payload[1:] if flags & _PADDED else payload", "payload"),
    ),
    *mutants(
        "mtf_imaging/engine/processes/proxies.py",
        "tests/engine/processes/test_proxies.py",
        ('environ.get(_EXEMPT, environ.get(_ALSO_EXEMPT, ""))', 'environ.get(_ALSO_EXEMPT, "")'),
        ('environ.get(_EXEMPT, environ.get(_ALSO_EXEMPT, ""))', 'environ.get(_EXEMPT, "")'),
        ("dict.fromkeys([*items, *hosts])", "dict.fromkeys([*hosts])"),
        ("dict.fromkeys([*items, *hosts])", "[*items, *hosts]"),
        ("f\"{name}={match['scheme'] or ''}{match['address']}\" if match else name", 'f"{name}={value}"'),
        ("if environ.get(_ADDRESS_PROXY) and environ.get(_ADDRESSES):", "if environ.get(_ADDRESS_PROXY):"),
    ),
    *mutants(
        "mtf_imaging/engine/processes/secret.py",
        _SECRET,
        (
            'hmac.digest(secret.encode(), data, "sha256")[:TAG_SIZE] if secret else',
            "secret.encode()[:TAG_SIZE] if secret else",
        ),
        ('hmac.digest(secret.encode(), data, "sha256")', 'hmac.digest(secret.encode(), b"", "sha256")'),
        ("if hmac.compare_digest(tag, make_tag(data, secret)):", "if tag == _NO_SECRET:"),
        ("    if tag == _NO_SECRET:", "    if tag != _NO_SECRET:"),
        ('environ.get(SECRET, "").strip()', 'environ.get(SECRET, "")'),
    ),
    *mutants(
        "mtf_imaging/engine/processes/processes.py",
        _SECRET,
        ('field(default="", repr=False)', 'field(default="")'),
        ("parse_timeout(environ), find_secret(environ))", "parse_timeout(environ))"),
    ),
    *mutants(
        "mtf_imaging/engine/processes/heartbeats.py",
        _SECRET,
        ("make_tag(head + why, secret)", "make_tag(head, secret)"),
        ("find_doubt(head + rest, tag, secret)", "find_doubt(head + rest, make_tag(head + rest, secret), secret)"),
        (
            "address.port == processes.own.port",
            "address.port != processes.own.port",
            "",
            "tests/engine/processes/test_peers.py port",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/processes/peers.py",
        _SECRET,
        ("        if arrival.doubt:\n", "        if not arrival.status:\n"),
        ("doubts.get(i, why)", "why"),
    ),
    *mutants(
        "mtf_imaging/engine/processes/sockets.py",
        "tests/engine/processes/test_loopback_only.py",
        ("own.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LOOPBACK)", "pass"),
        ("return None if num_listeners else", "return None if True else"),
        ("if why and processes.is_first:", "if why:"),
        ("if processes.own.is_loopback else None", ""),
    ),
    *mutants(
        "mtf_imaging/engine/processes/sockets.py",
        "tests/engine/processes/test_loopback_only.py tests/engine/processes/test_connections.py",
        ("own.getsockname()[1] == port", "True"),
    ),
    *mutants(
        "mtf_imaging/engine/processes/sockets.py",
        "tests/engine/processes/test_connections.py",
        ("own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)", "pass"),
    ),
    *mutants(
        "mtf_imaging/cli/runtime/launching/environment.py",
        "tests/cli/test_launch.py secret",
        ("find_secret(environ) or make_secret()", "make_secret()"),
        ("find_secret(environ) or make_secret()", 'find_secret(environ) or "secret"'),
    ),
]
