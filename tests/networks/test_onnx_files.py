"""ONNX files: what is refused and how, files of other exporters, and values outside the file."""

import contextlib

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.errors import DataError, MtfImagingError, NotSupportedError
from mtf_imaging.networks.onnx.registry import OPERATORS

pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.networks import comparing
from tests.networks.onnx_models import Builder, check, runtime, saved, weight
from tests.networks.test_onnx_networks import NETWORKS

FREE = {"image": (("batch", 3, "h", "w"), "float32")}


def convolution(name="image"):
    build = Builder()
    return build.model(FREE, [build("Conv", name, weight(4, 3, 3, 3), weight(4), pads=[1] * 4, name="stem")])


def error_of(path, kind=NotSupportedError, **sizes):
    with pytest.raises(kind) as caught:
        mi.networks.load(path).inputs(**sizes)
    return str(caught.value)


def test_all_unknown_operators_are_listed(tmp_path):
    build = Builder()
    y = build("Det", "image", name="/head/Det")
    y = build("NonZero", y, name="/head/NonZero")
    model = build.model(FREE, [build("Loop", "", "", y, name="/head/Loop")])
    model.graph.node.append(helper.make_node("FusedConv", [y], ["other"], name="/fused", domain="com.microsoft"))
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    text = error_of(path)
    assert "ONNX network 'net.onnx': 4 of its operations cannot be converted" in text
    for name, operator in [("/head/Det", "Det"), ("/head/Loop", "Loop"), ("/fused", "com.microsoft.FusedConv")]:
        assert f"{operator} '{name}' is unknown" in text


def test_all_value_dependent_shapes_are_listed(tmp_path):
    build = Builder()
    sizes = build("Cast", build("ReduceMax", "image", keepdims=0), to=TensorProto.INT64)
    first = build("Expand", "image", build("Unsqueeze", sizes, np.array([0])), name="/first/Expand")
    second = build("Reshape", "image", np.array([5, 7]), name="/second/Reshape")
    build("Relu", first, name="/after/Relu")
    path = saved(build.model(FREE, [first, second]), tmp_path)
    text = error_of(path, x=4, y=4)
    assert "2 of its operations cannot be converted" in text
    assert "Expand '/first/Expand' has sizes that depend on the values of a tensor" in text
    assert "Reshape '/second/Reshape' reshapes [1, 3, 4, 4] to [5, 7], which has another number of elements" in text


def test_sizes_of_the_export(tmp_path):
    """A shape that was stored as a constant is named, with both sizes."""
    build = Builder()
    y = build("Reshape", "image", np.array([1, 3, 32]), name="/head/view")
    path = saved(build.model({"image": ((1, 3, 4, 8), "float32")}, [y]), tmp_path)
    assert mi.networks.load(path).inputs() == {"image": ("batch:1,x:4,y:8,channels:3", "float32")}
    assert "Reshape '/head/view' reshapes [1, 3, 6, 8] to [1, 3, 32]" in error_of(path, x=6, y=8)


def test_empty_outputs_are_named(tmp_path):
    build = Builder()
    parts = build("Split", "image", np.array([0, 8]), axis=3, outputs=2, name="parts")
    text = error_of(saved(build.model({"image": ((1, 3, 4, 8), "float32")}, parts), tmp_path))
    assert "1 of its operations cannot be converted" in text
    assert "Split 'parts' has an output [1, 3, 4, 0], which is empty. Fix: export the network without it" in text


@pytest.mark.parametrize("opset", [12, 23])
def test_opsets(opset, tmp_path):
    model = convolution()
    model.opset_import[0].version = opset
    onnx.save(model, tmp_path / "net.onnx")
    assert f"its opset is {opset}, but opsets 13 to 22 are supported" in error_of(tmp_path / "net.onnx")


def test_constant_conditions_choose_a_branch(tmp_path):
    build = Builder()
    branches = []
    for operator in ("Relu", "Neg"):
        node = helper.make_node(operator, ["image"], [f"{operator}_y"], name=operator)
        branches.append(helper.make_graph([node], operator, [], [helper.make_empty_tensor_value_info(f"{operator}_y")]))
    rank = build("Size", build("Shape", "image"))
    y = build("If", build("Equal", rank, np.array(4)), then_branch=branches[0], else_branch=branches[1])
    check(saved(build.model(FREE, [y]), tmp_path), "split", {"x": 4, "y": 6})


def test_local_functions_are_inlined(tmp_path):
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Activation", ["x"], ["y"], [node], opsets[:1])
    graph = helper.make_graph(
        [helper.make_node("Activation", ["image"], ["y"], domain="own")],
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, FREE["image"][0])],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    check(saved(model, tmp_path), "split", {"x": 4, "y": 6})


def test_weights_in_other_forms(tmp_path):
    """Constants in nodes, and weights behind other operators, become variables; scalars and shapes do not."""
    build = Builder()
    kernel = build("Constant", value=numpy_helper.from_array(weight(3, 3, 4)), name="kernel")
    kernel = build("Unsqueeze", build("Identity", kernel), np.array([3]), name="wide")
    y = build("Conv", "image", kernel, name="stem")
    y = build("Mul", build("Add", y, weight(3, 1, 1), name="bias"), np.float32(2), name="twice")
    y = build("Sub", y, weight(1, 3, 1, 1), name="shift")
    path = saved(build.model(FREE, [y]), tmp_path)
    assert mi.networks.load(path).weights == ("kernel_output_0", "bias.1")
    check(path, "split", {"x": 6, "y": 6})


def test_channels_last_files(tmp_path):
    """Files of TensorFlow's exporter have channels last, between transposes, and keep them."""
    build = Builder()
    y = build("Transpose", build("Sub", "image", np.float32([1, 2, 3])), perm=[0, 3, 1, 2])
    y = build("Conv", y, weight(4, 3, 3, 3), pads=[1] * 4)
    y = build("Add", build("Transpose", y, perm=[0, 2, 3, 1]), weight(4))
    path = saved(build.model({"image": (("n", "h", "w", 3), "float32")}, [y]), tmp_path)
    network = mi.networks.load(path)
    specs = network.inputs(x=4, y=6)
    assert specs == {"image": ("batch:1,x:4,y:6,channels:3", "float32")}
    image = np.random.default_rng(0).random([1, 4, 6, 3], np.float32)
    (wanted,) = onnxruntime.InferenceSession(path).run(None, {"image": image})
    np.testing.assert_allclose(mi.Program(network, specs)(image=image), wanted, 1e-5, 1e-6)


def test_several_inputs_and_outputs(tmp_path):
    """Images of different channels and a vector; outputs with and without spatial axes keep the names of the file."""
    build = Builder()
    gain = build("Gemm", "age", weight(2, 4), weight(4), name="embedding")
    fixed = build("Conv", "fixed", weight(4, 1, 3, 3), pads=[1] * 4, name="first")
    moving = build("Conv", "moving", weight(4, 2, 3, 3), pads=[1] * 4, name="second")
    y = build("Mul", build("Add", fixed, moving), build("Unsqueeze", gain, np.array([2, 3])))
    labels = build("ArgMax", y, axis=1, keepdims=0, name="labels")
    scores = build("ReduceMean", y, axes=[2, 3], keepdims=0, name="scores")
    sizes = ("n", 1, "h", "w"), ("n", 2, "h", "w"), ("n", 2)
    inputs = {name: (shape, "float32") for name, shape in zip(("fixed", "moving", "age"), sizes, strict=True)}
    path = saved(build.model(inputs, [y, labels, scores]), tmp_path)
    network = mi.networks.load(path)
    specs = network.inputs(batch=2, height=6, width=4)
    assert specs["moving"][0] == "batch:2,height:6,width:4,channels:2"
    assert specs["age"][0] == "batch:2,channels:2"

    def in_another_order(**images):
        return network(**dict(reversed(images.items())))

    program = mi.Program(in_another_order, specs, mesh_shape="rows:2", layout="height:rows")
    tensors = comparing.arrays(specs)
    results = program(**tensors)
    assert list(results) == [y, "labels_output_0", "scores_output_0"]
    for ours, theirs in zip(results.values(), runtime(path, tensors), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def test_half_precision(tmp_path):
    build = Builder(dtype="float16")
    y = build("Conv", "image", weight(4, 3, 3, 3), weight(4), pads=[1] * 4)
    y = build("Relu", build("BatchNormalization", y, *(weight(4, seed=i, low=0.5) for i in range(4))))
    y = build("Resize", y, "", np.array([1, 1, 2, 2], np.float64), mode="nearest")
    model = build.model({"image": (FREE["image"][0], "float16")}, [y])
    for tensor in model.graph.initializer:
        if numpy_helper.to_array(tensor).dtype == np.float64:
            tensor.CopyFrom(numpy_helper.from_array(np.float32([1, 1, 2, 2]), tensor.name))
    check(saved(model, tmp_path), "split", {"x": 4, "y": 6}, tolerance=2e-3, gradients=False)


def test_outputs_of_matrix_products_have_channels_last(tmp_path):
    build = Builder()
    y = build("Conv", "image", weight(4, 3, 3, 3), pads=[1] * 4)
    y = build("Add", build("MatMul", build("Transpose", y, perm=[0, 2, 3, 1]), weight(4, 5)), weight(5))
    path = saved(build.model(FREE, [y]), tmp_path)
    network = mi.networks.load(path)
    program = mi.Program(network, network.inputs(x=4, y=6))
    image = np.random.default_rng(0).random([1, 4, 6, 3], np.float32)
    (wanted,) = onnxruntime.InferenceSession(path).run(None, {"image": np.moveaxis(image, -1, 1)})
    np.testing.assert_allclose(program(image=image), wanted, 1e-5, 1e-5)


def test_keras_through_tf2onnx(tmp_path):
    """A Keras model that tf2onnx exports equals the model."""
    import keras
    import tensorflow as tf
    import tf2onnx

    model = keras.Sequential(
        [
            keras.Input((8, 6, 2)),
            keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2DTranspose(3, 2, strides=2),
            keras.layers.MaxPool2D(),
            keras.layers.Conv2D(2, 1, activation="softmax"),
        ]
    )
    spec = tf.TensorSpec([1, 8, 6, 2], tf.float32, name="image")
    function = tf.function(model, input_signature=[spec])
    tf2onnx.convert.from_function(function, [spec], opset=17, output_path=str(tmp_path / "net.onnx"))
    network = mi.networks.load(tmp_path / "net.onnx")
    image = np.random.default_rng(0).random([1, 8, 6, 2], np.float32)
    program = mi.Program(network, network.inputs(), mesh_shape="rows:2", layout="x:rows")
    np.testing.assert_allclose(program(image=image), model(image), 1e-5, 1e-6)


def test_external_data(tmp_path):
    model = convolution()
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    check(tmp_path / "net.onnx", "whole", {"x": 4, "y": 6})
    exported = mi.networks.load(tmp_path / "net.onnx")._source.export(
        {name: w.read() for name, w in mi.networks.load(tmp_path / "net.onnx")._source.weights.items()}
    )
    image = np.ones([1, 4, 6, 3], np.float32)
    onnx.save(exported, tmp_path / "again.onnx")
    np.testing.assert_array_equal(
        runtime(tmp_path / "again.onnx", {"image": image}), runtime(tmp_path / "net.onnx", {"image": image})
    )


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/hostname", "link.bin", "folder/../../secret.bin", "missing"]
)
def test_external_data_stays_in_the_folder(location, tmp_path):
    folder = tmp_path / "network"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(10000))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    model = convolution()
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(folder / "net.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    text = error_of(folder / "net.onnx", DataError)
    assert "the tensor 'stem.1' cannot be read" in text


@pytest.mark.parametrize(
    ("entry", "value"), [("offset", "99999999"), ("length", "4"), ("offset", "-8"), ("offset", "x")]
)
def test_external_data_within_the_file(entry, value, tmp_path):
    onnx.save(convolution(), tmp_path / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    model = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    external = {each.key: each for each in model.graph.initializer[0].external_data}
    external[entry].value = value
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    assert "the tensor 'stem.1'" in error_of(tmp_path / "net.onnx", DataError)


def test_damaged_files(tmp_path):
    """Truncated, foreign and inconsistent files end in one sentence."""
    data, path = convolution().SerializeToString(), tmp_path / "net.onnx"
    for content in (
        b"",
        b"\x89PNG\r\n",
        b"hello world, this is text",
        *(data[: len(data) * i // 7] for i in range(1, 7)),
    ):
        path.write_bytes(content)
        assert str(path) in error_of(path, DataError)
    path.write_bytes(convolution("other").SerializeToString())
    assert "Conv 'stem' uses 'other', which no node before it computes" in error_of(path, DataError)
    assert "there is no such file" in error_of(tmp_path / "missing.onnx", DataError)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_mutated_models(name, tmp_path):
    """Models with other settings, shapes and names load, or end in an error of this package."""
    build, sizes = NETWORKS[name]
    original, rng = build(), np.random.default_rng(0)
    for _ in range(40):
        model = onnx.ModelProto()
        model.CopyFrom(original)
        node = rng.choice(model.graph.node)
        tensor = rng.choice(model.graph.initializer)
        number = int(rng.choice([0, -1, 3, 100, 2**31, 2**40, -(2**62)]))
        attribute = rng.choice(node.attribute) if node.attribute else onnx.AttributeProto()
        attribute.i, attribute.ints[-1:] = number, [number]
        mutation = rng.integers(4)
        if mutation == 0:
            tensor.dims[:1] = [number]
        elif mutation == 1:
            node.op_type = str(rng.choice(sorted(OPERATORS)))
        elif mutation == 2:
            del node.input[-1:]
        (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
        with contextlib.suppress(MtfImagingError):
            mi.networks.load(tmp_path / "net.onnx").inputs(**sizes)


@pytest.mark.parametrize("dims", [[4, 3, 3, 2**40], [-1], [4, 3, 3, 4]])
def test_sizes_are_bounded_by_the_file(dims, tmp_path):
    model = convolution()
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(dims)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    assert "the tensor 'stem.1'" in error_of(tmp_path / "net.onnx", DataError)


def test_constants_are_bounded(tmp_path):
    """Graphs that compute huge constants are refused before the constants are computed."""
    build = Builder()
    ones = build("ConstantOfShape", np.array([2**20, 2**20]), name="/ones")
    row = build("Range", np.float32(0), np.float32(2**14), np.float32(1))
    outer = build("Mul", build("Unsqueeze", row, np.array([0])), build("Unsqueeze", row, np.array([1])), name="/outer")
    path = tmp_path / "net.onnx"
    onnx.save(build.model(FREE, ["image", ones, outer]), path)
    text = error_of(path, x=4, y=4)
    for node in ("ConstantOfShape '/ones'", "Mul '/outer'"):
        assert f"{node} computes a constant with" in text
    assert "the limit is 134217728" in text
