"""Shows progress while a program is built, which takes TensorFlow seconds to minutes."""

import contextlib
import sys
import threading
from collections.abc import Iterator

from tqdm import tqdm

_EVERY = 1.0  # seconds between updates, on a terminal


@contextlib.contextmanager
def building(what: str, bar: tqdm | None = None, progress: bool = True) -> Iterator[None]:
    """Shows a description and the elapsed time on stderr while the block runs.

    Args:
      what: the description, for instance "building the network".
      bar: a progress bar that shows the description after its title; its rate does not count the time of the block.
          None shows a separate line, which disappears at the end of the block.
      progress: whether to show anything.
    """
    if not progress or (bar is not None and bar.disable):
        yield
        return
    shown = bar
    if shown is None:
        shown = tqdm(desc=what, bar_format="{desc} [{elapsed}]", leave=False, dynamic_ncols=True)
    title = shown.desc
    if bar is not None:
        bar.set_description_str(f"{title.removesuffix(': ')}: {what}")
    ended = threading.Event()
    ticker = threading.Thread(target=_tick, args=[shown, ended], daemon=True)
    if sys.stderr.isatty():  # updates would fill a log file
        ticker.start()
    try:
        yield
    finally:
        ended.set()
        if ticker.ident is not None:
            ticker.join()
        if bar is None:
            shown.close()
        else:
            bar.set_description_str(title, refresh=False)
            bar.unpause()


def _tick(bar: tqdm, ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        bar.refresh()
