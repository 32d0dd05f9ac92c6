"""Work on many files at once, each in a process of its own: a case takes gigabytes, and Python one core."""

import concurrent.futures
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from mtf_imaging.errors import DataError

_OURS = "mtf_imaging"


def default_workers(bytes_each: int) -> int:
    """As many processes as this one may use cores, and as the memory that is free now holds."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not told by this system
        return cores
    return max(1, min(cores, free // bytes_each))


def in_parallel(
    function: Callable[[Any], Any], items: Iterable, workers: int, prepare: Callable[[], None] | None = None
) -> Iterator[tuple[Any, Any]]:
    """Calls a function with each item, up to `workers` at once, and yields what comes back as it comes.

    With one worker it is called in this process. What the package logs in a worker is logged here, when
    the call has ended. Workers end when this process does, however it ends.

    Args:
      function: of one argument; it and its arguments and results can be pickled. An error that it raises is raised
        here, and what has not begun is left.
      items: the arguments.
      workers: processes, at least 1.
      prepare: what each process, or this one, calls before anything else.

    Yields:
      (item, result), in the order in which they are done.

    Raises:
      DataError: a worker was killed.
    """
    items = list(items)
    if not items:
        return
    if workers == 1:
        if prepare:
            prepare()
        for item in items:
            yield item, function(item)
        return
    spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads, as TensorFlow's, may hang
    before = set(multiprocessing.active_children())
    pool = concurrent.futures.ProcessPoolExecutor(min(workers, len(items)), spawn, _begin, (prepare,))
    try:
        with ctrl_c_held_back():  # workers are born with it held back; see _begin
            futures = {pool.submit(_call, function, item): item for item in items}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], _result(future, futures[future])
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        # Waits for the pool's own thread, which ends as its workers do: were it left to itself, Python might write, at
        # its exit, to what the thread is closing.
        pool.shutdown(cancel_futures=True)


def _begin(prepare: Callable[[], None] | None) -> None:
    """Prepares a worker."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # its TensorFlow reads and writes files; GPUs are for the network
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one says what happens
    threading.Thread(target=end_with_parent, daemon=True).start()
    if prepare:
        prepare()
    sys.unraisablehook = _show_unraisable
    signal.signal(signal.SIGTERM, _end_call)  # before this line, SIGTERM ends the worker without a traceback


class _State:
    """The state of a worker that its handler of SIGTERM shares with `_call`."""

    is_working = False
    is_ending = False


def _end_call(*_: object) -> None:
    """Ends the call in progress, and every later one, when SIGTERM arrives.

    The call ends through `finally`, which deletes half-written files; a second SIGTERM, which the pool sends, must not
    interrupt that. Between calls the handler interrupts nothing, because the worker may hold the lock of the pool's
    queue, which all workers share. The pool then ends the worker.
    """
    is_first, _State.is_ending = not _State.is_ending, True
    if _State.is_working and is_first:
        sys.exit(1)


def _show_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Shows an error that Python cannot raise, unless it is the exit of `_end_call` in a `__del__`."""
    if not isinstance(unraisable.exc_value, SystemExit):
        sys.__unraisablehook__(unraisable)


@contextlib.contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Lets SIGINT wait till the block ends, in this thread and, to their end, in processes that the block starts."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Ends this process as soon as the one that started it has ended; for a thread of its own."""
    # Workers wait for each other's ends of one pipe: without this they would outlive a killed parent.
    parent = multiprocessing.parent_process()
    if parent is None:
        return  # this process is no worker
    parent.join()
    os._exit(1)


def _call(function: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None, list[logging.LogRecord]]:
    """Returns (result, error, what was logged): records of the log would be lost with an error that is raised."""
    logged = _Collected()
    logger = logging.getLogger(_OURS)
    logger.addHandler(logged)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        _State.is_working = True
        if _State.is_ending:
            sys.exit(1)
        return function(item), None, logged.records
    except SystemExit:
        text = f"a process was terminated while it worked on {item}. Fix: start again."
        return None, DataError(text), logged.records
    except Exception as error:
        return None, error, logged.records
    finally:
        _State.is_working = False
        logger.removeHandler(logged)


def _result(future: concurrent.futures.Future, item: Any) -> Any:
    try:
        result, error, records = future.result()
    except BrokenProcessPool as broken:
        raise DataError(
            f"a process was killed while others and it worked on {item}: out of memory? Fix: fewer workers.",
            settings=["workers"],
        ) from broken
    for record in records:
        logging.getLogger(record.name).handle(record)
    if error is not None:
        raise error
    return result


class _Collected(logging.Handler):
    """Keeps log records, as text, so that another process can log them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args, record.exc_info = record.getMessage(), (), None
        self.records.append(record)
