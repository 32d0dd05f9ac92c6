"""Makes dropout and batch norm compute as for prediction, to compute the loss of held-out cases."""

import contextlib
import contextvars
from collections.abc import Iterator

_inferring = contextvars.ContextVar("_inferring", default=False)


@contextlib.contextmanager
def inference() -> Iterator[None]:
    """Within the block, `dropout` keeps all values, and `batch_norm` uses its moving statistics without updating them.

    The outputs that a network has only in training, such as the logits of deep supervision, stay. A loss can therefore
    be computed from the same outputs as in training.
    """
    token = _inferring.set(True)
    try:
        yield
    finally:
        _inferring.reset(token)


def is_inference() -> bool:
    """Returns whether the caller is within an `inference` block."""
    return _inferring.get()
