"""Work on each item while the next one is made."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def in_thread(function: Callable[[Any], Any], items: Iterable) -> Iterator[tuple[Any, Any]]:
    """Calls a function with each item in a thread, while this one makes the next; as `workers.in_parallel` otherwise.

    Args:
      function: of one argument. An error that it raises is raised here, as soon as the item on its way is made.
      items: the arguments, in general a generator that takes its time.

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
