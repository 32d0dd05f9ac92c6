"""The variables of a program: whole tensors whose values do not depend on the layout."""

import concurrent.futures
import contextlib
import itertools
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf, variable_getter
from mtf_imaging.errors import CheckpointError


class _Variable:
    """The master copy of an `mtf.Variable`.

    It has only a name during tracing. `Variables.create` adds the `tf.Variable`.
    """

    def __init__(
        self, name: str, shape: Iterable[int], dtype: tf.DType, initializer: object, trainable: bool, device: str
    ) -> None:
        self.name = f"{name}:0"
        self.key, self.shape, self.dtype = name, tuple(shape), dtype
        self.initializer, self.trainable, self.device = initializer, trainable, device
        self.variable: tf.Variable | None = None
        self._read: tf.Tensor | None = None

    def read(self) -> tf.Tensor:
        """Returns the value before all assignments of this call; the value is read only once."""
        if self._read is None:
            assert self.variable is not None, "`Variables.create` comes before the first read"
            with tf.device(self.device):
                self._read = tf.raw_ops.ReadVariableOp(resource=self.variable.handle, dtype=self.variable.dtype)
        return self._read


class Variables(tf.Module):
    """Creates the variables that a program requests, or shares another program's variables.

    Args:
      seed: an int.
      devices: device strings. Variables are distributed over them in turn, each together with its optimizer slots.
      shared: the `Variables` of another program, or None.

    Attributes:
      step: int64 `tf.Variable` that counts steps.
      lock: a lock for all programs that share these variables. A call holds it from its first read to its last
        assignment.
    """

    def __init__(self, seed: int, devices: Sequence[str], shared: "Variables | None" = None) -> None:
        super().__init__()
        self._seed, self._next_device = seed, itertools.cycle(devices)
        self._pending: dict[str, _Variable] = {}
        if shared is not None:
            # `_named` and `Program._masters` are parts of the keys in checkpoints.
            self._named: dict[str, tf.Variable] = shared._named
            self.step: tf.Variable = shared.step
            self.lock: threading.Lock = shared.lock
        else:
            self._named, self.lock = {}, threading.Lock()
            self.step = tf.Variable(0, dtype=tf.int64, name="step", trainable=False)
        self._step_read: tf.Tensor | None = None

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """The variables by name, without the step."""
        return dict(self._named)

    @property
    def homes(self) -> dict[str, str]:
        """The device of each variable requested so far, by name."""
        return {name: master.device for name, master in self._pending.items()}

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Within the block, makes `mtf.get_variable` return these variables and makes the step the global step."""
        with variable_getter(self._get, self.step):
            yield

    def read_step(self) -> tf.Tensor:
        """Returns the step before this call, which is read only once."""
        if self._step_read is None:
            self._step_read = tf.identity(self.step)
        return self._step_read

    def _get(
        self,
        getter: Callable[..., Any],
        name: str,
        shape: Any = None,
        dtype: tf.DType = tf.float32,
        initializer: Any = None,
        trainable: bool = True,
        **unused: Any,
    ) -> _Variable:
        del getter, unused
        if name not in self._pending:
            owner = self._pending.get(
                name.rpartition("/")[0]
            )  # the variable that the slot belongs to; both are updated together
            device = owner.device if owner else next(self._next_device)
            self._pending[name] = _Variable(name, shape, tf.as_dtype(dtype), initializer, trainable, device)
        return self._pending[name]

    def create(self) -> None:
        """Creates the requested variables.

        The function that is being traced belongs to this thread. Another thread therefore creates variables eagerly,
        outside the traced graph.
        """
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            thread.submit(self._create).result()

    def _create(self) -> None:
        for name, master in self._pending.items():
            if name not in self._named:
                value = initial_value(master.initializer, name, master.shape, master.dtype, self._seed)
                with tf.device(master.device):
                    self._named[name] = tf.Variable(value, trainable=master.trainable, name=name)
            variable = self._named[name]
            if tuple(variable.shape) != master.shape or variable.dtype != master.dtype:
                raise CheckpointError(
                    f"variable '{name}' is {master.dtype.name} {list(master.shape)} in this program, but "
                    f"{variable.dtype.name} {variable.shape.as_list()} in the program that shares its variables. "
                    "Fix: share variables only between programs of the same network."
                )
            master.variable = variable
            master.device = variable.device

    def assign(
        self, assignments: Iterable[tuple[mtf.Variable, Callable[..., Any], tf.Tensor]], count_step: bool = True
    ) -> list[tf.Operation]:
        """Runs all assignments and counts the step if there are any.

        Several assignments to one variable run in order.

        Args:
          assignments: triples (mtf.Variable, assign function, new value) that the mesh recorded.
          count_step: False for a call that is only a part of a step.

        Returns:
          The last operation on each variable and on the step.
        """
        last: dict[_Variable | Variables, tf.Operation] = {}
        for variable, assign_fn, value in assignments:
            master = variable.get_master()
            with tf.control_dependencies([last[master]] if master in last else []), tf.device(master.device):
                last[master] = assign_fn(variable, master.variable, value)
        if last and count_step:
            last[self] = self.step.assign_add(1, read_value=False)
        return list(last.values())


def initial_value(initializer: object, name: str, shape: Iterable[int], dtype: tf.DType, seed: int) -> np.ndarray:
    """Returns the initial value of a variable, which depends only on (seed, name).

    Args:
      initializer: a TensorFlow initializer or its class, a function of (shape, dtype), a value, or None for Glorot
        uniform.
      name: name of the variable.
      shape: shape of the variable.
      dtype: tf.DType of the variable.
      seed: an int.
    """
    if initializer is None:
        initializer = tf.compat.v1.glorot_uniform_initializer()
    if isinstance(initializer, type):
        initializer = initializer()
    # In a separate graph, random values depend only on the graph's seed, not on previously created operations.
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(zlib.crc32(f"{seed}/{name}".encode()) & 0x7FFFFFFF)
        value = initializer(list(shape), dtype=dtype) if callable(initializer) else initializer
        value = tf.cast(tf.convert_to_tensor(value), dtype)
        known = tf.get_static_value(value)
        if known is not None:  # not random, so no session is needed, which would take milliseconds
            return np.broadcast_to(known, list(shape))
        value = tf.broadcast_to(value, list(shape))
        with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count={"GPU": 0})) as session:
            return np.asarray(session.run(value))
