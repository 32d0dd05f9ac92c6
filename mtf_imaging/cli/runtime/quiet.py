"""Imports TensorFlow without its log lines."""

import contextlib
import gc
import os
import sys

from mtf_imaging.cli.runtime.address_space import check_address_space
from mtf_imaging.files.log_lines import silence, without_log_lines

_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
_KERAS = "keras.src.optimizers"  # TensorFlow imports it last, and ignores an ImportError


def import_tensorflow() -> None:
    """Imports TensorFlow, and sets up the GPUs before anything can use them.

    TensorFlow's log lines are hidden unless the user sets TF_CPP_MIN_LOG_LEVEL. oneDNN is used on every CPU unless the
    user sets TF_ENABLE_ONEDNN_OPTS. By default, TensorFlow uses it only on CPUs with instructions for neural networks;
    without it, a step of a 3D U-Net takes several times as long, and its gradients need gigabytes more.

    Raises:
      OutOfMemoryError: the process has too little address space.
    """
    check_address_space("TensorFlow")
    os.environ.setdefault(_ONEDNN, "1")
    with (
        without_log_lines() if silence() else contextlib.nullcontext(),
        _without_import(_KERAS),
        _without_collections(),
    ):
        from mtf_imaging.engine.meshes.devices import grow_memory

        grow_memory()


@contextlib.contextmanager
def _without_import(module):
    """Makes imports of a module fail within the `with` block, unless it has already been imported.

    Keras accounts for a quarter of TensorFlow's import time, and this package does not use it. User code
    can still import it later, for instance as `tf.keras`.
    """
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None
    try:
        yield
    finally:
        del sys.modules[module]


@contextlib.contextmanager
def _without_collections():
    """Pauses Python's garbage collector while TensorFlow is imported, and then exempts all existing objects.

    TensorFlow's modules are never freed, and visiting their objects takes a third of the import time. Does
    nothing if TensorFlow has already been imported.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
