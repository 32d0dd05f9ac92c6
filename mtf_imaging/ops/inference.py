"""A network as it is built for training, computing as it does for prediction: for the loss of held-out cases."""

import contextlib
import contextvars
from collections.abc import Iterator

_inferring = contextvars.ContextVar("_inferring", default=False)


@contextlib.contextmanager
def inference() -> Iterator[None]:
    """Within the block, `dropout` keeps everything, and `batch_norm` uses its moving statistics and leaves them alone.

    Whatever a network adds in training, such as the logits of deep supervision, it still adds: a loss can be computed
    of the same outputs as in training.
    """
    token = _inferring.set(True)
    try:
        yield
    finally:
        _inferring.reset(token)


def is_inference() -> bool:
    """Whether `inference` is in effect."""
    return _inferring.get()
