"""Reads the elements of datasets whose functions call Python."""

import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def elements(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Yields the elements of a dataset.

    Deleting the iterator of a dataset waits until its running functions return. Python's garbage collector can delete
    it in a thread that runs such a function, and this function would then wait for itself. So if another thread than
    the caller's deletes the iterator, it leaves that to a new thread, for which nothing waits.
    """
    caller, iterators = threading.get_ident(), [iter(dataset)]
    try:
        yield from iterators[0]
    finally:
        if threading.get_ident() == caller:
            iterators.clear()
        else:
            threading.Thread(target=iterators.clear, daemon=True).start()
