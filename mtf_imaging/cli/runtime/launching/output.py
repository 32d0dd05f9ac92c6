"""The output of several processes in one terminal or file, line by line."""

import contextlib
import errno
import os
import select
import selectors
import time

_CHUNK = 1 << 16  # bytes; a longer line is written in pieces
# Seconds to wait for output after all processes have ended, and in total.
_LAST, _LAST_IN_TOTAL = 0.2, 2.0


class Output:
    """Copies the output of processes to file descriptors of this process.

    Pipes are read when `copy` is called. Lines of different processes never mix. Output that a lost terminal cannot
    show is dropped, so that the processes can save their files.

    Attributes:
      may_be_lost: whether to drop output that cannot be written, for instance because a lost connection has also ended
        its reader.
    """

    def __init__(self) -> None:
        self.may_be_lost = False
        self._selector = selectors.DefaultSelector()

    def add(self, pipe: int, target: int, prefix: bytes) -> None:
        """Adds a pipe.

        Args:
          pipe: the file descriptor to read. This object closes it.
          target: the file descriptor to write to.
          prefix: text before each line. Lines with a prefix show the last state of a progress bar only. Without a
            prefix, the output is not changed.
        """
        os.set_blocking(pipe, False)
        self._selector.register(pipe, selectors.EVENT_READ, _Stream(target, prefix))

    def wake_on(self, descriptor: int) -> None:
        """Makes `copy` return early when a non-blocking file descriptor becomes readable; `copy` then empties it."""
        self._selector.register(descriptor, selectors.EVENT_READ, None)

    def copy(self, timeout: float) -> bool:
        """Copies available output, waiting up to `timeout` seconds for it. Returns whether anything arrived."""
        ready = self._selector.select(timeout)
        for key, _ in ready:
            with contextlib.suppress(BlockingIOError):
                data = os.read(key.fd, _CHUNK)
                if key.data is None:
                    continue
                self._write(key.data.target, key.data.feed(data) if data else key.data.rest())
                if not data:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
        return bool(ready)

    def close(self) -> None:
        """Copies the rest of the output and closes the pipes.

        A child left running by a process may keep a pipe open, so its end may never come.
        """
        end = time.monotonic() + _LAST_IN_TOTAL
        try:
            while self._pipes() and time.monotonic() < end and self.copy(_LAST):
                pass
            for key in self._pipes():
                self._write(key.data.target, key.data.rest())
        finally:
            for key in self._pipes():
                os.close(key.fd)
            self._selector.close()

    def _write(self, target: int, data: bytes) -> None:
        try:
            _write(target, data)
        except OSError as error:
            if error.errno != errno.EIO and not self.may_be_lost:
                raise

    def _pipes(self) -> list[selectors.SelectorKey]:
        return [key for key in self._selector.get_map().values() if key.data is not None]


class _Stream:
    """The unfinished line of one pipe."""

    def __init__(self, target: int, prefix: bytes) -> None:
        self.target, self._prefix, self._buffer = target, prefix, b""

    def feed(self, data: bytes) -> bytes:
        """Adds output and returns the text to write."""
        self._buffer += data
        end = max(self._buffer.rfind(b"\n"), -1 if self._prefix else self._buffer.rfind(b"\r")) + 1
        complete, self._buffer = self._buffer[:end], self._buffer[end:]
        return self._with_prefix(complete) + (self.rest() if len(self._buffer) > _CHUNK else b"")

    def rest(self) -> bytes:
        """Returns the text to write at the end of the output."""
        rest, self._buffer = self._buffer, b""
        return self._with_prefix(rest)

    def _with_prefix(self, text: bytes) -> bytes:
        if not self._prefix:
            return text
        lines = text.removesuffix(b"\n").split(b"\n") if text else []
        # A terminal shows only the text after the last carriage return.
        return b"".join(b"%b%b\n" % (self._prefix, line.rstrip(b"\r").rpartition(b"\r")[2]) for line in lines)


def _write(target: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(target, data) :]
        except BlockingIOError:  # process 0 shares the terminal, and may have made it non-blocking
            select.select([], [target], [])
