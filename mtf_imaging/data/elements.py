"""Reads the elements of datasets whose functions call Python."""

import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def elements(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Yields the elements of a dataset.

    A dataset that is no longer iterated waits until its running functions return. Python's garbage collector can run in
    any thread, also in one that runs such a function, which would then wait for itself. In another thread than that of
    the caller, the iterator is therefore deleted by a thread that nobody waits for.
    """
    caller, iterators = threading.get_ident(), [iter(dataset)]
    try:
        yield from iterators[0]
    finally:
        if threading.get_ident() == caller:
            iterators.clear()
        else:
            threading.Thread(target=iterators.clear, daemon=True).start()
