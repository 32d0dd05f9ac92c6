"""Ctrl-C is deferred within a block, and raised once at its end."""

import signal
import threading

import pytest

from mtf_imaging.files.interrupts import deferred_interrupts


@pytest.fixture(autouse=True)
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(times, done, error=None):
    with deferred_interrupts() as interrupts:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append(len(interrupts))
        if error:
            raise error


def test_two_interrupts_are_raised_once_after_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(2, done)
    assert done == [2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_block_is_the_context_of_the_interrupt():
    with pytest.raises(KeyboardInterrupt) as interrupt:
        interrupted(1, [], ValueError("of the block"))
    assert isinstance(interrupt.value.__context__, ValueError)


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred_interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
    assert not interrupts


def test_other_threads_have_no_interrupts():
    def run():
        with deferred_interrupts() as interrupts:
            lists.append(interrupts)

    lists = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert lists == [[]]
