"""The adapter to TensorFlow and mesh_tensorflow, the only module that imports mesh_tensorflow and uses private names.

mesh_tensorflow 0.1.21 was written for about TensorFlow 2.5, and needs two names that later TensorFlow versions removed.
Each patch below restores one of them if it is missing. Nothing else changes, and TensorFlow 2 behavior stays enabled.
All other modules import `mtf` from this module.

`PRIVATE` lists the private names, and the public names that only TensorFlow 1 documents. All other modules use these
names through the functions below, so a new version of either library requires changes only in this file.
"""

import contextlib
import logging
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as tf1  # the same name as in mesh_tensorflow; another name imports a different module
from tensorflow.python.framework import ops


def _restore_estimator() -> None:
    """Restores `tensorflow.compat.v1.estimator`, which mesh_tensorflow subclasses and TensorFlow 2.16 removed."""
    if not hasattr(tf1, "estimator"):
        tf1.estimator = types.ModuleType("tensorflow.compat.v1.estimator", "The part that mesh_tensorflow needs.")
        tf1.estimator.SessionRunHook = tf1.train.SessionRunHook
        tf1.estimator.CheckpointSaverListener = tf1.train.CheckpointSaverListener


def _restore_register_tensor_conversion_function() -> None:
    """Restores `ops.register_tensor_conversion_function`, which mesh_tensorflow calls and TensorFlow 2.13 removed."""
    if not hasattr(ops, "register_tensor_conversion_function"):
        ops.register_tensor_conversion_function = tf.register_tensor_conversion_function


_restore_estimator()
_restore_register_tensor_conversion_function()

import mesh_tensorflow as mtf  # noqa: E402  needs the two patches above

_MTF = ("0.1.21",)
_TF = ("2.19", "2.21", "2.22.0rc0")


class Private(NamedTuple):
    """A private name of a library.

    Attributes:
      name: the name, with its module or class.
      use: the reason why this package needs the name.
      versions: versions of the library that were tested.
    """

    name: str
    use: str
    versions: tuple[str, ...]


PRIVATE = (
    Private(
        "tensorflow.python.framework.ops", "mesh_tensorflow calls a function that was removed from this module", _TF
    ),
    Private("tensorflow.python.framework.function_def_to_graph", "the functions that another graph calls", _TF),
    Private("tensorflow.python.client.device_lib", "the memory limit of a GPU", _TF),
    Private(
        "tensorflow.python.eager.context",
        "starts and aborts the collectives of several processes; tf.distribute offers them only with its strategies",
        _TF,
    ),
    Private("tensorflow.core.protobuf.tensorflow_server_pb2", "the description of a process of a cluster", _TF),
    Private("tf.Graph._create_op_internal", "equal constants of a graph become one node", _TF),
    Private("tf.Graph._device_function_stack", "the device of a constant that is about to be created", _TF),
    Private("tensorflow.compat.v1.variable_scope", "its custom_getter creates the variables of a program", _TF),
    Private(
        "tensorflow.compat.v1.GraphKeys.GLOBAL_STEP",
        "the key under which optimizers of mesh_tensorflow look up the step",
        _TF,
    ),
    Private(
        "tensorflow.__internal__.dispatch.GlobalOpDispatcher",
        "calls of TensorFlow's functions with tensors of mesh_tensorflow get an error that names the right function",
        _TF,
    ),
    Private("mtf.LayoutRules._pairs", "the rules of a layout", _MTF),
    Private("mtf.Assign._variables", "the variables that an assignment changes, which are not among its inputs", _MTF),
    Private(
        "mtf.Depend._dependencies",
        "the tensors and operations that must run first, which are not among its inputs",
        _MTF,
    ),
    Private("mtf.PrintOperation._data", "the tensors that it prints, which are not among its inputs", _MTF),
    Private("mtf.SlicewiseOperation._tf_fn", "the function that each processor calls on its slices", _MTF),
    Private("mtf.SlicewiseOperation._grad_function", "the gradient that the caller of mtf.slicewise specified", _MTF),
    Private("mtf.GenericGradOperation._forward_op", "the operation that it is the gradient of", _MTF),
    Private("mtf.GenericGradOperation._grad_ys", "the gradients of the outputs of that operation", _MTF),
    Private("mtf.BinaryOpWithBroadcasting._tf_fn", "the function of a binary operation", _MTF),
    Private("mtf.ScalarMultiplyOperation._scalar", "the number by which a tensor is multiplied", _MTF),
    Private("mtf.ScalarAddOperation._scalar", "the number that is added to a tensor", _MTF),
    Private("mtf.ReduceOperation._reduction_fn_string", "sums over processors can be deferred, maxima cannot", _MTF),
    Private("mtf.PoolOperation._ksize", "splits are refused if windows do not cover a dimension evenly", _MTF),
    Private("mtf.PoolOperation._strides", "the gradient of a pool", _MTF),
    Private(
        "mtf.PoolOperation._pool_fn_string",
        "the gradient of a pool; the name of the replacement in an error message",
        _MTF,
    ),
    Private("mtf.Conv2dTransposeOperation._out_dim", "a split of the output channels is refused", _MTF),
    Private("mtf.Conv3dTransposeOperation._out_dim", "a split of the output channels is refused", _MTF),
    Private("mtf.UnstackOperation._dim", "the gradient of an unstack", _MTF),
    Private("mtf.UnstackOperation._axis", "the gradient of an unstack", _MTF),
    Private("mtf.ShiftOperation._dim", "the exchanges of a shift along a split dimension", _MTF),
    Private("mtf.ShiftOperation._offset", "the exchanges of a shift along a split dimension", _MTF),
    Private("mtf.ShiftOperation._wrap", "the exchanges of a shift along a split dimension", _MTF),
    Private("mtf.TopKOperation._reduced_dim", "the exchanges of top_k along a split dimension", _MTF),
    Private("mtf.TopKOperation._k_dim", "the exchanges of top_k along a split dimension", _MTF),
    Private("mtf.WhileLoopOperation._cond_ops", "the lowering of a loop", _MTF),
    Private("mtf.WhileLoopOperation._cond_inputs", "the lowering of a loop", _MTF),
    Private("mtf.WhileLoopOperation._cond_output", "the lowering of a loop", _MTF),
    Private("mtf.WhileLoopOperation._body_ops", "the lowering of a loop", _MTF),
    Private("mtf.WhileLoopOperation._body_inputs", "the lowering of a loop", _MTF),
    Private("mtf.WhileLoopOperation._body_outputs", "the lowering of a loop", _MTF),
    Private("mtf.WhileLoopOperation._tf_kwargs", "the lowering of a loop", _MTF),
)


class _Once(logging.Filter):
    """Shows each notice of mesh_tensorflow only once, instead of for every variable and program."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: set[tuple[str, int]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        place = record.pathname, record.lineno
        is_new = "mesh_tensorflow" not in record.pathname or place not in self.shown
        self.shown.add(place)
        return is_new


logging.getLogger("tensorflow").addFilter(_Once())


# TensorFlow.


def gpu_memory_limit(number: int) -> int:
    """Returns the number of bytes that TensorFlow may use on a GPU."""
    from tensorflow.python.client import device_lib  # initializes every device

    return next(d.memory_limit for d in device_lib.list_local_devices() if d.name.endswith(f"GPU:{number}"))


def start_collectives(job: str, addresses: list[str], index: int, may_spin: bool = True) -> None:
    """Starts TensorFlow's collective runtime in this process, and waits for all others.

    Args:
      job: the job name of the processes.
      addresses: the address of each process.
      index: the number of this process.
      may_spin: whether idle threads may poll for work before they sleep. Polling takes time from other processes on
        the same cores.

    Raises:
      RuntimeError: TensorFlow has already initialized its devices.
    """
    from tensorflow.core.protobuf import tensorflow_server_pb2
    from tensorflow.python.eager import context

    own = context.context()
    own.configure_collective_ops(
        collective_leader=f"/job:{job}/replica:0/task:0", device_filters=(f"/job:{job}/task:{index}",)
    )
    config = own.config
    config.experimental.disable_thread_spinning = not may_spin
    server = tensorflow_server_pb2.ServerDef(
        cluster=tf.train.ClusterSpec({job: addresses}).as_cluster_def(),
        default_session_config=config,
        job_name=job,
        task_index=index,
        protocol="grpc",
        port=int(addresses[index].rpartition(":")[2]),
    )
    own.enable_collective_ops(server)
    own.ensure_initialized()


def abort_collectives(message: str) -> None:
    """Ends all collectives of this process with an error; later collectives fail with the same error."""
    from tensorflow.python.eager import context

    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, message)


@contextlib.contextmanager
def shared_constants() -> Iterator[None]:
    """Within the block, equal constants on one device become one node of the current graph.

    More than half of the nodes of a lowered network would otherwise be constants, mostly shapes.
    """
    graph = tf1.get_default_graph()
    create = graph._create_op_internal
    constants: dict[tuple, tf.Operation] = {}

    def create_shared(op_type: str, *args: Any, **kwargs: Any) -> tf.Operation:
        if op_type != "Const":
            return create(op_type, *args, **kwargs)
        devices = tuple(spec.display_name for spec in graph._device_function_stack.peek_objs())
        key = kwargs["attrs"]["value"].tensor.SerializeToString(deterministic=True), devices
        if key not in constants:
            # Other users of the constant must not wait for the control dependencies of its first user.
            with graph.control_dependencies(None):
                constants[key] = create(op_type, *args, **kwargs)
        return constants[key]

    graph._create_op_internal = create_shared
    try:
        yield
    finally:
        del graph._create_op_internal


@contextlib.contextmanager
def variable_getter(getter: Callable[..., object], step: tf.Variable) -> Iterator[None]:
    """Within the block, makes `mtf.get_variable` call `getter` and makes `global_step` return `step`.

    Args:
      getter: a custom getter for `tf.compat.v1.variable_scope`.
      step: the variable that counts the steps.
    """
    tf1.add_to_collection(tf1.GraphKeys.GLOBAL_STEP, step)
    with tf1.variable_scope(tf1.get_variable_scope(), custom_getter=getter, reuse=tf1.AUTO_REUSE):
        yield


def global_step() -> tf.Variable:
    """Returns the step of the enclosing `variable_getter`."""
    return tf1.train.get_global_step()


class _Dispatcher(tf.__internal__.dispatch.GlobalOpDispatcher):
    def __init__(self, refuse: Callable[[str, mtf.Tensor], None]) -> None:
        self.refuse = refuse

    def handle(self, op: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        for value in [*args, *kwargs.values()]:
            for each in value if isinstance(value, list | tuple) else [value]:
                if isinstance(each, mtf.Tensor):
                    # Functions with several versions have names such as conv2d_v2.
                    self.refuse(op.__name__.partition("_v2")[0], each)
        return self.NOT_SUPPORTED


def refuse_in_tensorflow(refuse: Callable[[str, mtf.Tensor], None]) -> None:
    """Makes failed calls of TensorFlow functions on an `mtf.Tensor` call `refuse`.

    Args:
      refuse: a function (name of the TensorFlow function, tensor) that raises an error.
    """
    _Dispatcher(refuse).register()


# mesh_tensorflow.


def replace_function(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Replaces a function in all mesh_tensorflow modules, because they import names from each other."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "mesh_tensorflow":
            for attribute in [key for key, value in vars(module).items() if value is old]:
                setattr(module, attribute, new)


def layout_pairs(rules: mtf.LayoutRules) -> set[tuple[str, str]]:
    """Returns the rules of a layout as pairs (tensor dimension, mesh dimension)."""
    return rules._pairs


def assigned_variables(op: mtf.Operation) -> list[mtf.Variable]:
    """Returns the variables that an operation assigns to."""
    return op._variables if isinstance(op, mtf.Assign) else []


def dependencies(op: mtf.Depend) -> list[mtf.Tensor]:
    """Returns the tensors that must be computed first; a dependency on an operation counts as all its outputs."""
    return [t for d in op._dependencies for t in ([d] if isinstance(d, mtf.Tensor) else d.outputs)]


def printed_tensors(op: mtf.PrintOperation) -> list[mtf.Tensor]:
    """Returns the tensors whose values an operation prints."""
    return op._data


def slice_function(op: mtf.SlicewiseOperation) -> Callable[..., Any]:
    """Returns the function that each processor calls on its slices."""
    return op._tf_fn


def binary_function(op: mtf.BinaryOpWithBroadcasting) -> Callable[..., tf.Tensor]:
    """Returns the function of two TensorFlow tensors that broadcast."""
    return op._tf_fn


def scalar(op: mtf.ScalarMultiplyOperation | mtf.ScalarAddOperation) -> Any:
    """Returns the number that is combined with a tensor."""
    return op._scalar


def is_own_function(fn: Callable[..., Any]) -> bool:
    """Returns whether mesh_tensorflow defines a function; functions that it passes to `mtf.cwise` are elementwise."""
    return getattr(fn, "__module__", None) == mtf.cwise.__module__


def gradient_function(op: mtf.SlicewiseOperation) -> Callable[..., Any] | None:
    """Returns the gradient function that the caller of `mtf.slicewise` specified, or None."""
    return op._grad_function


def forward_operation(op: mtf.GenericGradOperation) -> mtf.Operation:
    """Returns the operation whose gradient an operation computes."""
    return op._forward_op


def output_gradients(op: mtf.GenericGradOperation) -> list[mtf.Tensor]:
    """Returns the gradients with respect to the outputs of the forward operation."""
    return op._grad_ys


def reduction_kind(op: mtf.ReduceOperation) -> str:
    """Returns "SUM", "MAX" or "MIN"."""
    return op._reduction_fn_string


def is_sum(op: mtf.Operation) -> bool:
    """Returns whether a reduction is a sum instead of a maximum or a minimum; True for other operations."""
    return not isinstance(op, mtf.ReduceOperation) or reduction_kind(op) == "SUM"


def pool_window(op: mtf.PoolOperation) -> tuple[list[int], list[int], str]:
    """Returns the window sizes, the strides and the kind of a pool: "MAX_2D", "AVG_2D", "MAX_3D" or "AVG_3D"."""
    return op._ksize, op._strides, op._pool_fn_string


def output_channels(op: mtf.Conv2dTransposeOperation | mtf.Conv3dTransposeOperation) -> mtf.Dimension:
    """Returns the output channels of a transposed convolution."""
    return op._out_dim


def unstacked_dimension(op: mtf.UnstackOperation) -> tuple[mtf.Dimension, int]:
    """Returns the dimension along which an operation unstacks, and its position."""
    return op._dim, op._axis


def shift_arguments(op: mtf.ShiftOperation) -> tuple[mtf.Dimension, int, bool]:
    """Returns the dimension and the offset of a shift, and whether it wraps around."""
    return op._dim, op._offset, op._wrap


def top_k_dimensions(op: mtf.TopKOperation) -> tuple[mtf.Dimension, mtf.Dimension]:
    """Returns the dimension that a top_k reduces and the dimension of its results."""
    return op._reduced_dim, op._k_dim


class LoopPart(NamedTuple):
    """The condition or the body of an `mtf.while_loop`.

    Attributes:
      operations: the operations, in order.
      inputs: placeholders for the state of the loop.
      outputs: the results.
    """

    operations: list[mtf.Operation]
    inputs: list[mtf.Tensor]
    outputs: list[mtf.Tensor]


def loop_condition(op: mtf.WhileLoopOperation) -> LoopPart:
    """Returns the condition of a loop."""
    return LoopPart(op._cond_ops, op._cond_inputs, [op._cond_output])


def loop_body(op: mtf.WhileLoopOperation) -> LoopPart:
    """Returns the body of a loop."""
    return LoopPart(op._body_ops, op._body_inputs, list(op._body_outputs))


def loop_options(op: mtf.WhileLoopOperation) -> dict[str, Any]:
    """Returns the keyword arguments for `tf.while_loop`."""
    return op._tf_kwargs


def function_graph(function: Any, library: tf.Graph) -> Any:
    """Returns the graph of a function, given its protocol buffer and a graph with the functions that it calls."""
    from tensorflow.python.framework import function_def_to_graph

    with library.as_default():
        return function_def_to_graph.function_def_to_graph(function)
