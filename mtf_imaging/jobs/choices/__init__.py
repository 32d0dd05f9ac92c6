"""The choices of a plan, with their reasons."""

from typing import Any, NamedTuple


class Choice(NamedTuple):
    """A value and the reason for it.

    Attributes:
      value: the value.
      reason: one or several sentences, without a period at the end.
    """

    value: Any
    reason: str
