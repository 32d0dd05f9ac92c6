"""Calls a function on each case, in several processes or while the next case is computed."""

import collections
import concurrent.futures
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mtf_imaging.errors import DataError
from mtf_imaging.files.workers import default_workers, in_parallel

_WORKER_BYTES = 1 << 29  # a CT of 512 x 512 x 1024 voxels needs 0.15 GiB, or more with many lesions

# (function, items) -> iterator of (item, result), in the order of completion
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[tuple[Any, Any]]]


def parallel_run(workers: int | None = None) -> Run:
    """Returns a function that maps a function over cases in several processes.

    Args:
      workers: the number of processes; None for one per core, or fewer if memory is short.
    """
    return functools.partial(in_parallel, workers=workers or default_workers(_WORKER_BYTES))


def attempt(function: Callable[..., Any], pair: object, **options: object) -> Any:
    """Calls a function on a case; returns the error of a case that cannot be used, so that the others are computed."""
    try:
        return function(pair, **options)
    except DataError as error:
        return error


def in_thread(function: Callable[[Any], Any], items: Iterable) -> Iterator[tuple[Any, Any]]:
    """Calls a function on each item in a thread while the caller's thread produces the next item.

    The results have the same form as in `workers.in_parallel`.

    Args:
      function: a function of one argument. Its errors are raised here, after the current item has been produced.
      items: the arguments, usually a slow generator.

    Yields:
      (item, result), in the order of the items.
    """
    waiting: collections.deque[tuple[Any, concurrent.futures.Future]] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        try:
            for item in items:
                waiting.append((item, thread.submit(function, item)))
                while waiting and waiting[0][1].done():
                    item, future = waiting.popleft()
                    yield item, future.result()
            for item, future in waiting:
                yield item, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
