"""Steps that all processes perform together between program calls; also for a process that runs alone.

Process 0 decides and writes files. The other processes make the same calls, so that no process waits in vain for
another one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from mtf_imaging import errors
from mtf_imaging.engine.layout.regions import Region
from mtf_imaging.engine.meshes import runtime
from mtf_imaging.engine.meshes.moving import move
from mtf_imaging.errors import ClusterError, MtfImagingError, reason
from mtf_imaging.files.blocks import Readable

_Result = TypeVar("_Result")


class Group:
    """The processes of a program, or one process that runs alone. All processes must make the same calls.

    Args:
      joined: the `Runtime` of this process; None if it runs alone.

    Attributes:
      num: the number of processes.
      num_hosts: the number of hosts on which they run.
      index: the number of this process.
      is_first: whether this is process 0, which writes files and shows progress.
    """

    def __init__(self, joined: runtime.Runtime | None) -> None:
        self._joined = joined
        self.num = joined.processes.num if joined else 1
        self.num_hosts = joined.processes.num_hosts if joined else 1
        self.index = joined.processes.index if joined else 0
        self.is_first = joined is None or joined.processes.is_first

    def first(self, call: Callable[[], _Result]) -> _Result:
        """Calls a function in process 0, and returns its result in every process once it has returned.

        Args:
          call: the function. Its result must consist of numbers, strings, lists and dicts with strings as keys; other
            processes receive it as JSON.

        Raises:
          MtfImagingError: the function failed. The other processes raise the same error as process 0.
        """
        if self._joined is None:
            return call()
        if not self.is_first:
            message = json.loads(self._joined.broadcast(""))
            if "error" in message:
                raise _restored(message, self._joined.processes.name(0))
            return message["result"]
        try:
            result = call()
        except Exception as error:
            self._joined.broadcast(json.dumps(_described(error)))
            raise
        self._joined.broadcast(json.dumps({"result": result}))
        return result

    def agree(self, facts: Mapping[str, str]) -> None:
        """Compares facts, {title: text}, between all processes; see `Runtime.agree`."""
        if self._joined is not None:
            self._joined.agree(facts)

    def barrier(self) -> None:
        """Waits until all processes have called this method the same number of times."""
        if self._joined is not None:
            self._joined.barrier()

    def gather(self, text: str) -> list[str]:
        """Returns the texts of all processes, by process number."""
        return [text] if self._joined is None else self._joined.gather(text)

    def gather_numbers(self, numbers: Sequence[int]) -> np.ndarray:
        """Returns the int32 numbers of all processes, [process, number], in one exchange."""
        return np.array([numbers], np.int32) if self._joined is None else self._joined.gather_numbers(numbers)

    def move(
        self, array: Readable, have: Sequence[Region], want: Sequence[Region], order: Literal["C", "F"] = "C"
    ) -> np.ndarray:
        """Returns the region of an array that this process needs, and sends the others their regions; see `move`."""
        if self._joined is None:
            return move(array, have, want, order)
        return move(array, have, want, order, self.index, self._joined.swap)

    def name(self, index: int) -> str:
        """Returns the name of a process for messages."""
        return "this process" if self._joined is None else self._joined.processes.name(index)


ALONE = Group(None)


def current() -> Group:
    """Returns the processes that this process has joined."""
    return Group(runtime.current())


def _described(error: Exception) -> dict[str, object]:
    if isinstance(error, MtfImagingError):
        return {"error": type(error).__name__, "text": str(error), "settings": error.settings}
    where = getattr(error, "filename", None)
    return {"error": None, "text": f"{where}: {reason(error)}" if where else reason(error), "settings": []}


def _restored(message: Mapping[str, Any], name: str) -> MtfImagingError:
    """Returns the error that process 0 has raised."""
    kind = getattr(errors, str(message["error"]), None)
    if isinstance(kind, type) and issubclass(kind, MtfImagingError):
        return kind(str(message["text"]), message["settings"])
    return ClusterError(f"{name} failed: {message['text']}. Fix: see its own message.")
