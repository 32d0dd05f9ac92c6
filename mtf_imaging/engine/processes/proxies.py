"""Keeps the messages between processes away from proxies. Pure Python.

TensorFlow's messages travel over gRPC, which connects through the proxy in `grpc_proxy`, `https_proxy` or `http_proxy`,
in this order. It ignores these names in upper case. Hosts whose names end with an item of `no_grpc_proxy` are exempt;
`no_proxy` counts only without `no_grpc_proxy`. gRPC reads the variables whenever it connects.
"""

import os
import re
from collections.abc import Iterable, Mapping, MutableMapping

_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
# The addresses in this variable are exempt, whatever the other variables say.
_ADDRESS_PROXY, _ADDRESSES = "GRPC_ADDRESS_HTTP_PROXY", "GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES"
_EXEMPT, _ALSO_EXEMPT = "no_grpc_proxy", "no_proxy"
# Everything before the last @ of such a URL is a user name and password.
_URL = re.compile(r"(?P<scheme>[a-z]+://)?(?:[^@/]*@)?(?P<address>(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?)/?", re.I)


def bypass(hosts: Iterable[str], environ: MutableMapping[str, str] = os.environ) -> None:
    """Makes TensorFlow connect to hosts directly.

    Args:
      hosts: host names and IP addresses, without brackets.
      environ: the environment variables to change. Changes in this process affect later connections.
    """
    before = environ.get(_EXEMPT, environ.get(_ALSO_EXEMPT, ""))
    items = [item for item in map(str.strip, before.split(",")) if item]
    environ[_EXEMPT] = ",".join(dict.fromkeys([*items, *hosts]))


def note(environ: Mapping[str, str] = os.environ) -> str:
    """Returns a sentence for messages about missing answers, or "" if no variable names a proxy.

    >>> note({"http_proxy": "http://user:password@proxy:3128"})
    ' http_proxy=http://proxy:3128 is set in this process, but it connects to other processes without a proxy.'

    Args:
      environ: the environment variables.
    """
    names = [_shown(name, environ[name].strip()) for name in _PROXIES if environ.get(name, "").strip()]
    text = ""
    if names:
        verb = "are" if len(names) > 1 else "is"
        text = f" {' and '.join(names)} {verb} set in this process, but it connects to other processes without a proxy."
    if environ.get(_ADDRESS_PROXY) and environ.get(_ADDRESSES):
        text += f" {_ADDRESS_PROXY} is set, so this process connects to the addresses in {_ADDRESSES} through a proxy."
    return text


def _shown(name: str, value: str) -> str:
    """Formats a variable without the user name and password; only its name if the value is not a URL."""
    match = _URL.fullmatch(value)
    return f"{name}={match['scheme'] or ''}{match['address']}" if match else name
