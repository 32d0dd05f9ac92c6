"""Steps that Ctrl-C does not leave half done."""

from collections.abc import Callable


def despite_interrupts(step: Callable[[], object]) -> None:
    """Calls a step until it returns, and raises the last KeyboardInterrupt afterwards.

    A second Ctrl-C often arrives while the first one is handled. It must not leave threads that write to a folder, or a
    folder that is deleted in part.

    Args:
      step: a function that can be called again after it was interrupted.
    """
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            step()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
