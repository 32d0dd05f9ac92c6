"""Whole networks in ONNX files equal ONNX Runtime and TensorFlow, can be trained, and return to ONNX."""

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.networks.onnx import onnx_network
from tests.networks import comparing

pytest.importorskip("onnxruntime")

import onnx

from tests.networks.onnx_models import Builder, check, runtime, saved, weight

INTS = np.int64
FREE = ("batch", 2, "d", "h", "w")


def _kernel(out, into, *window, seed=0):
    return weight(out, into, *window, seed=seed) / np.float32(np.sqrt(into * np.prod(window)))


def nnunet(dtype="float32"):
    """A 3D U-Net as nnU-Net exports it: instance norm, leaky ReLU, strided and transposed convolutions, two scales."""
    build = Builder(17, dtype)

    def block(x, into, out, name, strides=1):
        x = build("Conv", x, _kernel(out, into, 3, 3, 3), weight(out), pads=[1] * 6, strides=[strides] * 3,
                  kernel_shape=[3, 3, 3], name=f"/{name}/conv/Conv")  # fmt: skip
        x = build("InstanceNormalization", x, weight(out, low=0.5), weight(out), name=f"/{name}/norm/Norm")
        return build("LeakyRelu", x, alpha=0.01, name=f"/{name}/nonlin/LeakyRelu")

    skip = block("image", 2, 4, "encoder/stages.0")
    x = block(block(skip, 4, 6, "encoder/stages.1", 2), 6, 6, "encoder/stages.1b")
    coarse = build("Conv", x, _kernel(3, 6, 1, 1, 1), weight(3), name="/decoder/seg_layers.0/Conv")
    x = build(
        "ConvTranspose", x, _kernel(6, 4, 2, 2, 2), weight(4), strides=[2, 2, 2], name="/decoder/transpconvs.0/Up"
    )
    x = block(build("Concat", x, skip, axis=1, name="/decoder/Concat"), 8, 4, "decoder/stages.0")
    fine = build("Conv", x, _kernel(3, 4, 1, 1, 1), weight(3), name="/decoder/seg_layers.1/Conv")
    return build.model({"image": (FREE, dtype)}, [fine, coarse])


def monai(dtype="float32"):
    """A residual 3D network with batch norm, PReLU and linear up-sampling to the size of a skip connection."""
    build = Builder(18, dtype)

    def unit(x, into, out, strides=1):
        y = build("Conv", x, _kernel(out, into, 3, 3, 3), weight(out), pads=[1] * 6, strides=[strides] * 3)
        y = build("BatchNormalization", y, weight(out, low=0.5), weight(out), weight(out), weight(out, low=0.5))
        y = build("PRelu", y, np.full([1], 0.25, np.float32))
        shortcut = build("Conv", x, _kernel(out, into, 3, 3, 3, seed=1), pads=[1] * 6, strides=[strides] * 3)
        return build("Add", y, shortcut)

    skip = unit("image", 2, 4)
    x = unit(skip, 4, 6, 2)
    sizes = build("Slice", build("Shape", skip), np.array([2], INTS), np.array([5], INTS))
    head = build("Slice", build("Shape", x), np.array([0], INTS), np.array([2], INTS))
    full = build("Concat", head, sizes, axis=0)
    x = build("Resize", x, "", "", full, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    x = unit(build("Concat", x, skip, axis=1), 10, 4)
    x = build("Softmax", build("Conv", x, _kernel(3, 4, 1, 1, 1), weight(3)), axis=1)
    return build.model({"image": (FREE, dtype)}, [x])


def classifier(dtype="float32"):
    """A residual 2-D classifier with max-pooling, global average pooling and a fully connected layer."""
    build = Builder(13, dtype)

    def norm(x, out):
        return build("BatchNormalization", x, weight(out, low=0.5), weight(out), weight(out), weight(out, low=0.5))

    x = build("Relu", norm(build("Conv", "image", _kernel(6, 3, 5, 5), strides=[2, 2], pads=[2] * 4), 6))
    x = build("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = build("Relu", norm(build("Conv", x, _kernel(8, 6, 3, 3), strides=[2, 2], pads=[1] * 4), 8))
    y = norm(build("Conv", y, _kernel(8, 8, 3, 3), pads=[1] * 4), 8)
    x = build("Relu", build("Add", y, norm(build("Conv", x, _kernel(8, 6, 1, 1), strides=[2, 2]), 8)))
    x = build("Flatten", build("GlobalAveragePool", x))
    x = build("Gemm", x, _kernel(5, 8), weight(5), transB=1, name="fc")
    return build.model({"image": (("batch", 3, "height", "width"), dtype)}, [x])


def transformer(dtype="float32"):
    """A block of a vision transformer: patches, attention with two heads, and a multilayer perceptron."""
    build, width = Builder(17, dtype), 8

    def linear(x, into, out, name):
        return build("Add", weight(out), build("MatMul", x, _kernel(into, out), name=name), name=f"{name}/bias")

    x = build("Conv", "image", _kernel(width, 2, 2, 2), weight(width), strides=[2, 2])
    shape = build("Concat", build("Slice", build("Shape", x), np.array([0], INTS), np.array([2], INTS)),
                  np.array([-1], INTS), axis=0)  # fmt: skip
    tokens = build("Transpose", build("Reshape", x, shape), perm=[0, 2, 1])
    y = build("LayerNormalization", tokens, weight(width, low=0.5), weight(width), axis=-1)
    y = build("Reshape", linear(y, width, 3 * width, "qkv"), np.array([0, -1, 3, 2, width // 2], INTS))
    y = build("Transpose", y, perm=[2, 0, 3, 1, 4])
    query, key, value = (build("Gather", y, np.array(i, INTS), axis=0) for i in range(3))
    scores = build("MatMul", query, build("Transpose", key, perm=[0, 1, 3, 2]))
    scores = build("Softmax", build("Div", scores, np.float32(2)), axis=-1)
    y = build("Transpose", build("MatMul", scores, value), perm=[0, 2, 1, 3])
    y = linear(build("Reshape", y, np.array([0, 0, width], INTS)), width, width, "projection")
    tokens = build("Add", tokens, y)
    hidden = linear(tokens, width, 12, "hidden")
    erf = build("Erf", build("Div", hidden, np.float32(np.sqrt(2))))
    hidden = build("Mul", build("Mul", hidden, build("Add", erf, np.float32(1))), np.float32(0.5))
    tokens = build("Add", tokens, linear(hidden, 12, width, "output"))
    x = build("Reshape", build("Transpose", tokens, perm=[0, 2, 1]), build("Shape", x))
    x = build("ConvTranspose", x, _kernel(width, 3, 2, 2), strides=[2, 2])
    return build.model({"image": (("batch", 2, "height", "width"), dtype)}, [x])


NETWORKS = {
    "nnunet": (nnunet, {"batch": 2, "x": 8, "y": 6, "z": 4}),
    "monai": (monai, {"batch": 2, "x": 8, "y": 6, "z": 4}),
    "classifier": (classifier, {"batch": 2, "x": 20, "y": 16}),
    "transformer": (transformer, {"batch": 2, "x": 12, "y": 8}),
}


SLOW = pytest.mark.slow


@pytest.mark.parametrize("layout", ["split", "in turns", *(pytest.param(x, marks=SLOW) for x in ("whole", "uneven"))])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, layout, tmp_path):
    build, sizes = NETWORKS[name]
    check(saved(build(), tmp_path), layout, sizes, gradients=False)


@pytest.mark.parametrize("layout", ["uneven", *(pytest.param(x, marks=SLOW) for x in ("whole", "in turns"))])
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients(name, layout, tmp_path):
    build, sizes = NETWORKS[name]
    check(saved(build("float64"), tmp_path), layout, sizes, tolerance=1e-9, against_runtime=False)


@pytest.mark.parametrize("layout", ["whole", "split"])
def test_training_and_export(layout, tmp_path):
    """A step updates weights and statistics, and ONNX Runtime computes the exported network as the program does."""
    network = mi.networks.load(saved(monai(), tmp_path))
    specs = network.inputs(**NETWORKS["monai"][1])
    (image,) = comparing.arrays(specs).values()
    options = comparing.layout_of(layout, specs)

    def step(image):
        loss = mi.mtf.reduce_mean(mi.mtf.square(network(training=True, image=image)))
        variables = [v.outputs[0] for v in loss.mesh.graph.trainable_variables]
        for variable, gradient in zip(variables, mi.mtf.gradients([loss], variables), strict=True):
            mi.mtf.assign(variable, variable - 0.1 * gradient)
        return loss

    program = mi.Program(step, specs, **options)
    before = {name: v.numpy() for name, v in program.variables.items()}
    program(image=image)
    changed = {name for name, v in program.variables.items() if np.any(v.numpy() != before[name])}
    assert {*network.weights} - changed <= {name for name in network.weights if "Conv" in name and name.endswith(".2")}
    trained = mi.Program(network, specs, variables=program)
    onnx.save(network.export(program), tmp_path / "trained.onnx")
    (wanted,) = runtime(tmp_path / "trained.onnx", {"image": image})
    np.testing.assert_allclose(trained(image=image), wanted, 1e-5, 1e-6)


def test_statistics_in_training(tmp_path):
    """The moving statistics are averages with the momentum of the file."""
    build = Builder(15)
    y = build("BatchNormalization", "image", *(weight(3, seed=i, low=0.5) for i in range(4)), momentum=0.7, name="norm")
    network = mi.networks.load(saved(build.model({"image": (("n", 3, "h", "w"), "float32")}, [y]), tmp_path))
    specs = network.inputs(batch=2, x=4, y=5)
    (image,) = comparing.arrays(specs).values()
    program = mi.Program(lambda image: network(training=True, image=image), specs)
    before = {name: v.numpy() for name, v in program.variables.items()}
    y = program(image=image)
    mean, variance = image.mean((0, 1, 2)), image.var((0, 1, 2))
    np.testing.assert_allclose(
        y, (image - mean) / np.sqrt(variance + 1e-5) * before["norm.1"] + before["norm.2"], 1e-5, 1e-5
    )
    np.testing.assert_allclose(program.variables["norm.3"], 0.7 * before["norm.3"] + 0.3 * mean, 1e-5)
    np.testing.assert_allclose(program.variables["norm.4"], 0.7 * before["norm.4"] + 0.3 * variance * 40 / 39, 1e-5)


def test_names_and_shapes(tmp_path):
    network = mi.networks.load(saved(nnunet(), tmp_path))
    assert network.inputs(x=8, y=6, z=4) == {"image": ("batch:1,x:8,y:6,z:4,channels:2", comparing.tf.float32)}
    assert "encoder/stages.0/conv/Conv.1" in network.weights
    source = onnx_network(tmp_path / "net.onnx")
    assert all(weight.trainable for weight in source.weights.values())
