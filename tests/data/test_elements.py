"""Datasets whose functions call Python end without waiting for themselves."""

import gc
import threading
import time

import pytest
import tensorflow as tf

from mtf_imaging.data.elements import elements
from tests import waiting


def reading(read):
    """Returns a dataset that reads one element ahead."""
    dataset = tf.data.Dataset.range(100).map(lambda number: tf.numpy_function(read, [number], tf.int64))
    return dataset.prefetch(1)


@pytest.fixture
def no_collection():
    """Runs the garbage collector only where the test calls it."""
    gc.disable()
    yield
    gc.enable()


def test_a_thread_that_reads_for_a_pipeline_may_delete_it(no_collection):
    is_garbage, collected = threading.Event(), threading.Event()

    def read(number):
        if number:
            is_garbage.wait(waiting.PATIENCE)
            gc.collect()
            collected.set()
        return number

    cycle = []
    cycle += [cycle, elements(reading(read))]
    assert next(cycle[1]) == 0
    del cycle
    is_garbage.set()
    assert collected.wait(waiting.PATIENCE), "the thread waits for itself"


def test_nothing_is_read_after_a_pipeline_is_closed():
    numbers = []

    def read(number):
        time.sleep(0.05)
        numbers.append(number)
        return number

    batches = elements(reading(read))
    assert next(batches) == 0
    batches.close()
    known = list(numbers)
    time.sleep(0.2)
    assert numbers == known
