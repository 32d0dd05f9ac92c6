"""Worker processes that handle many files.

Workers are processes rather than threads, because Python code in one process uses only one core. Their number is
limited, because a case takes gigabytes of memory.
"""

import concurrent.futures
import contextlib
import errno
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError, reason
from mtf_imaging.files.memory import machine_memory, share_memory
from mtf_imaging.files.user_modules import USER_MODULES

_LOGGER = "mtf_imaging"
_SAFE_PATH = "PYTHONSAFEPATH"
_logger = logging.getLogger(__name__)


def default_workers(bytes_each: int) -> int:
    """Returns the number of workers that the available cores and the free memory allow, for `bytes_each` per worker."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    free = machine_memory()
    with contextlib.suppress(AttributeError, OSError, ValueError):  # this system does not report its memory
        free = min(free, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(1, min(cores, free // bytes_each))


def cpu_time() -> float:
    """Returns the CPU time of this process and its workers in seconds.

    On systems without /proc, a worker counts only after it has ended.
    """
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for process in multiprocessing.active_children():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # in user and system mode
    return total


def in_parallel(function: Callable[[Any], Any], items: Iterable, workers: int) -> Iterator[tuple[Any, Any]]:
    """Calls a function for each item in up to `workers` processes, and yields results as soon as they are available.

    With one worker, the function runs in this process. The same happens, with a warning, if the system has no
    semaphores, which processes need to share a queue. Log records of the package in a worker are logged in this process
    after each call. Workers end when this process ends, even if it is killed.

    Args:
      function: a function of one argument. The function, its arguments and its results must be picklable. An error in
        the function is raised in this process and cancels the remaining items.
      items: the arguments.
      workers: number of processes, at least 1.

    Yields:
      Pairs (item, result), in the order of completion.

    Raises:
      DataError: a worker was killed.
    """
    items = list(items)
    if not items:
        return
    before = set(multiprocessing.active_children())
    pool = None if workers == 1 else _worker_pool(min(workers, len(items)))
    if pool is None:
        for item in items:
            yield item, function(item)
        return
    try:
        with ctrl_c_held_back():  # workers start with blocked SIGINT; see _begin
            futures = {pool.submit(_call, function, item): item for item in items}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], _result(future, futures[future])
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        # Waits for the pool's management thread, which ends after the workers. Otherwise Python could write to a pipe
        # at exit while this thread closes it.
        pool.shutdown(cancel_futures=True)


def _worker_pool(workers: int) -> concurrent.futures.ProcessPoolExecutor | None:
    """Returns a pool of new processes; None, with a warning, if the system has no semaphores.

    Args:
      workers: number of processes.

    Raises:
      OSError: this process has too many open files.
    """
    # A forked process can hang if its parent has threads, and TensorFlow starts threads.
    spawn = multiprocessing.get_context("spawn")
    try:
        with safe_path():
            return _Pool(workers, spawn, _begin, (USER_MODULES, workers))
    except (OSError, ImportError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        _logger.warning(
            "/dev/shm: worker processes need this folder, and it cannot be used (%s). The work continues in one "
            "process. Fix: mount the folder with write access, or set workers to 1.",
            reason(error),
            extra={"settings": ["workers"]},
        )
        return None


class _Pool(concurrent.futures.ProcessPoolExecutor):
    """A pool whose processes, which the first calls start, do not look for modules in the working folder."""

    def submit(self, *call: Any, **options: Any) -> concurrent.futures.Future:
        with safe_path():
            return super().submit(*call, **options)


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Lets Python processes that start in the block import nothing from the working folder.

    Python otherwise searches the working folder first until multiprocessing has set `sys.path` in the new process.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE_PATH, None)
        else:
            os.environ[_SAFE_PATH] = before


def _begin(_: object, workers: int) -> None:
    """Prepares one of some workers; loading its first argument has added the user's modules."""
    share_memory(workers)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # a worker that imports TensorFlow must not take memory of a GPU
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; only the parent reacts
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.unraisablehook = _show_unraisable
    signal.signal(signal.SIGTERM, _end_call)  # before this line, SIGTERM ends the worker without a traceback


class _State:
    """The state of a worker, shared by its SIGTERM handler and `_call`."""

    is_working = False
    is_ending = False


def _end_call(*_: object) -> None:
    """Handles SIGTERM: ends the call in progress and every later call.

    The call runs its `finally` blocks, which delete unfinished files. A second SIGTERM, which the pool sends, must not
    interrupt them. Between calls the worker may have locked a queue of the pool, which all workers share, so it gets
    time to unlock the queue before it ends.
    """
    is_first, _State.is_ending = not _State.is_ending, True
    if not _State.is_working:
        _end_soon()
    elif is_first:
        sys.exit(1)


def _end_soon() -> None:
    """Ends this process after 2 seconds, unless the pool ends it first."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(2)


def _show_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Reports an error that Python cannot raise, except an exit by `_end_call` during a `__del__`."""
    if not isinstance(unraisable.exc_value, SystemExit):
        sys.__unraisablehook__(unraisable)


@contextlib.contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Blocks SIGINT in this thread until the block ends. Processes started in the block keep it blocked."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Waits until the parent process ends, then ends this process; runs in a separate thread."""
    # Workers keep both ends of a shared pipe open, so without this thread they would outlive a killed parent.
    parent = multiprocessing.parent_process()
    if parent is None:
        return  # this process is not a worker
    parent.join()
    os._exit(1)


def _call(function: Callable[[Any], Any], item: object) -> tuple[Any, Exception | None, list[logging.LogRecord]]:
    """Returns (result, error, log records). The error is returned, because raising it would lose the log records."""
    logged = RecordCollector()
    logger = package_logger()
    logger.addHandler(logged)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        _State.is_working = True
        if _State.is_ending:
            sys.exit(1)
        return function(item), None, logged.records
    except SystemExit:
        text = f"a worker process was terminated while it processed {item}. Fix: run the command again."
        return None, DataError(text), logged.records
    except Exception as error:
        return None, error, logged.records
    finally:
        _State.is_working = False
        if _State.is_ending:
            _end_soon()
        logger.removeHandler(logged)


def _result(future: concurrent.futures.Future, item: object) -> Any:
    try:
        result, error, records = future.result()
    except BrokenProcessPool as broken:
        raise DataError(
            f"a worker process was killed while {item} was processed, possibly for lack of memory. "
            "Fix: use fewer workers.",
            settings=["workers"],
        ) from broken
    for record in records:
        logging.getLogger(record.name).handle(record)
    if error is not None:
        raise error
    return result


def package_logger() -> logging.Logger:
    """Returns the logger of the package, whose handlers see the records of all its modules."""
    return logging.getLogger(_LOGGER)


class RecordCollector(logging.Handler):
    """Collects log records as text, so that another process can log them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args, record.exc_info = record.getMessage(), (), None
        self.records.append(record)
