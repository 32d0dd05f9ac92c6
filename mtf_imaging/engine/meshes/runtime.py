"""The runtime of several processes that run one program: joins them, watches them, and names a process that is lost.

TensorFlow's own collective runtime carries the messages. It waits forever for a lost process, and its errors do not
name a process. (Its timeouts start one thread for each exchange, which sleeps for the whole timeout.) Therefore
threads of `engine.processes.peers` watch the other processes. If one of them is lost, or all wait for each other,
the exchanges of this process are aborted, and the error names the process.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import abort_collectives, start_collectives
from mtf_imaging.engine.meshes.devices import grow_memory
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.transport import Message
from mtf_imaging.engine.meshes.transport.between_processes import BetweenProcesses, Numbers
from mtf_imaging.engine.processes import proxies
from mtf_imaging.engine.processes.heartbeats import check_own_port, make_roll
from mtf_imaging.engine.processes.leaving import leave
from mtf_imaging.engine.processes.peers import Peers
from mtf_imaging.engine.processes.processes import Processes, find_processes
from mtf_imaging.engine.processes.secret import SECRET, make_tag
from mtf_imaging.engine.processes.sockets import close_to_other_hosts
from mtf_imaging.errors import ClusterError, ConfigError, MtfImagingError, reason

_logger = logging.getLogger(__name__)
_JOB = "process"  # the name of the processes in device strings
# TensorFlow's errors after the loss of a process. Other errors come from the program itself.
_LOSSES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)
# gRPC's messages about lost connections.
_BROKEN = ("Broken pipe", "Connection reset", "Connection timed out", "No route to host", "Socket closed")
_ABORTED = "Collective ops is aborted by: "
_GRACE = 5.0  # seconds that the main thread gets to end after the exchanges were aborted
_NAMES = 4  # processes to name in a message
_runtime: "Runtime | None" = None


class Runtime:
    """The connection of this process to the other processes of a program.

    Args:
      processes: the processes.
      communication: "auto", "ring" or "nccl": how TensorFlow sums and gathers.

    Attributes:
      processes: the processes.
      device: the device of this process.
    """

    def __init__(self, processes: Processes, communication: str = "auto") -> None:
        self.processes, self.communication = processes, communication
        self._numbers = Numbers()
        self._gathers: dict[tuple[int, ...], Callable[..., tf.Tensor]] = {}
        self._num_gathers = 0
        self._swaps: dict[tuple[tuple[tuple[int, int], ...], int], _Swap] = {}
        check_own_port(processes)
        self._peers = Peers(processes, self._end)  # reserves the port until TensorFlow opens it
        try:
            grow_memory()
            _use_own_gpu(processes)
            proxies.bypass(address.host for address in processes.addresses)
            addresses = [str(address) for address in processes.addresses]
            start_collectives(_JOB, addresses, processes.index, may_spin=not _shares_cores(processes))
            close_to_other_hosts(processes)
            self._peers.meet()
        except (tf.errors.OpError, RuntimeError) as error:
            self._peers.close()
            raise ConfigError(
                f"{processes.name(processes.index)} cannot start its exchanges: {reason(error)}. Fix: join the "
                "processes before any other use of TensorFlow, and give each process a free port."
            ) from None
        except MtfImagingError:
            self._peers.close()
            raise
        self.device = _own_device(processes.index)
        version = importlib.metadata.version("mtf_imaging")
        self.agree({"the version of TensorFlow": tf.__version__, "the version of this package": version})
        self._check_secret()
        self._peers.start()

    def transport(self, mesh_sizes: Sequence[int]) -> BetweenProcesses:
        """Returns the transport of a mesh with one shard for each process.

        Args:
          mesh_sizes: number of processors along each mesh dimension; they must be divisible among the processes.
        """
        grid, own = ShardGrid.make(mesh_sizes, self.processes.num), self.processes.index
        return BetweenProcesses(grid, own, self.device, self._numbers, self.communication, self.watched)

    def agree(self, facts: Mapping[str, str]) -> None:
        """Compares facts, such as the configuration and the data, between all processes.

        All processes must call this method at the same point of the program.

        Args:
          facts: {title: text}.

        Raises:
          ConfigError: a fact differs. Every process raises the same error.
        """
        # Processes with different code may compare different facts, so their digests may not have equal shapes.
        self._compare({"what to compare": "\n".join(facts)})
        self._compare(facts)

    def barrier(self) -> None:
        """Waits until all processes have called this method the same number of times."""
        self._gather(np.zeros([1, 8], np.int32))

    def broadcast(self, text: str) -> str:
        """Returns the text that process 0 passes, in every process."""
        return self.gather(text if self.processes.is_first else "")[0]

    def gather_numbers(self, numbers: Sequence[int]) -> np.ndarray:
        """Returns the int32 numbers of all processes, [process, number], in one exchange.

        Args:
          numbers: the numbers of this process; all processes pass the same number of them.
        """
        return self._gather(np.array([numbers], np.int32))[:, 0]

    def gather(self, text: str) -> list[str]:
        """Returns the texts of all processes, by process number. If all texts are empty, this is one small exchange."""
        data = np.frombuffer(text.encode(), np.uint8)
        sizes = self._gather(np.array([[len(data)]], np.int32))[:, 0, 0]
        if not sizes.any():
            return [""] * len(sizes)
        row = np.zeros([1, 1 << int(sizes.max() - 1).bit_length()], np.int32)  # few sizes, because each is compiled
        row[0, : len(data)] = data
        every = self._gather(row)[:, 0]
        return [bytes(codes[:size].astype(np.uint8)).decode() for codes, size in zip(every, sizes, strict=True)]

    def swap(
        self, pairs: Sequence[tuple[int, int]], rows: Mapping[int, np.ndarray], size: int
    ) -> dict[int, np.ndarray]:
        """Exchanges rows of equal size between pairs of processes. All processes call it with the same pairs.

        Args:
          pairs: the numbers of the two processes of each pair, in ascending order.
          rows: int32 `[size]` for each partner of this process.
          size: number of elements in each row. Each combination of pairs and size is compiled once.

        Returns:
          The row of each partner.
        """
        key = (tuple(pairs), size)
        if key not in self._swaps:
            self._swaps[key] = _Swap(pairs, size, self._host_transport())
        swap = self._swaps[key]
        if not swap.partners:
            return {}
        with self.watched():
            return swap(rows)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within the block, this process takes part in exchanges; a TensorFlow error names the lost process.

        Raises:
          ClusterError: another process is lost.
        """
        with self._peers.in_call():
            try:
                yield
            except tf.errors.OpError as error:
                raise self._explained(error) from None

    def _explained(self, error: tf.errors.OpError) -> Exception:
        """Returns the error to raise for a TensorFlow error in a call."""
        text = str(error)
        cause = text.partition(_ABORTED)[2].partition("\n")[0]
        if isinstance(error, _LOSSES):
            lost = self._peers.find_lost()
            if lost is not None:
                return ClusterError(lost)
        elif not cause:
            return error  # raised by the program itself
        why = (cause or reason(error)).removesuffix(".")
        fix = "check that all processes run the same program on inputs of the same shapes"
        if any(word in why for word in _BROKEN):
            fix = "check the network between the hosts, then start all processes again"
        failure = f"{self.processes.name(self.processes.index)}: an exchange with others failed: {why}. Fix: {fix}."
        self._peers.tell(failure)
        return ClusterError(failure)

    def _compare(self, facts: Mapping[str, str]) -> None:
        """Compares facts between processes that all pass the same number of facts."""
        every = self._gather(np.stack([_digest(text) for text in facts.values()]))
        for title, column in zip(facts, np.moveaxis(every, 1, 0), strict=True):
            values = [bytes(row) for row in column]
            most = max(values, key=values.count)
            others = [self.processes.name(i) for i, value in enumerate(values) if value != most]
            if others:
                verb = "differ" if len(others) > 1 else "differs"
                raise ConfigError(
                    f"the processes disagree about {title}: {_join(others)} {verb} from "
                    f"{self.processes.name(values.index(most))}. Fix: start all processes with the same code, command "
                    "line, files and data."
                )

    def _check_secret(self) -> None:
        """Checks that all processes have the secret of process 0."""
        tag = make_tag(make_roll(self.processes), self.processes.secret)
        tags = [row.tobytes() for row in self._gather(np.frombuffer(tag, np.int32)[None])]
        others = [self.processes.name(i) for i, each in enumerate(tags) if each != tags[0]]
        if others:
            raise ConfigError(
                f"{_join(others)} {'were' if len(others) > 1 else 'was'} started with another secret than "
                f"{self.processes.name(0)}, or without one. Fix: start all processes with the same {SECRET}."
            )

    def _gather(self, rows: np.ndarray) -> np.ndarray:
        """Returns the equal-shaped int32 arrays of all processes, stacked by process number."""
        if rows.shape not in self._gathers:
            self._gathers[rows.shape] = self._make_gather(rows.shape)
        self._num_gathers += 1
        turn = tf.constant(self._num_gathers % 2, tf.int32)
        with self.watched():
            return self._gathers[rows.shape](tf.constant(rows[None], tf.int32), turn).numpy()

    def _host_transport(self) -> BetweenProcesses:
        """Returns the transport of arrays in the memory of the hosts, between all processes."""
        grid = ShardGrid.make([self.processes.num], self.processes.num)
        host = _own_device(self.processes.index, "CPU")
        return BetweenProcesses(grid, self.processes.index, host, self._numbers, "ring")

    def _make_gather(self, shape: tuple[int, ...]) -> Callable[..., tf.Tensor]:
        """Returns the compiled function that gathers arrays of a shape."""
        transport = self._host_transport()

        def gather(rows: tf.Tensor, turn: tf.Tensor) -> tf.Tensor:
            transport.begin(turn)
            (every,) = transport.gather([rows], 0, 0)
            return every

        signature = [tf.TensorSpec([1, *shape], tf.int32), tf.TensorSpec([], tf.int32)]
        with tf.device(transport.devices[0]):
            return tf.function(gather, autograph=False).get_concrete_function(*signature)

    def _end(self, lost: str) -> None:
        """Ends the exchanges of this process, and then the process, from the watching thread."""
        abort_collectives(lost)
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            if not self._peers.is_in_call:
                return  # the main thread has received the error
            time.sleep(0.05)
        # The main thread is blocked inside TensorFlow, where no exception can reach it.
        leave(1, f"mtf-imaging: {lost}")


class _Swap:
    """A compiled exchange of rows between pairs of processes; see `Runtime.swap`.

    Attributes:
      partners: the numbers of the processes with which this process exchanges a row.
    """

    def __init__(self, pairs: Sequence[tuple[int, int]], size: int, transport: BetweenProcesses) -> None:
        (own,) = transport.numbers
        self.partners = [sum(pair) - own for pair in pairs if own in pair]
        self._host, self._calls = transport.devices[0], 0

        def exchange(rows: list[tf.Tensor], turn: tf.Tensor) -> list[tf.Tensor]:
            transport.begin(turn)
            by_target = dict(zip(self.partners, rows, strict=True))
            both = [ends for first, second in pairs for ends in ((first, second), (second, first))]
            messages = [Message(a, b, (size,), functools.partial(lambda to, _: by_target[to], b)) for a, b in both]
            values = rows or [tf.zeros([size], tf.int32)]
            return [row for row in transport.exchange(messages, values) if row is not None]

        rows = [tf.TensorSpec([size], tf.int32) for _ in self.partners]
        with tf.device(self._host):
            compiled = tf.function(exchange, autograph=False)
            self._exchange = compiled.get_concrete_function(rows, tf.TensorSpec([], tf.int32))

    def __call__(self, rows: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        self._calls += 1
        with tf.device(self._host):
            sent = [tf.constant(rows[partner], tf.int32) for partner in self.partners]
            arrived = self._exchange(sent, tf.constant(self._calls % 2, tf.int32))
        return {partner: row.numpy() for partner, row in zip(self.partners, arrived, strict=True)}


def join(processes: Processes | None = None, communication: str = "auto") -> Runtime | None:
    """Joins the processes that run this program, before any other use of TensorFlow.

    Every later `Program` with a mesh has one shard of the mesh in each process. A second call returns the same runtime.

    Args:
      processes: the processes; None to read TF_CONFIG or the Slurm variables.
      communication: how TensorFlow sums and gathers: "ring", "nccl" (GPUs), or "auto".

    Returns:
      The `Runtime`; None if this process runs alone.

    Raises:
      ConfigError: a variable is malformed, the port is in use, or the processes have different process lists or
        versions.
      ClusterError: a process does not start in time, or ends.
    """
    global _runtime
    if _runtime is None:
        processes = processes or find_processes()
        if processes is None:
            return None
        _runtime = Runtime(processes, communication)
        hosts = f"{processes.num_hosts} host{'s' * (processes.num_hosts > 1)}"
        _logger.info("joined %d processes on %s", processes.num, hosts)
    return _runtime


@contextlib.contextmanager
def rehearse(processes: Processes) -> Iterator[None]:
    """Builds programs within the block as one of several processes would, without the others.

    The programs have the graphs of that process, but cannot be called.

    Args:
      processes: the processes, with the number of the process for which to build.
    """
    global _runtime
    before, _runtime = _runtime, _Rehearsal(processes)
    try:
        yield
    finally:
        _runtime = before


class _Rehearsal(Runtime):
    """A runtime without exchanges."""

    def __init__(self, processes: Processes) -> None:
        self.processes, self.communication = processes, "ring"
        self.device, self._numbers = "/device:CPU:0", Numbers()


def current() -> Runtime | None:
    """Returns the runtime that this process has joined, or None."""
    return _runtime


def _use_own_gpu(processes: Processes) -> None:
    """Assigns one GPU to each process on a host, unless a scheduler has done so."""
    gpus = tf.config.list_physical_devices("GPU")
    here = [i for i, address in enumerate(processes.addresses) if address.host == processes.own.host]
    if len(gpus) > 1:
        number = here.index(processes.index)
        if number >= len(gpus):
            raise MtfImagingError(
                f"{processes.own.host} has {len(gpus)} GPUs for {len(here)} processes. Fix: start at most one process "
                "for each GPU."
            )
        tf.config.set_visible_devices(gpus[number], "GPU")


def _shares_cores(processes: Processes) -> bool:
    """Returns whether other processes on this host compute on its CPU cores."""
    here = sum(address.host == processes.own.host for address in processes.addresses)
    return here > 1 and not tf.config.get_visible_devices("GPU")


def _own_device(index: int, kind: str | None = None) -> str:
    """Returns the GPU of this process, or its CPU if it has no GPU or if `kind` is "CPU"."""
    task = f"/job:{_JOB}/replica:0/task:{index}/"
    for each in [kind] if kind else ["GPU", "CPU"]:
        names = [device.name for device in tf.config.list_logical_devices(each) if device.name.startswith(task)]
        if names:
            return names[0]
    raise AssertionError(f"process {index} has no devices")


def _digest(text: str) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.int32)


def _join(names: Sequence[str]) -> str:
    """Joins process names, shortening long lists."""
    return " and ".join([*names[:_NAMES], *[f"{len(names) - _NAMES} more"] * (len(names) > _NAMES)])
