"""Blocks that Ctrl-C cannot interrupt."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[list]:
    """Defers Ctrl-C until the end of the block.

    A KeyboardInterrupt can arrive between any two instructions of the main thread, so code that waits for threads or
    deletes a folder must not be interrupted. A second Ctrl-C often arrives while the first one is handled.

    Yields:
      A list that is not empty after Ctrl-C, so that threads of the block can end early. In threads other than the main
      thread, which Python never interrupts, it stays empty.
    """
    received: list[tuple[Any, ...]] = []
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main else None
    if not callable(handler):  # Ctrl-C is ignored or ends the process
        yield received
        return
    signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[-1])
