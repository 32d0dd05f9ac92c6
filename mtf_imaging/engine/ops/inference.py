"""Inference mode for dropout and batch norm, to compute the loss of held-out cases."""

import contextlib
import contextvars
from collections.abc import Iterator

_inferring = contextvars.ContextVar("_inferring", default=False)


@contextlib.contextmanager
def inference() -> Iterator[None]:
    """Switches `dropout` and `batch_norm` to inference within a `with` block.

    `dropout` keeps all values. `batch_norm` uses its moving statistics and does not update them. The network
    still returns the outputs that only training uses, such as the logits of deep supervision. The loss is therefore
    computed from the same outputs as in training.
    """
    token = _inferring.set(True)
    try:
        yield
    finally:
        _inferring.reset(token)


def is_inference() -> bool:
    """Returns whether the caller is within an `inference` block."""
    return _inferring.get()
