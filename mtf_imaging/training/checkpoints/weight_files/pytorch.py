"""Files that `torch.save` wrote, which are read without PyTorch.

Both formats consist of pickles with the names and shapes of tensors, and of the tensors' bytes. Since a pickle can run
any code, only the few names that describe tensors are resolved (`_Unpickler`). Nothing that a small file describes
takes much memory: a tensor is not larger than its storage, and neither a storage nor the pickles are compressed.
"""

import contextlib
import dataclasses
import io
import math
import mmap
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import CheckpointError
from mtf_imaging.training.checkpoints.weight_files.weight_file import WeightFile, read_member

# The first bytes of the format before PyTorch 1.6: a pickle of a number. Format: torch/serialization.py in PyTorch.
LEGACY_START = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)
# The entries under which training programs save a model; the last one is that of nnU-Net.
_HOLDERS = ("model", "state_dict", "model_state_dict", "network_weights")
_SHOWN = 4
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")  # the operations that let a memo grow to an index
_NUMBER = 8  # bytes of a storage's element count, in the format before PyTorch 1.6
_PARALLEL = "module."  # the prefix of DistributedDataParallel
_DTYPES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": tf.bfloat16.as_numpy_dtype,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


@dataclasses.dataclass(frozen=True)
class _Storage:
    key: str
    dtype: Any
    number: int  # of elements


@dataclasses.dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, data: bytes) -> np.ndarray:
        """Returns the tensor, given the bytes of its storage."""
        if not all(type(n) is int and n >= 0 for n in (self.offset, *self.shape, *self.strides)):
            raise ValueError(f"it has the shape {self.shape}, the strides {self.strides} and the offset {self.offset}")
        flat = np.frombuffer(data, self.storage.dtype, self.storage.number)
        last = self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        needed = max(last + 1, math.prod(self.shape)) if 0 not in self.shape else 0
        if needed > flat.size:
            raise ValueError(f"it needs {needed} values, but its storage has {flat.size}")
        strides = [step * flat.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides).copy()


class _Opaque:
    """Stands for an object of a class that does not describe tensors, such as training settings."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, value: object) -> None:
        """Ignores an element of a list."""

    def extend(self, values: object) -> None:
        """Ignores elements of a list."""


class _Unpickler(pickle.Unpickler):
    """Reads a pickle without running any code that it names: all unknown classes and functions become `_Opaque`."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _ordered_dict
        if module in ("torch", "torch.storage") and name in _DTYPES:
            return np.dtype(_DTYPES[name])  # a pickle cannot call it
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild_tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *rest: data
        if (module, name) == ("torch", "Size"):
            return lambda sizes=(): sizes
        return _Opaque

    def persistent_load(self, pid: Any) -> Any:
        _, dtype, key, _, number, *_ = pid
        return _Storage(str(key), dtype, number)


class _Dict(dict):
    """An `OrderedDict`, without the attributes that a module gives its state."""

    def __setstate__(self, state: object) -> None:
        pass


def _ordered_dict(items: list[Any] | None = None) -> _Dict:
    """Returns a dict of pairs, which Python 2 pickled; they are moved, so that no file has many copies of them."""
    result = _Dict(items or [])
    if items:
        items.clear()
    return result


def _rebuild_tensor(
    storage: object, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *rest: object
) -> Any:
    if not isinstance(storage, _Storage) or not isinstance(storage.dtype, np.dtype):
        return _Opaque()  # of a dtype without an equivalent, such as a quantized one
    if not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise TypeError(f"a tensor has the shape {shape!r:.50} and the strides {strides!r:.50}")
    return _Tensor(storage, offset, shape, strides)


def _unpickle(file: Any, unpickler: type[_Unpickler] = _Unpickler) -> Any:
    """Returns the object of the next pickle in a file, unless its memo is larger than the pickle."""
    start = file.tell()
    for count, (operation, index, _) in enumerate(pickletools.genops(file)):
        if operation.name in _PUTS and int(index or 0) > count:
            raise ValueError(f"its operation {count} is {operation.name} {index}")
    file.seek(start)
    return unpickler(file, encoding="utf-8").load()


class PyTorchFile(WeightFile):
    """A file that `torch.save` wrote: a `state_dict`, or a checkpoint with one.

    A prefix "module." that all names share is left out.

    Attributes:
      content: the saved object, with descriptions of tensors, and placeholders for objects of other classes.
    """

    kind = "a file of torch.save"

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        self.content, self._load = _read_zip(self.path) if zipfile.is_zipfile(self.path) else _read_legacy(self.path)
        self._tensors = dict(sorted(_state_dict(self.path, self.content)))
        return {name: tensor.shape for name, tensor in self._tensors.items()}

    def _array(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        return tensor.of(self._load(tensor.storage))


_Load = Callable[[_Storage], bytes]


def _read_zip(path: str) -> tuple[Any, _Load]:
    """Returns the object in a file, and a function that reads a storage."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1)
        folder = name.removesuffix("/data.pkl")
        order = f"{folder}/byteorder"
        is_ordered = order in archive.namelist()
    if is_ordered and read_member(path, order) != b"little":
        raise ValueError("its values have the byte order of another processor")
    content = _unpickle(io.BytesIO(read_member(path, name)))
    return content, lambda storage: read_member(path, f"{folder}/data/{storage.key}")


def _read_legacy(path: str) -> tuple[Any, _Load]:
    """Does the same for the format before PyTorch 1.6: pickles, the last of which lists the storages that follow."""
    sizes: dict[str, int] = {}

    class Unpickler(_Unpickler):
        def persistent_load(self, pid: object) -> _Storage:
            storage = super().persistent_load(pid)
            sizes[storage.key] = storage.dtype.itemsize if isinstance(storage.dtype, np.dtype) else 0
            return storage

    positions: dict[str, tuple[int, int]] = {}
    with _mapped(path) as file:
        if file.read(len(LEGACY_START)) != LEGACY_START:
            raise ValueError("it does not begin like one")
        file.seek(0)
        _magic, _version, _system, content, keys = (_unpickle(file, Unpickler) for _ in range(5))
        for key in map(str, keys):
            if not sizes.get(key):
                raise ValueError(f"the values of storage {key} have an unknown dtype")
            number = file.read(_NUMBER)
            if len(number) != _NUMBER:
                raise EOFError("it ends within the values")
            start, length = file.tell(), int.from_bytes(number, "little") * sizes[key]
            positions[key] = (start, start + length)
            file.seek(min(start + length, file.size()))

    def load(storage: _Storage) -> bytes:
        with _mapped(path) as file:
            return file[slice(*positions[storage.key])]

    return content, load


@contextlib.contextmanager
def _mapped(path: str) -> Iterator[mmap.mmap]:
    """Opens a file whose reads allocate no more than the file has."""
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped


def _state_dict(path: str, content: object) -> Iterator[tuple[str, _Tensor]]:
    """Yields the names and tensors of a `state_dict`, or of the `state_dict` in a training checkpoint."""
    found = _tensors(content)
    if not found and isinstance(content, dict):
        found = next((own for key in _HOLDERS if (own := _tensors(content.get(key)))), {})
    if not found:
        _refuse(path, content)
    prefix = _PARALLEL if all(name.startswith(_PARALLEL) for name in found) else ""
    for name, tensor in found.items():
        yield name.removeprefix(prefix), tensor


def _tensors(content: object) -> Mapping[str, _Tensor]:
    if not isinstance(content, dict):
        return {}
    return {key: value for key, value in content.items() if isinstance(key, str) and isinstance(value, _Tensor)}


def _refuse(path: str, content: object) -> NoReturn:
    what = "an object of a class"
    if isinstance(content, dict):
        what = f"a dict with the entries {', '.join(map(repr, [*content][:_SHOWN]))}"
    raise CheckpointError(
        f"{path}: this file of torch.save contains {what}, but no state_dict of tensors. "
        "Fix: write one with torch.save(model.state_dict(), path).",
        settings=["checkpoint"],
    )
