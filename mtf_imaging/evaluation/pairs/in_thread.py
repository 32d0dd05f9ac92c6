"""Processes each item in a thread while the next one is produced."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def in_thread(function: Callable[[Any], Any], items: Iterable) -> Iterator[tuple[Any, Any]]:
    """Calls a function on each item in a thread while the caller's thread produces the next item.

    The results have the same form as in `workers.in_parallel`.

    Args:
      function: a function of one argument. Its errors are raised here, after the current item has been produced.
      items: the arguments, usually a slow generator.

    Yields:
      (item, result), in the order of the items.
    """
    waiting = collections.deque()
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
