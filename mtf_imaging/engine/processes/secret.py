"""A secret that the processes of one program share, so that messages from others are ignored. Pure Python.

Messages carry a tag, which only processes with the secret can compute, and never the secret itself.
"""

import hmac
import secrets
from collections.abc import Mapping

SECRET = "MTF_IMAGING_SECRET"
TAG_SIZE = 16  # bytes
_NO_SECRET = bytes(TAG_SIZE)


def make_secret() -> str:
    """Returns a new random secret."""
    return secrets.token_hex(TAG_SIZE)


def find_secret(environ: Mapping[str, str]) -> str:
    """Returns the secret in MTF_IMAGING_SECRET, or "" without one.

    Args:
      environ: the environment variables.
    """
    return environ.get(SECRET, "").strip()


def make_tag(data: bytes, secret: str) -> bytes:
    """Returns the tag of a message: a digest of its data, keyed with the secret, or zeros without a secret.

    Args:
      data: the message.
      secret: the secret, or "".
    """
    return hmac.digest(secret.encode(), data, "sha256")[:TAG_SIZE] if secret else _NO_SECRET


def find_doubt(data: bytes, tag: bytes, secret: str) -> str:
    """Describes the sender of a message with a wrong tag, or "" if the tag is right.

    Args:
      data: the message.
      tag: the tag of the message.
      secret: the secret of this process, or "".
    """
    if hmac.compare_digest(tag, make_tag(data, secret)):
        return ""
    if not secret:
        return f"was started with a secret ({SECRET}), but this process without one"
    if tag == _NO_SECRET:
        return f"was started without the secret of this process ({SECRET})"
    return f"was started with another secret than this process ({SECRET})"
