"""Files with weights of PyTorch, safetensors and Keras are read, and damaged ones are refused."""

import json
import os
import pickle
import re
import struct
import tracemalloc
import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.training.checkpoints.weight_files.all_files import open_weights
from mtf_imaging.training.checkpoints.weights_folder import Weights, find_weights
from tests.training import torch_files
from tests.training.torch_files import Tensor, Unknown

RNG = np.random.default_rng(0)
ARRAYS = {
    "conv.weight": RNG.standard_normal((2, 3, 1, 2)).astype(np.float32),
    "half": RNG.standard_normal(3).astype(np.float16),
    "number": np.array(7, np.int64),
    "empty": np.zeros((0, 2), np.float32),
}


def check(path, arrays):
    file = open_weights(path)
    assert file.path == str(path)
    assert file.shapes == {name: arrays[name].shape for name in sorted(arrays)}
    for name, array in arrays.items():
        found = file.read(name)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def tensors(prefix=""):
    return {f"{prefix}{name}": Tensor(array, parameter=name == "conv.weight") for name, array in ARRAYS.items()}


CONTENTS = {
    "state_dict": tensors,
    "training": lambda: {"epoch": 3, "args": Unknown(), "optimizer": {"state": {0: Unknown()}}, "model": tensors()},
    "parallel": lambda: {"state_dict": tensors("module.")},
}


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", CONTENTS)
def test_files_of_pytorch(tmp_path, name, legacy):
    check(torch_files.write(tmp_path / "x.pth", CONTENTS[name](), legacy), ARRAYS)


@pytest.mark.parametrize("legacy", [False, True])
def test_views_of_one_storage(tmp_path, legacy):
    whole = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    views = {"whole": whole, "transposed": whole.view(0, (4, 3), (1, 4)), "column": whole.view(2, (3,), (4,))}
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    check(
        torch_files.write(tmp_path / "x.pt", views, legacy),
        {"whole": array, "transposed": array.T, "column": array[:, 2]},
    )


@pytest.mark.parametrize(
    "view",
    [
        (3, (12,), (1,)),
        (-1, (2,), (1,)),
        (4, (2,), (-1,)),
        (0, (4, 5), (4, 1)),
        (0, (13,), (0,)),
        (0, (1 << 40, 4), (0, 1)),
        (0, (2.9,), (1,)),
    ],
)
def test_views_beyond_their_storage_are_refused(tmp_path, view):
    whole = Tensor(np.arange(12, dtype=np.float32))
    file = open_weights(torch_files.write(tmp_path / "x.pth", {"x": whole.view(*view)}))
    with pytest.raises(mi.CheckpointError, match=r"'x' cannot be read: .* Fix: download or copy"):
        file.read("x")


def test_a_file_runs_no_code(tmp_path):
    class Attack:
        def __reduce__(self):
            return open, (str(tmp_path / "written"), "w")

    with zipfile.ZipFile(tmp_path / "x.pth", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"model": Attack()}, protocol=2))
    with pytest.raises(mi.CheckpointError, match=r"a dict with the entries 'model', but no state_dict of tensors. Fix"):
        open_weights(tmp_path / "x.pth")
    assert not (tmp_path / "written").exists()


def without_storages(path, instructions):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + instructions + b".")
    return path


@pytest.mark.parametrize(
    "instructions",
    [
        b"Nr" + struct.pack("<I", 1 << 22),  # a memo of 64 MB
        b"ctorch\nFloatStorage\n(]tR",  # an array
        b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x01tQK\x00](K\x01etR",
    ],
)
def test_instructions_that_torch_save_does_not_write_are_refused(tmp_path, instructions):
    path = without_storages(tmp_path / "x.pth", instructions)
    tracemalloc.start()
    with pytest.raises(mi.CheckpointError, match=r"is not a file of torch\.save, or is damaged: "):
        open_weights(path)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_dicts_of_python_2_are_read_once(tmp_path):
    """Python 2 stored an `OrderedDict` as a function of its pairs; a file could name the same pairs many times."""
    pairs = b"]q\x00(" + b"".join(b"]q" + bytes([n]) + b"(K" + bytes([n]) + b"K\x01e" for n in range(1, 100)) + b"e"
    path = without_storages(
        tmp_path / "x.pth",
        b"](" + pairs + b"0" + b"ccollections\nOrderedDict\nq\x70" + b"0" + b"h\x70h\x00\x85R" * 1000 + b"e",
    )
    tracemalloc.start()
    with pytest.raises(mi.CheckpointError, match="an object of a class, but no state_dict"):
        open_weights(path)
    assert tracemalloc.get_traced_memory()[1] < 1e6  # 1000 copies take 5 MB
    tracemalloc.stop()


@pytest.mark.parametrize("content", [[1, 2], Unknown(), {"epoch": 3}])
def test_files_without_a_state_dict_are_refused(tmp_path, content):
    with pytest.raises(mi.CheckpointError, match=r"no state_dict of tensors. Fix: write one with torch.save\(model"):
        open_weights(torch_files.write(tmp_path / "x.pth", content))


@pytest.mark.parametrize("legacy", [False, True])
def test_damaged_files_of_pytorch_are_refused(tmp_path, legacy):
    data = torch_files.write(tmp_path / "whole.pth", tensors(), legacy).read_bytes()
    for length in range(0, len(data), 7):
        (tmp_path / "cut.pth").write_bytes(data[:length])
        with pytest.raises(mi.CheckpointError, match=r"Fix: "):
            read_all(tmp_path / "cut.pth")


def read_all(path):
    file = open_weights(path)
    return [file.read(name) for name in file.shapes]


ENTRY = {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}


def safetensors(path, header, data=bytes(64)):
    """Writes a file by hand; the header is a dict, or its bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_files_of_safetensors(tmp_path):
    entries, data = {"__metadata__": {"format": "pt"}}, b""
    arrays = ARRAYS | {"bfloat16": np.array([[1.5, -3]], ml_dtypes.bfloat16), "mask": np.array([True, False])}
    names = {"float32": "F32", "float16": "F16", "int64": "I64", "bfloat16": "BF16", "bool": "BOOL"}
    for name, array in arrays.items():
        offsets = [len(data), len(data) + array.nbytes]
        entries[name] = {"dtype": names[array.dtype.name], "shape": array.shape, "data_offsets": offsets}
        data += array.tobytes()
    check(safetensors(tmp_path / "x.safetensors", entries, data), arrays)


def test_dtypes_that_numpy_lacks_are_named(tmp_path):
    file = open_weights(safetensors(tmp_path / "x.safetensors", {"x": ENTRY | {"dtype": "F8_E4M3", "shape": [64]}}))
    assert file.shapes == {"x": (64,)}
    with pytest.raises(mi.CheckpointError, match=r"'x' has the dtype F8_E4M3, which NumPy lacks. Fix: store it as flo"):
        file.read("x")


CRAFTED = {
    "cut JSON": b"{",
    "offset beyond the end": {"x": ENTRY | {"data_offsets": [64, 128]}},
    "another size": {"x": ENTRY | {"shape": [8]}},
    "overlap": {"x": ENTRY, "y": ENTRY},
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_files_of_safetensors_are_refused(tmp_path, name):
    path = safetensors(tmp_path / "x.safetensors", CRAFTED[name])
    with pytest.raises(
        mi.CheckpointError, match=r"x\.safetensors: this file is not a safetensors .* or is damaged: .* F"
    ):
        open_weights(path)


def test_cut_files_of_safetensors_are_refused(tmp_path):
    data = safetensors(tmp_path / "whole.safetensors", {"x": ENTRY}).read_bytes()
    for length in [*range(len(data)), -1]:
        (tmp_path / "cut.safetensors").write_bytes(data + b"1" if length < 0 else data[:length])
        with pytest.raises(mi.CheckpointError, match=r"is not a safetensors file, or is damaged: .* Fix: "):
            open_weights(tmp_path / "cut.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + data[8:])
    with pytest.raises(mi.CheckpointError, match=r"is not a safetensors file, or is damaged: .* Fix: "):
        open_weights(tmp_path / "cut.safetensors")


def keras_3(file):
    file.create_group("layers/conv2d/vars").attrs["name"] = "conv1_conv"
    file["layers/conv2d/vars/0"] = ARRAYS["conv.weight"]
    file.create_group("layers/conv2d_1/vars")
    file["layers/conv2d_1/vars/0"] = ARRAYS["half"]


def keras_2(file):
    file["conv1_conv/conv1_conv/kernel:0"] = ARRAYS["conv.weight"]
    file["model_weights/conv2d_1/conv2d_1/bias"] = ARRAYS["half"]


def keras_2_with_optimizer(file):
    keras_2(file)
    file["optimizer_weights/Adam/conv1_conv/kernel:0"] = ARRAYS["half"]


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (keras_3, ("conv1_conv/0", "conv2d_1/0")),
        (keras_2, ("conv1_conv/kernel", "conv2d_1/bias")),
        (
            keras_2_with_optimizer,
            ("conv1_conv/kernel", "conv2d_1/bias", "optimizer_weights/Adam/conv1_conv/kernel:0"),
        ),
    ],
)
@pytest.mark.parametrize("archive", [False, True])
def test_files_of_keras(tmp_path, write, names, archive):
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        write(file)
    if archive:
        with zipfile.ZipFile(tmp_path / "model.keras", "w") as whole:
            whole.write(path, path.name)
        path = tmp_path / "model.keras"
    check(path, dict(zip(names, (ARRAYS["conv.weight"], ARRAYS["half"], ARRAYS["half"]), strict=False)))


def outside(kind, file):
    """Gives a Keras file a variable whose values are in another file."""
    path = f"{file.filename}.secret"
    with h5py.File(path, "w") as other:
        other["x"] = np.arange(4.0)
    if kind == "external storage":
        file.create_dataset("conv/conv/kernel:0", (4,), np.uint8, external=[(path, 0, 4)])
    elif kind == "virtual data set":
        layout = h5py.VirtualLayout((4,), np.float64)
        layout[:] = h5py.VirtualSource(path, "x", (4,))
        file.create_virtual_dataset("conv/conv/kernel:0", layout)
    elif kind == "external link":
        file["conv/conv/kernel:0"] = h5py.ExternalLink(path, "x")
    elif kind == "external group":
        file["conv"] = h5py.ExternalLink(path, "/")
    elif kind == "soft link":
        file["bias:0"] = np.arange(4.0)
        file["conv/conv/kernel:0"] = h5py.SoftLink("/bias:0")
    elif kind == "no values":
        file.create_dataset("conv/conv/kernel:0", (1 << 40,), np.float32)
    elif kind == "compressed":
        file.create_dataset("conv/conv/kernel:0", data=np.zeros(1 << 20), compression="gzip")
    elif kind == "no shape":
        file["conv/conv/kernel:0"] = h5py.Empty(np.float32)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("external storage", "'conv/conv/kernel:0' refers to values in other files"),
        ("virtual data set", "'conv/conv/kernel:0' refers to values in other files"),
        ("external link", "'conv/conv/kernel:0' is a link to other data"),
        ("external group", "'conv' is a link to other data"),
        ("soft link", "'conv/conv/kernel:0' is a link to other data"),
        ("no values", "'conv/conv/kernel:0' has 4398046511104 bytes, but the file stores 0, or compresses them"),
        ("compressed", r"'conv/conv/kernel:0' has 8388608 bytes, but the file stores \d+, or compresses them"),
        ("no shape", ""),
    ],
)
@pytest.mark.parametrize("archive", [False, True])
def test_files_of_keras_without_their_own_values_are_refused(tmp_path, kind, reason, archive):
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        keras_2(file)
        outside(kind, file)
    if archive:
        with zipfile.ZipFile(tmp_path / "model.keras", "w") as whole:
            whole.write(path, path.name)
        path = tmp_path / "model.keras"
    with pytest.raises(mi.CheckpointError, match=rf"is not a Keras file, or is damaged: {reason}.* Fix: "):
        open_weights(path)


def test_variables_of_keras_with_one_name_are_told_apart(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in ("a", "b"):
            file[f"layers/{name}/layers/conv2d/vars/0"] = ARRAYS["half"]
        file["layers/conv2d_1/vars/0"] = ARRAYS["half"]
    paths = [f"layers/{name}/layers/conv2d/vars/0" for name in ("a", "b")]
    check(tmp_path / "x.h5", dict.fromkeys(["conv2d_1/0", *paths], ARRAYS["half"]))


@pytest.mark.parametrize("name", ["model.weights.h5", "archive/data.pkl", "archive/data/0"])
def test_compressed_archives_are_refused(tmp_path, name):
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        keras_2(file)
    whole = torch_files.write(tmp_path / "whole.pth", tensors()) if name.startswith("archive") else tmp_path / "x.keras"
    if whole.suffix == ".keras":
        with zipfile.ZipFile(whole, "w") as archive:
            archive.write(tmp_path / name, name)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(tmp_path / "packed.pth", "w") as new:
        for member in old.namelist():
            new.writestr(member, old.read(member), zipfile.ZIP_DEFLATED if member == name else zipfile.ZIP_STORED)
    with pytest.raises(
        mi.CheckpointError, match=f"'{name}' in this archive is compressed, unlike in those of .* Fix: "
    ):
        read_all(tmp_path / "packed.pth")


@pytest.mark.parametrize("name", ["w.h5", "w.pt", "w.safetensors", "w.ckpt", "w.data-00000-of-00001", "checkpoint"])
def test_pipes_are_refused(tmp_path, name):
    """Opening a named pipe would wait forever."""
    prefix = tf.train.Checkpoint(x=tf.Variable([1.0])).write(str(tmp_path / "w"))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    opened = {"checkpoint": tmp_path, "w.data-00000-of-00001": prefix}.get(name, tmp_path / name)
    for read in (open_weights, lambda path: Weights(find_weights(path))):
        if read is open_weights or opened in (tmp_path, prefix):
            with pytest.raises(
                mi.DataError, match=rf"{name}: is a named pipe, not a file. Fix: give the path of a file"
            ):
                read(opened)


def test_damaged_files_of_keras_are_refused(tmp_path):
    path = tmp_path / "model.h5"
    with h5py.File(path, "w") as file:
        keras_2(file)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(mi.CheckpointError, match=re.escape(f"{path}: this file is not a Keras file, or is damaged: ")):
        open_weights(path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("w.pth", "a file of torch.save"), ("w.weights.h5", "a Keras file"), ("w.safetensors", "a safetensors file")],
)
def test_files_of_other_contents_are_refused_by_their_ending(tmp_path, name, kind):
    path = tmp_path / name
    with pytest.raises(mi.CheckpointError, match=re.escape(f"{path}: there is no such file: neither")):
        open_weights(path)
    path.write_text("<html>404 Not Found</html>")
    with pytest.raises(mi.CheckpointError, match=re.escape(f"{path}: this file is not {kind}, or is damaged: ")):
        open_weights(path)
