"""Files with weights of PyTorch, safetensors and Keras are read, and damaged ones are refused."""

import json
import pickle
import re
import struct
import zipfile

import h5py
import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.training.checkpoints.weight_files import open_weights
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


@pytest.mark.parametrize("view", [(3, (12,), (1,)), (-1, (2,), (1,)), (4, (2,), (-1,)), (0, (4, 5), (4, 1))])
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


def safetensors(path, arrays, header=None):
    entries, data = {"__metadata__": {"format": "pt"}}, b""
    names = {"float32": "F32", "float16": "F16", "int64": "I64"}
    for name, array in arrays.items():
        offsets = [len(data), len(data) + array.nbytes]
        entries[name] = {"dtype": names[array.dtype.name], "shape": array.shape, "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(entries).encode() if header is None else header
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_files_of_safetensors(tmp_path):
    check(safetensors(tmp_path / "x.safetensors", ARRAYS), ARRAYS)


@pytest.mark.parametrize("header", [b"{", b"[]", b'{"x": {}}', b'{"x": 3}', b"\xff"])
def test_damaged_files_of_safetensors_are_refused(tmp_path, header):
    with pytest.raises(mi.CheckpointError, match=r"is not a safetensors file, or is damaged: .* Fix: "):
        open_weights(safetensors(tmp_path / "x.safetensors", {}, header=header))
    whole = safetensors(tmp_path / "y.safetensors", {"x": ARRAYS["conv.weight"]})
    whole.write_bytes(whole.read_bytes()[:-1])
    with pytest.raises(mi.CheckpointError, match="'x' cannot be read"):
        open_weights(whole).read("x")


def keras_3(file):
    file.create_group("layers/conv2d/vars").attrs["name"] = "conv1_conv"
    file["layers/conv2d/vars/0"] = ARRAYS["conv.weight"]
    file.create_group("layers/conv2d_1/vars")
    file["layers/conv2d_1/vars/0"] = ARRAYS["half"]


def keras_2(file):
    file["conv1_conv/conv1_conv/kernel:0"] = ARRAYS["conv.weight"]
    file["model_weights/conv2d_1/conv2d_1/bias"] = ARRAYS["half"]


@pytest.mark.parametrize(
    ("write", "names"), [(keras_3, ("conv1_conv/0", "conv2d_1/0")), (keras_2, ("conv1_conv/kernel", "conv2d_1/bias"))]
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
    check(path, dict(zip(names, (ARRAYS["conv.weight"], ARRAYS["half"]), strict=True)))


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
    text = f"{path}: there is no such file. Fix: give the path of {kind}."
    with pytest.raises(mi.CheckpointError, match=re.escape(text)):
        open_weights(path)
    path.write_text("<html>404 Not Found</html>")
    with pytest.raises(mi.CheckpointError, match=re.escape(f"{path}: this file is not {kind}, or is damaged: ")):
        open_weights(path)
