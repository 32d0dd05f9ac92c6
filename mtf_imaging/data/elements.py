"""Reads the elements of datasets whose functions call Python."""

import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def elements(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Yields the elements of a dataset.

    Deleting the iterator of a dataset waits until its running functions return. Python's garbage collector can delete
    it in a thread that runs such a function, which would then wait for itself. If a thread other than the caller's
    deletes the iterator, the deletion therefore happens in a new thread, for which nothing waits.
    """
    caller, iterators = threading.get_ident(), [iter(dataset)]
    try:
        yield from iterators[0]
    finally:
        if threading.get_ident() == caller:
            iterators.clear()
        else:
            threading.Thread(target=iterators.clear, daemon=True).start()
