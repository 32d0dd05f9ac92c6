"""Writes files as `torch.save` does, without PyTorch: pickles that name its functions, and the bytes of tensors."""

import collections
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np

STORAGES = {
    np.dtype(np.float64): "DoubleStorage",
    np.dtype(np.float32): "FloatStorage",
    np.dtype(np.float16): "HalfStorage",
    np.dtype(np.int64): "LongStorage",
}


def _named(module, name):
    """Returns a function that a pickle stores by this name."""

    def fn():
        raise AssertionError("called")

    fn.__module__, fn.__qualname__, fn.__name__ = module, name, name
    return fn


NAMES = {("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter"), ("argparse", "Settings")}
NAMES |= {("torch", name) for name in STORAGES.values()}
FUNCTIONS = {(module, name): _named(module, name) for module, name in NAMES}


class Tensor:
    """A tensor of a file: a view of an array.

    Attributes:
      base: the array that the file stores, flat.
      offset, shape, strides: the view, in elements.
      parameter: whether it is stored as a parameter.
    """

    def __init__(self, array, parameter=False):
        self.base, self.offset = np.ascontiguousarray(array).reshape(-1), 0
        self.shape, self.strides = (
            array.shape,
            tuple(step // array.itemsize for step in np.empty(array.shape, array.dtype).strides),
        )
        self.parameter = parameter

    def view(self, offset, shape, strides):
        """Returns another view of the same storage."""
        other = Tensor(self.base)
        other.base, other.offset, other.shape, other.strides = self.base, offset, shape, strides
        return other


class Unknown:
    """An object of a class that only the program that wrote the file has."""

    def __reduce__(self):
        return FUNCTIONS["argparse", "Settings"], (1,), {"rate": 0.1}


class _Pickler(pickle.Pickler):
    def __init__(self, file, storages, legacy):
        super().__init__(file, protocol=2)
        self.storages, self.legacy = storages, legacy

    def persistent_id(self, obj):
        if not isinstance(obj, np.ndarray):
            return None
        key = str(next((i for i, base in enumerate(self.storages) if base is obj), len(self.storages)))
        if int(key) == len(self.storages):
            self.storages.append(obj)
        kind = FUNCTIONS["torch", STORAGES[obj.dtype]]
        return ("storage", kind, key, "cpu", obj.size, *([None] if self.legacy else []))

    def reducer_override(self, obj):
        if not isinstance(obj, Tensor):
            return NotImplemented
        args = (obj.base, obj.offset, obj.shape, obj.strides, False, collections.OrderedDict())
        if obj.parameter:
            plain = obj.view(obj.offset, obj.shape, obj.strides)
            return FUNCTIONS["torch._utils", "_rebuild_parameter"], (plain, True, collections.OrderedDict())
        return FUNCTIONS["torch._utils", "_rebuild_tensor_v2"], args


def write(path, content, legacy=False):
    """Writes an object with `Tensor`s in it."""
    modules = {module: types.ModuleType(module) for module, _ in NAMES}
    for (module, name), fn in FUNCTIONS.items():
        setattr(modules[module], name, fn)
    modules["torch"]._utils = modules["torch._utils"]
    saved = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        storages, file = [], io.BytesIO()
        _Pickler(file, storages, legacy).dump(content)
    finally:
        for name, module in saved.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    if legacy:
        head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
        with open(path, "wb") as out:
            for value in head:
                pickle.dump(value, out, protocol=2)
            out.write(file.getvalue())
            pickle.dump([str(i) for i in range(len(storages))], out, protocol=2)
            for base in storages:
                out.write(struct.pack("<q", base.size) + base.tobytes())
        return path
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", file.getvalue())
        archive.writestr("archive/byteorder", "little")
        for i, base in enumerate(storages):
            archive.writestr(f"archive/data/{i}", base.tobytes())
    return path
